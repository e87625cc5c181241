"""The code in a TorchScript archive, read as Python, vetted and printed anew before torch reads it.

Torch runs some of this code while it merely reads the file: the defaults of arguments and the constants of classes. Those may
be literals here and nothing else. What torch then reads is what Python printed from the tree that was vetted, so that two
readers cannot disagree on where a comment, a string or a line ends.
"""

import ast
import io
import warnings
import zipfile
from collections.abc import Iterator

from audit.core.errors import DataError
from audit.data.source import DAMAGE

_TYPES = "__annotations__"  # what a class assigns to its entries is a type, which is not run
_TYPE_NODES = (ast.expr_context, ast.Attribute, ast.Name, ast.Subscript, ast.Tuple, ast.List, ast.Constant)
_NUMBERS = frozenset({"inf", "nan"})
_CONSTANTS = "CONSTANTS"  # the table of tensors and texts beside the code
_CALLS = frozenset({"annotate", "torch.device"})


def reprint(content: bytes, name: str) -> bytes:
    """The archive with its code printed anew.

    Raises:
        DataError: code that cannot be read, or that torch would run while it reads the file.
    """
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
