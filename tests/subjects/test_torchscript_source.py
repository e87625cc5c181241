"""Code that torch runs while it merely reads a TorchScript file is refused; what torch.jit.save writes stays as it is."""

from __future__ import annotations

import enum
import io
import warnings
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from torch import nn

from audit import plugins
from audit.core.errors import DataError
from audit.subjects import _torchscript_archive
from tests.subjects.test_hostile_models import with_code
from tests.subjects.watcher import watched

pytestmark = pytest.mark.usefixtures("models_in_this_process")
SIGNATURE, BODY = "    x: Tensor) -> Tensor", "  training : bool\n"
FILE = 'torch.from_file("{target}", True, 12, dtype=0)'
RUN_BY_THE_READER = {
    "a default": (SIGNATURE, f"    x: Tensor, y: Tensor={FILE}) -> Tensor"),
    "a default inside a list": (SIGNATURE, f"    x: Tensor, y: List[Tensor]=[{FILE}]) -> Tensor"),
    "a default inside a conversion": (SIGNATURE, f"    x: Tensor, y: int=int(torch.sum({FILE}))) -> Tensor"),
    "a default of a chosen name": (SIGNATURE, f"    x: Tensor, y: Tensor=annotate(Tensor, {FILE})) -> Tensor"),
    "a default behind a comment that Python ends sooner": (
        SIGNATURE,
        f"    x: Tensor, # a comment\r y: Tensor={FILE}) -> Tensor",
    ),
    "a default behind a form feed": (SIGNATURE, f"    x: Tensor,\f y: Tensor={FILE}) -> Tensor"),
    "a constant of a class": (BODY, f"  zz : Final[Tensor] = {FILE}\n{BODY}"),
    "a constant of a class by a subscript": (BODY, f'  zz : Final[Tensor] = [{FILE}][0]\n{BODY}'),
    "a type": (BODY, f'  __annotations__["zz"] = {FILE}\n{BODY}'),
    "a statement of a class": (BODY, f"  {FILE}\n{BODY}"),
}  # fmt: skip


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", RUN_BY_THE_READER)
def test_what_torch_would_run_while_it_reads_is_refused(tmp_path: Path, name: str) -> None:
    old, new = RUN_BY_THE_READER[name]
    path = with_code(tmp_path / "m.ts", old, new.format(target=tmp_path / "written"))
    with watched(tmp_path / "scratch"), pytest.raises(DataError, match=r"m\.ts (is refused: its code|cannot be loaded)"):
        plugins.build("audit.subjects", {"kind": "torchscript", "path": str(path)})


def test_code_that_no_parser_reads_is_refused(tmp_path: Path) -> None:
    for text in ("  def def\n", f"  zz : Final[int] = {'-' * 20_000}1\n", f"  zz : Final[int] = {'(' * 5000}1\n", "  \0\n"):
        path = with_code(tmp_path / "m.ts", BODY, text + BODY)
        with pytest.raises(DataError, match=r"m\.ts is refused: its code .* cannot be read"):
            plugins.build("audit.subjects", {"kind": "torchscript", "path": str(path)})


class Pair(NamedTuple):
    first: torch.Tensor
    second: int = 3


class Kind(enum.Enum):
    PLAIN = 1
    LATIN = 2


class Rich(nn.Module):
    """Every form of default, constant and text that a module may have."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.kind = Kind.LATIN
        self.weights = {"é\n'\"": 2.0, "b": 1.0}

    def forward(  # noqa: PLR0917
        self,
        x: torch.Tensor,
        far: float = float("inf"),
        small: float = 1e-5,
        less: int = -3,
        text: str = "é\t\\ '\" \x01",
        none: int | None = None,
        flag: bool = True,
        kind: torch.dtype = torch.float32,
    ) -> torch.Tensor:
        assert x.size(1) == 3, "é: three, please"
        if self.kind == Kind.LATIN and flag and text == "é\t\\ '\" \x01":
            x = x * self.weights["é\n'\""]
        pair = Pair(x.to(kind), less)
        i = 0
        while i < 3 and float(x.sum()) < far:
            x = pair.first + i * small + pair.second
            i += 1
        return self.layer(x)


ORDINARY = {
    "rich": (Rich, (4, 3)),
    "convolutions": (lambda: nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Dropout2d(), nn.Flatten()), (2, 1, 5, 5)),
    "upsampling": (lambda: nn.Sequential(nn.Upsample(scale_factor=2.0), nn.AdaptiveAvgPool2d(1), nn.Flatten()), (2, 1, 4, 4)),
    "many layers": (lambda: nn.Sequential(*[nn.Linear(3, 3) for _ in range(20)]), (4, 3)),
    "attention": (lambda: nn.TransformerEncoderLayer(4, 2, 8, batch_first=True), (2, 3, 4)),
}


@pytest.mark.sampled(3)
@pytest.mark.parametrize("form", ["scripted", "traced", "frozen"])
@pytest.mark.parametrize("name", [*list(ORDINARY)[:-1], pytest.param("attention", marks=pytest.mark.slow)])
def test_ordinary_code_is_printed_anew_to_the_same_outputs(name: str, form: str) -> None:
    make, shape = ORDINARY[name]
    module, x = make().eval(), torch.ones(shape)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        script = torch.jit.trace(module, x, check_trace=False) if form == "traced" else torch.jit.script(module)
        script = torch.jit.freeze(script) if form == "frozen" else script
        file = io.BytesIO()
        torch.jit.save(script, file)
        again = torch.jit.load(
            io.BytesIO(_torchscript_archive.reprint(_torchscript_archive.rewrite(file.getvalue(), "m"), "m"))
        ).eval()
    _torchscript_archive.vet_graphs(again, "m")
    with torch.no_grad():
        assert torch.equal(again(x), script(x))
