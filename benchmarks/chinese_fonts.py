"""The Chinese fonts of the documents, cut from Noto Serif CJK: the characters of common texts, and all that reports say.

`python benchmarks/chinese_fonts.py FOLDER` reads NotoSerifCJK-Regular.ttc and NotoSerifCJK-Bold.ttc from a folder (in
Debian the package fonts-noto-cjk has them) and writes the two files beside the other fonts of reports.
"""

import io
import sys
from pathlib import Path

from fontTools import subset
from fontTools.ttLib import TTCollection

from reports.formats.pdf import FONTS
from reports.words.languages import zh

FAMILY = "Noto Serif CJK SC"
WEIGHTS = ("Regular", "Bold")
COMMON_ROWS = range(0xB0, 0xD8)  # of GB 2312: level 1, the 3,755 characters in common use


def common() -> str:
    """The characters of GB 2312, level 1, with its punctuation and full-width forms.

    >>> len(common()) > 3755 and "隐" in common()
    True
    """
    rows = (0xA1, 0xA3, *COMMON_ROWS)
    codes = (bytes((row, column)) for row in rows for column in range(0xA1, 0xFF))
    return "".join(code.decode("gb2312", errors="ignore") for code in codes)


def texts() -> str:
    """Every character of the Chinese sentences."""
    return "".join((*zh.SENTENCES.values(), *zh.RECORDED.values()))


def cut(collection: bytes, characters: str) -> bytes:
    """The simplified Chinese face of a collection with these characters alone."""
    faces = TTCollection(io.BytesIO(collection), lazy=True).fonts
    face = next(face for face in faces if face["name"].getDebugName(1).startswith(FAMILY))
    options = subset.Options(
        layout_features=[], name_IDs=[0, 1, 2, 3, 4, 5, 6, 13, 14], desubroutinize=False, notdef_outline=True
    )
    cutter = subset.Subsetter(options)
    cutter.populate(unicodes={ord(character) for character in characters if ord(character) > 0x7F})
    cutter.subset(face)
    face.recalcTimestamp = False
    target = io.BytesIO()
    face.save(target)
    return target.getvalue()


if __name__ == "__main__":
    for weight in WEIGHTS:
        source = (Path(sys.argv[1]) / f"NotoSerifCJK-{weight}.ttc").read_bytes()
        characters = common() + texts() if weight == "Regular" else texts()
        (FONTS / f"NotoSerifCJKsc-{weight}.otf").write_bytes(cut(source, characters))
