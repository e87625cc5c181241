"""A TorchScript archive, rewritten before torch reads it, and its graphs, vetted before they are run.

What is rewritten: one folder, each entry once, nothing but code, tensors and the two pickles that torch's own C++ reader takes,
which ask for tensors and the classes of the code only. Reading them runs nothing: the one method that reading would run,
`__setstate__`, is refused, and so is what `audit.subjects._torchscript_source` finds in the code.
"""

import io
import pickletools
import re
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from audit.core.errors import DataError
from audit.data.source import DAMAGE
from audit.subjects import _operators
from audit.subjects._unpacking import refuse_bomb

_NEEDED_PATHS = re.compile(r"(data|constants)(\.pkl|/\d+)|(\.data/)?version|byteorder|code/[\w./]+\.py", re.ASCII)
_OMISSIONS = re.compile(r"code/[\w./]+\.debug_pkl|\.data/serialization_id|traced_inputs(\.pkl|/\d+)|extra/.*", re.ASCII)
_RUN_BY_THE_READER = (b"__setstate__", b"__forward_hooks__", b"__forward_pre_hooks__")
_CLASS = re.compile(r"__torch__(?!\.torch\.classes\.)(\.\w+)+", re.ASCII)
_GLOBALS = re.compile(
    r"torch\._utils\._rebuild_(tensor_v2|parameter)|collections\.OrderedDict|torch\.\w+Storage|torch\.device"
    r"|torch\.jit\._pickle\.(build_(int|tensor|double|bool)list|build_tensor_from_id|restore_type_tag)"
)
_QUANTISATION = "A quantised model cannot be read this way: "


def rewrite(content: bytes, name: str) -> bytes:
    """A copy of the archive that holds each entry once, and nothing that torch would run while it reads.

    Raises:
        DataError: another file, a damaged one, or an archive in a form that `torch.jit.save` does not write.
    """
    entries = _entries(content, name)
    for path, body in entries.items():
        if path.endswith(".pkl"):
            _refuse_foreign(_targets(body, path, name), path, name)
        hooks = [word.decode() for word in _RUN_BY_THE_READER if path.endswith(".py") and word in body]
        if hooks:
            raise DataError(
                f"{name} is refused: its code ({path}) defines {hooks[0]}, which would be run before it can be checked. "
                f"{_QUANTISATION}export the plain classifier instead"
            )
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as archive:
        for path, body in entries.items():
            archive.writestr(f"model/{path}", body)
    return copy.getvalue()


def vet_graphs(module: Any, name: str) -> None:
    """Raise `DataError` naming the first operator of the loaded module that is not on the allow-list.

    All methods of all submodules are looked at, with every function and method they call put in their place, and every block.
    """
    for layer in module.modules():
        for method in layer._c._method_names():
            graph = layer._c._get_method(method).graph.copy()
            torch._C._jit_pass_inline(graph)
            for node in _nodes(graph):
                space, _, operator = node.kind().partition("::")
                if not _operators.harmless(space, operator) or any(node.kindOf(key) in ("g", "gs") for key in _keys(node)):
                    raise DataError(
                        f"{name} is refused: its method {method} of {layer.original_name} calls {node.kind()}, which is not "
                        "among the operators that a classifier needs; export the plain classifier instead, or use torch.export"
                    )


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _keys(node: Any) -> list[str]:
    return list(node.attributeNames())


def _entries(content: bytes, name: str) -> dict[str, bytes]:
    """The kept entries by their path inside the one folder."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            entries = [entry for entry in archive.infolist() if not entry.is_dir()]
            _refuse_ambiguous([entry.filename for entry in entries], name)
            paths = {entry.filename.partition("/")[2]: entry for entry in entries}
            _refuse_unknown(paths, name)
            entries_used = {path: entry for path, entry in paths.items() if _NEEDED_PATHS.fullmatch(path)}
            refuse_bomb(list(entries_used.values()), len(content), name)
            return {path: archive.read(entry) for path, entry in entries_used.items()}
    except DAMAGE as error:
        raise DataError(
            f"{name} is not a complete TorchScript archive: {error}. Expected what torch.jit.save writes"
        ) from error


def _refuse_ambiguous(names: list[str], name: str) -> None:
    """Readers differ in which of two entries they take: torch ignores the case of letters."""
    folders = sorted({path.partition("/")[0] for path in names})
    if len(folders) != 1:
        raise DataError(f"{name} is refused: it holds {len(folders)} folders ({', '.join(folders[:3])}); expected exactly one")
    if len({path.lower() for path in names}) < len(names):
        raise DataError(f"{name} is refused: it holds two entries of one name; expected what torch.jit.save writes")


def _refuse_unknown(paths: Mapping[str, Any], name: str) -> None:
    if "constants.pkl" not in paths:
        kind = "a plain torch.save file" if "data.pkl" in paths else "another archive"
        raise DataError(
            f"{name} is {kind}, not TorchScript. A pickled module could run code and is never loaded: save its "
            "state_dict and give --kind state_dict with --factory, or export it with torch.export"
        )
    for path in paths:
        if not _NEEDED_PATHS.fullmatch(path) and not _OMISSIONS.fullmatch(path):
            raise DataError(f"{name} is refused: it holds '{path}'; expected what torch.jit.save writes")


def _targets(body: bytes, path: str, name: str) -> Iterator[str]:
    """The globals that a pickle asks for; the pickle is read as text, never run."""
    try:
        for code, argument, _ in pickletools.genops(body):
            if code.name == "GLOBAL":
                yield str(argument).replace(" ", ".")
            elif code.name in ("STACK_GLOBAL", "INST", "OBJ", "EXT1", "EXT2", "EXT4"):
                yield code.name
    except (*DAMAGE, UnicodeDecodeError) as error:
        raise DataError(f"{name}: '{path}' is damaged ({error}); save the model again") from error


def _refuse_foreign(targets: Iterator[str], path: str, name: str) -> None:
    for target in targets:
        if not _CLASS.fullmatch(target) and not _GLOBALS.fullmatch(target):
            raise DataError(
                f"{name} is refused: its {path} asks for {target}, which no plain classifier needs. "
                f"{_QUANTISATION}export the plain classifier instead"
            )
