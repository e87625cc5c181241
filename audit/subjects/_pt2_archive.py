"""A `torch.export` archive, vetted: torch's own loader unpickles, evaluates expressions and compiles text from the file.

Nothing is handed to that loader but a copy with every pickle, guard and stack trace left out, and in which each
remaining text matches a short list of forms.
"""

import ast
import io
import json
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from audit.core.confined.process import form_error
from audit.core.errors import DataError
from audit.data.source import DAMAGE
from audit.subjects import _operators
from audit.subjects._unpacking import refuse_bomb

_NEEDED_PATHS = re.compile(
    r"models/model\.json|archive_format|archive_version|byteorder|\.data/version|data/weights/(model_weights_config\.json|weight_\d+)"
    r"|data/constants/(model_constants_config\.json|tensor_\d+)"
)
_OMISSIONS = re.compile(r"data/sample_inputs/model\.pt|extra/.*|\.data/serialization_id|data/(weights|constants)/\.?")
_OPERATOR = re.compile(
    r"torch\.ops\.(?P<space>aten|prims)\.(?P<name>\w+)\.[A-Za-z0-9_]+"
    r"|torch\.ops\.higher_order\.(wrap_with_set_grad_enabled|wrap_with_autocast|cond)"
    r"|_operator\.(add|sub|mul|neg|pos|floordiv|truediv|mod|pow|eq|ne|lt|le|gt|ge|getitem|and_|or_|not_)"
    r"|torch\.sym_(int|float|max|min|not|ite|sum)|math\.(trunc|ceil|floor)"
)
_DTYPES = {
    1: "uint8",
    2: "int8",
    3: "int16",
    4: "int32",
    5: "int64",
    6: "float16",
    7: "float32",
    8: "float64",
    12: "bool",
    13: "bfloat16",
}  # ScalarType in torch/_export/serde/schema.py
_NAME = re.compile(r"[\w.]*", re.ASCII)
_TEXT = re.compile(r"[\w ,.>\-]*", re.ASCII)
_SYMBOL = re.compile(r"[a-z]{1,3}\d{1,6}", re.ASCII)
_FUNCTIONS = re.compile(
    r"Symbol|Integer|Float|FloorDiv|CleanDiv|CeilDiv|Mod|PythonMod|ModularIndexing|Max|Min|Add|Mul|Pow|Abs"
    r"|Eq|Ne|Le|Ge|Lt|Gt|And|Or|Not|IntTrueDiv|TruncToInt|FloatTrueDiv|PowByNatural"
)
_EXPRESSION_NODES = (
    ast.Expression,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.Call,
    ast.keyword,
    ast.Load,
    ast.operator,
    ast.unaryop,
    ast.cmpop,
)
_REFUSED_KEYS = ("as_custom_obj", "custom_obj", "class_fqn")
_TRAINING_FLAGS = ("train", "training")


def vet(content: bytes, name: str) -> tuple[bytes, dict[str, Any]]:
    """A harmless copy of the archive, and its program as JSON, or `DataError`.

    Refused are older formats, pickles, compiled code, text in a form that is not known to be harmless, and training mode.
    """
    entries = _entries(content, name)
    for path in entries:
        if not _NEEDED_PATHS.fullmatch(path) and not _OMISSIONS.fullmatch(path):
            raise DataError(
                f"{name} is refused: it holds '{path}' (compiled code, a pickled object or a second program). Expected one "
                "program with plain weights as torch.export.save writes it; or give a state dict with --factory"
            )
    files = {path: body for path, body in entries.items() if _NEEDED_PATHS.fullmatch(path)}
    for folder in ("weights", "constants"):
        _check_payloads(_json(files, f"data/{folder}/model_{folder}_config.json", name), name)
    clean = _clean_copy(_json(files, "models/model.json", name), name)
    files["models/model.json"] = json.dumps(clean).encode()
    files["data/sample_inputs/model.pt"] = b""  # torch asks for the entry, and unpickles it if it is not empty
    copy = io.BytesIO()
    with zipfile.ZipFile(copy, "w", zipfile.ZIP_STORED) as archive:
        for path, body in files.items():
            archive.writestr(f"model/{path}", body)
    return copy.getvalue(), clean


@dataclass(frozen=True, slots=True)
class Input:
    """The tensor that a program takes: the only batch size it takes, None if it takes any; the type, a name in torch."""

    batch: int | None
    dtype: str


def input_stated(facts: Mapping[str, Any], name: str) -> Input:
    batch, dtype = facts.get("batch"), facts.get("dtype")
    if not (batch is None or (type(batch) is int and 0 < batch < 2**63)) or dtype not in _DTYPES.values():
        raise form_error(name)
    return Input(batch=batch, dtype=str(dtype))


def only_input(program: Mapping[str, Any], name: str) -> Input:
    try:
        return _input(program, name)
    except DAMAGE as error:
        raise _damage_error(name, error) from error


def _input(program: Mapping[str, Any], name: str) -> Input:
    module = program["graph_module"]
    graph, signature = module["graph"], module["signature"]
    users = [spec["user_input"]["arg"] for spec in signature["input_specs"] if "user_input" in spec]
    tensors = [arg["as_tensor"]["name"] for arg in users if "as_tensor" in arg]
    if len(users) != 1 or len(tensors) != 1:
        raise DataError(f"{name} takes {len(users)} inputs; expected a program that takes one tensor, a batch of records")
    value = graph["tensor_values"][tensors[0]]
    if not value["sizes"]:
        raise DataError(f"{name} takes a single number; expected a batch of records, (n, ...)")
    if value["dtype"] not in _DTYPES:
        raise DataError(f"{name} takes records of type number {value['dtype']}; expected real numbers or integers")
    size = value["sizes"][0].get("as_int")
    return Input(batch=None if size is None else int(size), dtype=_DTYPES[value["dtype"]])


def _entries(content: bytes, name: str) -> dict[str, bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            names = [path for path in archive.namelist() if not path.endswith("/")]
            if "serialized_exported_program.json" in names:
                raise DataError(f"{name} is in the format of torch 2.7 and older, which needs pickle; export it again")
            refuse_bomb(archive.infolist(), len(content), name)
            entries = {path.partition("/")[2]: archive.read(path) for path in names}
    except DAMAGE as error:
        raise DataError(
            f"{name} is not a complete torch.export archive: {error}. Expected what torch.export.save writes"
        ) from error
    if entries.get("archive_format") != b"pt2":
        raise DataError(
            f"{name} is not a torch.export archive (its archive_format is not 'pt2'); expected what torch.export.save writes"
        )
    return entries


def _json(entries: Mapping[str, bytes], path: str, name: str) -> dict[str, Any]:
    try:
        document = json.loads(entries[path])
    except (KeyError, ValueError, RecursionError) as error:
        raise DataError(f"{name}: '{path}' is missing or damaged ({error}); export the model again") from error
    if not isinstance(document, dict):
        raise DataError(f"{name}: '{path}' holds no mapping; export the model again")
    return document


def _check_payloads(config: Mapping[str, Any], name: str) -> None:
    payloads = config.get("config")
    for key, payload in (payloads if isinstance(payloads, dict) else {"": None}).items():
        document = payload if isinstance(payload, dict) else {}
        plain = document.get("use_pickle") is False and re.fullmatch(r"(weight|tensor)_\d+", str(document.get("path_name")))
        if not plain:
            raise DataError(
                f"{name} is refused: its weight '{key}' is stored as a pickle, which could run code; "
                "give plain weights (no tensor subclasses), or a state dict with --factory"
            )
    _clean_copy(config, name)


def _clean_copy(document: Mapping[str, Any], name: str) -> dict[str, Any]:
    """A document without free text; `DataError` if a text has no known form, or the document none that torch writes."""
    try:
        return dict(_clean(document, "", name))
    except DAMAGE as error:
        raise _damage_error(name, error) from error


def _damage_error(name: str, error: BaseException) -> DataError:
    return DataError(
        f"{name}: its program is not of the form that torch.export.save writes ({type(error).__name__}: {error}); "
        "export the model again"
    )


def _clean(value: Any, key: str, name: str) -> Any:
    """The JSON value without free text; `DataError` if a text has no known form."""
    if key == "metadata":
        return {}
    if key == "guards_code":
        return []
    if isinstance(value, dict):
        _refuse_training_mode(value, name)
        for inner in value:
            _demand(_NAME.fullmatch(inner) is not None and inner not in _REFUSED_KEYS, f"the key {inner!r}", name)
        return {inner: _clean(item, inner, name) for inner, item in value.items()}
    if isinstance(value, list):
        return [_clean(item, key, name) for item in value]
    if isinstance(value, str):
        _demand(_harmless(value, key), f"{key} = {value[:80]!r}", name)
    return value


def _harmless(text: str, key: str) -> bool:
    if key in ("target", "as_operator"):  # the loader walks such a path from the torch, operator or math module
        match = _OPERATOR.fullmatch(text)
        return match is not None and (match["space"] is None or _operators.harmless(match["space"], match["name"]))
    if key == "expr_str":
        return _harmless_expression(text)
    if key in ("in_spec", "out_spec"):
        return _harmless_tree(text)
    if key == "torch_version":
        return re.fullmatch(r"[\w.+\-<=]*", text, re.ASCII) is not None
    if key == "as_string":
        return _TEXT.fullmatch(text) is not None
    return _NAME.fullmatch(text) is not None


def _harmless_expression(text: str) -> bool:
    """True for arithmetic on symbols; the loader evaluates such text as Python."""
    if len(text) > 2000:  # deep nesting exhausts the parser's stack, and torch writes no such text
        return False
    try:
        tree = ast.parse(text, mode="eval")
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            harmless = (_FUNCTIONS if id(node) in functions else _SYMBOL).fullmatch(node.id) is not None
        elif isinstance(node, ast.Constant):
            value = node.value
            harmless = isinstance(value, int | float) or (isinstance(value, str) and bool(_SYMBOL.fullmatch(value)))
        else:
            harmless = isinstance(node, _EXPRESSION_NODES)
        if not harmless:
            return False
    return True


def _harmless_tree(text: str) -> bool:
    """True for nested tuples, lists and dicts of leaves; other node types can import modules when they are read."""
    if text == "":
        return True
    try:
        tree = json.loads(text)
    except (ValueError, RecursionError):
        return False
    return isinstance(tree, list) and len(tree) == 2 and tree[0] == 1 and _harmless_node(tree[1])


def _harmless_node(node: Any) -> bool:
    if not isinstance(node, dict) or set(node) != {"type", "context", "children_spec"}:
        return False
    kind, context, children = node["type"], node["context"], node["children_spec"]
    if kind not in (None, "builtins.tuple", "builtins.list", "builtins.dict") or not isinstance(children, list):
        return False
    if context is not None and (not isinstance(context, str) or not re.fullmatch(r'null|\[[\w", ]*\]', context, re.ASCII)):
        return False
    return all(_harmless_node(child) for child in children)


def _refuse_training_mode(node: Mapping[str, Any], name: str) -> None:
    """Dropout and batch statistics that were exported switched on stay on: such a model is not the deployed one."""
    target = node.get("target")
    if not isinstance(target, str) or not re.match(r"torch\.ops\.aten\.(\w*dropout|\w*batch_norm)", target):
        return
    for argument in node.get("inputs", []):
        is_flag = isinstance(argument, dict) and argument.get("name") in _TRAINING_FLAGS
        if is_flag and argument.get("arg", {}).get("as_bool") is True:
            raise DataError(f"{name} was exported in training mode ({target} is on); call .eval() before torch.export.export")


def _demand(holds: bool, content: str, name: str) -> None:
    if not holds:
        raise DataError(
            f"{name} is refused: it contains {content}, which no exported classifier needs and which the loader could "
            "run as code. Export the model again, or give a state dict with --factory"
        )
