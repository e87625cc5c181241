"""Events as a person types them: `dp_sgd(noise_multiplier=1, sample_rate=0.01, steps=1000) + 20 * Laplace(10)`.

The names are those of `audit.core.events`, or of dp-accounting's events, so that the text of one of those is read as well.
`+` composes, `*` with a whole number repeats, numbers may be written as `256/60000`. Nothing is executed.
"""

import ast
import dataclasses
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from audit import plugins
from audit.accounting import foreign_events
from audit.core.errors import ConfigError
from audit.core.event_forms import kinds_by_name
from audit.core.events import Composed, Event, Repeated, dp_sgd, sgd

MOST_CHARACTERS = 100_000
_LARGEST_POWER = 64  # 9**9**9 would compute for hours
_OPERATORS: Mapping[type, Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.Pow: operator.pow,
}
_TRAININGS: Mapping[str, tuple[Callable[..., Event], tuple[str, ...], Mapping[str, Any]]] = {
    "dp_sgd": (dp_sgd, ("noise_multiplier", "sample_rate", "steps"), {"clip_norm": 1.0}),
    "DpSgd": (dp_sgd, ("noise_multiplier", "sample_rate", "steps"), {"clip_norm": 1.0}),
    "sgd": (sgd, ("sample_rate", "steps"), {}),
}


def parse(text: str) -> Event:
    """Return the event that an expression represents; `ConfigError` says what is wrong, at which column, and what there is.

    >>> parse("3 * Gaussian(2.0) + Laplace(noise_multiplier=1/2)").parts[0].count
    3
    """
    if len(text) > MOST_CHARACTERS:
        raise ConfigError(f"the expression holds {len(text):,} characters; expected at most {MOST_CHARACTERS:,}")
    try:
        tree = ast.parse(text.strip(), mode="eval").body
        event = _value(tree)
    except SyntaxError as error:
        raise ConfigError(f"cannot read '{_short(text)}' as an event: {error.msg}, column {error.offset}") from error
    except (ValueError, RecursionError, MemoryError, OverflowError, ZeroDivisionError) as error:
        raise ConfigError(f"cannot read '{_short(text)}' as an event: {error}") from error
    if not isinstance(event, Event):
        raise ConfigError(f"'{_short(text)}' is a number; expected an event such as dp_sgd(1.0, 0.01, 1000)")
    return event


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:77]}..."


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=bool()):  # True is an int
            pass
        case ast.Constant(value=value) if isinstance(value, int | float | str):
            return value
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return tuple(_value(item) for item in items)
        case ast.Dict(keys=keys, values=values) if all(key is not None for key in keys):
            return {_value(key): _value(value) for key, value in zip(keys, values, strict=True) if key is not None}
        case ast.BinOp(left=first, op=symbol, right=second) if type(symbol) in _OPERATORS:
            return _combination(node, _value(first), _value(second))
        case ast.Call(func=function, args=positional, keywords=keywords):
            return _call(node, function, positional, keywords)
    raise ConfigError(f"column {node.col_offset + 1}: '{ast.unparse(node)}' is neither an event nor a number")


def _number(node: ast.expr) -> float:
    value = _value(node)
    if not isinstance(value, int | float):
        raise ConfigError(f"column {node.col_offset + 1}: '{ast.unparse(node)}' is not a number")
    return value


def _combination(node: ast.BinOp, first: Any, second: Any) -> Any:
    """Events composed or repeated, numbers calculated."""
    symbol = type(node.op)
    if isinstance(first, int | float) and isinstance(second, int | float):
        if symbol is ast.Pow and abs(second) > _LARGEST_POWER:
            raise ConfigError(f"column {node.col_offset + 1}: an exponent above {_LARGEST_POWER}")
        return _OPERATORS[symbol](first, second)
    if symbol is ast.Add and isinstance(first, Event) and isinstance(second, Event):
        before = first.parts if isinstance(first, Composed) else (first,)  # a + b + c is one composition of three
        return Composed(parts=(*before, second))
    if symbol is ast.Mult and isinstance(first, Event) != isinstance(second, Event):
        event, count = (first, second) if isinstance(first, Event) else (second, first)
        if isinstance(count, int):
            return Repeated(mechanism=event, count=count)
    raise ConfigError(
        f"column {node.col_offset + 1}: '{_short(ast.unparse(node))}' makes no event; expected event + event, count * event"
    )


def _call(node: ast.Call, function: ast.expr, positional: Sequence[ast.expr], keywords: Sequence[ast.keyword]) -> Event:
    name = function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")
    values = [_value(item) for item in positional]
    fields = {keyword.arg: _value(keyword.value) for keyword in keywords if keyword.arg is not None}
    if len(fields) < len(keywords):
        raise ConfigError(f"column {node.col_offset + 1}: '**' is not read here; write every field")
    if name.endswith("DpEvent"):
        return foreign_events.build(name, values, fields)
    build, names, defaults = _builder(name, node)
    if len(values) > len(names):
        raise ConfigError(f"column {node.col_offset + 1}: {name} takes {len(names)} values ({', '.join(names)})")
    arguments = {**defaults, **dict(zip(names, values, strict=False)), **fields}
    for key in fields:
        if key not in (*names, *defaults, "unit"):
            takes = ", ".join(names)
            raise ConfigError(
                f"column {node.col_offset + 1}: {name} has no '{key}'.{plugins.hint(key, names)} It takes: {takes}"
            )
    _check_children(name, arguments, node)
    try:
        return build(**arguments)
    except TypeError as error:
        raise ConfigError(f"column {node.col_offset + 1}: {name} takes {', '.join(names)}: {error}") from error


def _check_children(name: str, arguments: Mapping[str, Any], node: ast.Call) -> None:
    children = [arguments["mechanism"]] if "mechanism" in arguments else []
    parts = arguments.get("parts", ())
    if not isinstance(parts, tuple) or not all(isinstance(child, Event) for child in (*children, *parts)):
        raise ConfigError(
            f"column {node.col_offset + 1}: {name} is around events; expected {name}(event, ...), its parts a list"
        )


def event_names() -> tuple[str, ...]:
    """Return the names that an expression may call."""
    return (*_TRAININGS, *kinds_by_name())


def _builder(name: str, node: ast.Call) -> tuple[Callable[..., Event], tuple[str, ...], Mapping[str, Any]]:
    if name in _TRAININGS:
        return _TRAININGS[name]
    kinds = kinds_by_name()
    if name not in kinds:
        names = event_names()
        raise ConfigError(
            f"column {node.col_offset + 1}: there is no event '{name}'.{plugins.hint(name, names)} Events: {', '.join(names)}"
        )
    kind = kinds[name]
    names = tuple(field.name for field in dataclasses.fields(kind) if field.name != "unit")  # type: ignore[arg-type]
    return kind, names, {}
