"""A TorchScript archive, rewritten before torch reads it, and its graphs, vetted before they are run.

What is rewritten: one folder, each entry once, nothing but code, tensors and the two pickles that torch's own C++ reader takes,
which ask for tensors and the classes of the code only. Reading them runs nothing: the one method that reading would run,
`__setstate__`, is refused. Torch runs some of the code while it merely reads the file: the defaults of arguments and the
constants of classes. Those may be literals and nothing else. What torch then reads is what Python printed from the tree that
was vetted, so that two readers cannot disagree on where a comment, a string or a line ends.
"""

import ast
import io
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator, Mapping
from typing import Any

import torch

from audit.core.errors import DataError
from audit.data.source import DAMAGE
from audit.subjects import _operators
from audit.subjects._unpacking import refuse_bomb

_TYPES = "__annotations__"  # what a class assigns to its entries is a type, which is not run
_TYPE_NODES = (ast.expr_context, ast.Attribute, ast.Name, ast.Subscript, ast.Tuple, ast.List, ast.Constant)
_NUMBERS = frozenset({"inf", "nan"})
_CONSTANTS = "CONSTANTS"  # the table of tensors and texts beside the code
_CALLS = frozenset({"annotate", "torch.device"})
_NEEDED_PATHS = re.compile(r"(data|constants)(\.pkl|/\d+)|(\.data/)?version|byteorder|code/[\w./]+\.py", re.ASCII)
_OMISSIONS = re.compile(r"code/[\w./]+\.debug_pkl|\.data/serialization_id|traced_inputs(\.pkl|/\d+)|extra/.*", re.ASCII)
_RUN_BY_THE_READER = (b"__setstate__", b"__forward_hooks__", b"__forward_pre_hooks__")
_CLASS = re.compile(r"__torch__(?!\.torch\.classes\.)(\.\w+)+", re.ASCII)
_GLOBALS = re.compile(
    r"torch\._utils\._rebuild_(tensor_v2|parameter)|collections\.OrderedDict|torch\.\w+Storage|torch\.device"
    r"|torch\.jit\._pickle\.(build_(int|tensor|double|bool)list|build_tensor_from_id|restore_type_tag)"
)
_QUANTISATION = "A quantised model cannot be read this way: "


def reprint(content: bytes, name: str) -> bytes:
    """The archive with its code printed anew, or `DataError` if torch would run some of it while it reads the file."""
    copy = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as archive, zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as output:
        for entry in archive.infolist():
            body = archive.read(entry)
            output.writestr(entry.filename, _printed(body, entry.filename, name) if entry.filename.endswith(".py") else body)
    return copy.getvalue()


def _printed(body: bytes, path: str, name: str) -> bytes:
    """Return one source, vetted. It is taken as latin-1, so that every byte of a text is its own sign and comes back."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in texts
            tree = ast.parse(body.decode("latin-1"))
        _vet(tree, path, name)
        return (ast.unparse(_TextsInTorchsForm().visit(tree)) + "\n").encode("ascii")
    except DAMAGE as error:
        raise DataError(
            f"{name} is refused: its code ({path}) cannot be read ({error}); save the model again, or use torch.export"
        ) from error


class _TextsInTorchsForm(ast.NodeTransformer):
    """Texts with the escapes that torch reads: octal ones instead of the hexadecimal ones that Python prints."""

    def visit_Constant(self, node: ast.Constant) -> ast.expr:
        if not isinstance(node.value, str):
            return node
        plain = "".join(sign if " " <= sign <= "~" and sign not in '"\\' else f"\\{ord(sign):03o}" for sign in node.value)
        return ast.Name(id=f'"{plain}"')  # whose text is printed as it is


def _vet(tree: ast.Module, path: str, name: str) -> None:
    for node in ast.walk(tree):
        for value in _run_while_reading(node):
            if not _literal(value):
                raise DataError(
                    f"{name} is refused: its code ({path}, line {value.lineno}) computes a default or a constant, which would "
                    "be run before it can be checked. Expected literals, as torch.jit.save writes them; or use torch.export"
                )


def _run_while_reading(node: ast.AST) -> Iterator[ast.expr]:
    """The expressions directly in a node that torch evaluates to read the file."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
        yield from node.args.defaults
        yield from (value for value in node.args.kw_defaults if value is not None)
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        yield from node.decorator_list
    if isinstance(node, ast.ClassDef):
        yield from (keyword.value for keyword in node.keywords)
        for statement in node.body:
            value = getattr(statement, "value", None)
            if value is not None and not _assigns_a_type(statement):
                yield value


def _assigns_a_type(statement: ast.stmt) -> bool:
    """True for `__annotations__["name"] = a.type[of.another]`."""
    if not isinstance(statement, ast.Assign) or len(statement.targets) != 1:
        return False
    target = statement.targets[0]
    names_an_entry = isinstance(target, ast.Subscript) and isinstance(target.value, ast.Name) and target.value.id == _TYPES
    return names_an_entry and all(isinstance(node, _TYPE_NODES) for node in ast.walk(statement.value))


def _literal(value: ast.expr) -> bool:
    """True for numbers, texts, None, lists, tuples and dicts of them, in the forms in which torch writes them."""
    match value:
        case ast.Constant():
            literal = True
        case ast.Name(id=text):
            literal = text in _NUMBERS
        case ast.Attribute(value=ast.Name(id=text)):
            literal = text == _CONSTANTS
        case ast.UnaryOp(operand=operand):
            literal = _literal(operand)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            literal = all(map(_literal, items))
        case ast.Dict(keys=keys, values=values):
            literal = all(key is not None and _literal(key) for key in keys) and all(map(_literal, values))
        case ast.Call(func=function, args=[*_, last], keywords=[]):
            literal = ast.unparse(function) in _CALLS and _literal(last)
        case _:
            literal = False
    return literal


def rewrite(content: bytes, name: str) -> bytes:
    """A copy of the archive with each entry once and nothing that torch would run while it reads, or `DataError`."""
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
    """Raise `DataError` naming the first operator of any method of the loaded module that is not on the allow-list."""
    for layer in module.modules():
        for method in layer._c._method_names():
            graph = layer._c._get_method(method).graph.copy()
            torch._C._jit_pass_inline(graph)
            for node in _nodes(graph):
                space, _, operator = node.kind().partition("::")
                holds_graphs = any(node.kindOf(key) in ("g", "gs") for key in list(node.attributeNames()))
                if not _operators.harmless(space, operator) or holds_graphs:
                    raise DataError(
                        f"{name} is refused: its method {method} of {layer.original_name} calls {node.kind()}, which is not "
                        "among the operators that a classifier needs; export the plain classifier instead, or use torch.export"
                    )


def _nodes(block: Any) -> Iterator[Any]:
    for node in block.nodes():
        yield node
        for inner in node.blocks():
            yield from _nodes(inner)


def _entries(content: bytes, name: str) -> dict[str, bytes]:
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
