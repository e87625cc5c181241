"""Chinese, in simplified characters."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from reports.words.languages._table import read_table

_TABLES = read_table("zh")
SENTENCES = _TABLES["sentences"]
RECORDED = _TABLES["recorded"] | _TABLES["older"]  # the last: messages of earlier versions, whose reports are still read

FORBIDDEN = (r"安全(?!性|水平|聚合)", r"匿名", r"合规", r"(?<!未)(?<!不)通过")


@dataclass(frozen=True, slots=True)
class Chinese:
    """Chinese, in simplified characters."""

    tag: ClassVar[str] = "zh"
    sentences: ClassVar[Mapping[str, str]] = SENTENCES
    recorded: ClassVar[Mapping[str, str]] = RECORDED
    forbidden: ClassVar[tuple[str, ...]] = FORBIDDEN
    fonts: ClassVar[tuple[str, ...]] = ("Noto Serif CJK SC",)
    spaceless: ClassVar[str] = "\u3000-\u303f\u4e00-\u9fff\uff00-\uffef“”"


PLUGIN = Chinese
