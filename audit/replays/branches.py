"""The tests in a program's own code, each noted with its outcome as it runs, and turned round on demand.

A path that no draw is led to, since many outcomes must meet there, still begins at a test of the code: the code is compiled
once more from its source with each test handed through `note`, and runs so while a program is replayed.
"""

import ast
import builtins
import contextlib
import copy
import linecache
import types
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, cast

import numpy as np

from audit.replays.origins import DRAWS, Origins
from audit.replays.recording import EVENT, Recording, active

_NOTE = "__audit_note__"
_WATCHED = 1000  # runs of a test in a run, of which the arguments are looked at
_MOST_TESTS = 200_000  # in a run in which tests are turned: a loop may not end there
_NO_TESTS = frozenset(
    "len range sum float int min max zip enumerate list sorted abs round print str dict set tuple super".split()  # noqa: SIM905
) | {_NOTE}
_INNER_CODES = (ast.Lambda, ast.FunctionDef, ast.AsyncFunctionDef, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_PLAIN = (int, float, str, bool, np.bool_, np.int64, np.float64)
Point = tuple[str, int, int, int, str]  # file, line, first and last column of a test, and its kind
Codes = list[types.CodeType]


class TurnedTestsError(RuntimeError):
    """A run in which tests are turned does not end."""


class _Noting(ast.NodeTransformer):
    """Hands tests, comparisons and calls through `note`, and notes that a loop begins."""

    def __init__(self, file: str, origins: Origins) -> None:
        self.file, self.origins = file, origins
        self.drawn = dict[Point, bool]()  # whether its outcome may depend on draws

    def _note(self, node: ast.expr, kind: str, source: ast.expr) -> ast.expr:
        point = (self.file, source.lineno, source.col_offset, source.end_col_offset or 0, kind)
        self.drawn[point] = self.origins.is_drawn(source)
        arguments: list[ast.expr] = [ast.Constant(part) for part in point]
        unknown = [ast.Name(name, ast.Load()) for name in self.origins.unknown_names(source)]
        if not self.drawn[point] and not unknown:
            return node  # of data alone: a loop over all records runs as fast as before
        call = ast.Call(ast.Name(_NOTE, ast.Load()), [*arguments, node, *unknown], [])
        return ast.fix_missing_locations(ast.copy_location(call, node))

    def _test(self, node: ast.expr) -> ast.expr:
        if isinstance(node, ast.BoolOp):
            node.values = [self._test(value) for value in node.values]
            return node
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
            node.operand = self._test(node.operand)
            return node
        if isinstance(node, ast.Constant):
            return node
        return self._note(cast(ast.expr, self.generic_visit(node)), "test", node)

    def visit_If(self, node: Any) -> Any:
        test, node.test = self._test(node.test), ast.Constant(True)
        node = self.generic_visit(node)
        node.test = test
        return node

    visit_While = visit_IfExp = visit_Assert = visit_If

    def visit_comprehension(self, node: ast.comprehension) -> Any:
        tests = [self._test(test) for test in node.ifs]
        node.ifs = []
        node = self.generic_visit(node)  # type: ignore[assignment]
        node.ifs = tests
        return node

    def visit_For(self, node: ast.For) -> Any:
        source = node.iter
        node = self.generic_visit(node)  # type: ignore[assignment]
        node.iter = self._note(node.iter, "loop", source)
        entry_note = ast.Expr(self._note(ast.Constant(True), "loop", source))
        node.body.insert(0, ast.fix_missing_locations(ast.copy_location(entry_note, node.body[0])))
        return node

    def visit_Match(self, node: ast.Match) -> Any:
        source, cases = node.subject, list[ast.match_case]()
        for case in node.cases:
            inner = [part for line in case.body for part in ast.walk(line)]
            if not any(isinstance(part, _INNER_CODES) for part in inner):  # the same body once more, behind a test
                guard = self._note(ast.copy_location(ast.Constant(False), case.pattern), f"case {len(cases)}", source)
                cases.append(ast.match_case(ast.copy_location(ast.MatchAs(), case.pattern), guard, copy.deepcopy(case.body)))
            cases.append(case)
        node.cases = cases
        return self.generic_visit(node)

    def visit_Compare(self, node: ast.Compare) -> Any:
        return self._note(cast(ast.expr, self.generic_visit(node)), "value", node)

    def visit_Call(self, node: ast.Call) -> Any:
        inner = cast(ast.expr, self.generic_visit(node))
        is_number = isinstance(node.func, ast.Name) and node.func.id in _NO_TESTS
        return inner if is_number else self._note(inner, "value", node)


@lru_cache(maxsize=64)
def _compile(file: str, source: str, drawing: frozenset[str]) -> tuple[Codes, Codes, dict[Point, bool]]:
    """Return the codes of a file, those with notes in the same order, and which tests may depend on draws; none without it."""
    try:
        plain = compile(source, file, "exec", dont_inherit=True)
        tree = ast.parse(source)
        noting = _Noting(file, Origins(tree, drawing))
        return _codes(plain), _codes(compile(noting.visit(tree), file, "exec", dont_inherit=True)), noting.drawn
    except (SyntaxError, ValueError, RecursionError):  # no Python file, or a sum of a thousand terms
        return [], [], {}


def _codes(code: types.CodeType) -> Codes:
    return [code, *(inner for part in code.co_consts if isinstance(part, types.CodeType) for inner in _codes(part))]


def _names(code: types.CodeType) -> set[str]:
    return {name for part in _codes(code) for name in part.co_names}


class Branches:
    """The noted codes of a program's functions, and which outcomes of their tests its runs had.

    Attributes:
        drawn: tests that may depend on draws.
        computations: those that were not the outcome of one decision, of which the ledger knows.
        routes: how a run came by an outcome of a test, by test and outcome.
        arguments: of functions with unknown callers, in their tests, by data set: a test whose arguments vary is drawn.
    """

    def __init__(self, functions: list[types.FunctionType]) -> None:
        self.drawn, self.computations, self.routes = set[Point](), set[Point](), dict[tuple[Point, bool], Recording]()
        self.arguments = dict[tuple[Point, int], list[Any]]()
        drawing = frozenset(function.__name__ for function in functions if _names(function.__code__) & DRAWS)
        self._codes: list[tuple[types.FunctionType, types.CodeType, types.CodeType]] = []
        for function in functions:
            code = function.__code__
            if getattr(function, "__builtins__", None) is not vars(builtins):  # names of its own, without the note's
                continue
            linecache.checkcache(code.co_filename)
            source = "".join(linecache.getlines(code.co_filename))
            plain, noting_codes, drawn = _compile(code.co_filename, source, drawing)
            for plain_code, noted_code in zip(plain, noting_codes, strict=True):
                if plain_code == code and list(plain_code.co_positions()) == list(code.co_positions()):
                    self._codes.append((function, code, noted_code))
                    self.drawn |= {point for point, is_drawn in drawn.items() if is_drawn}

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """A scope in which the functions run with notes."""
        setattr(builtins, _NOTE, note)
        for function, _, noting_codes in self._codes:
            function.__code__ = noting_codes
        try:
            yield
        finally:
            for function, plain, _ in self._codes:
                function.__code__ = plain  # the name stays: functions that the program made may be called later

    def visit(self, recording: Recording, data: Any) -> None:
        """Note what the tests of a run on a data set said, which is compared with its replay."""
        self.computations |= recording.computations
        for point, parts in recording.parts.items():
            earlier = self.arguments.setdefault((point, id(data)), parts)
            if any(first != second for first, second in zip(earlier, parts, strict=False)):
                self.drawn.add(point)
        for outcome in recording.tests:
            self.routes.setdefault(outcome, recording)

    def open_tests(self) -> list[tuple[Point, bool]]:
        """Return outcomes that tests which may depend on draws had in no run."""
        points = {point for point, _ in self.routes}
        return [
            (point, outcome)
            for point in sorted(points & self.drawn)
            for outcome in (False, True)
            if (point, outcome) not in self.routes and point in self.computations
        ]


def note(file: str, line: int, start: int, end: int, kind: str, value: Any, *parts: Any) -> Any:  # noqa: PLR0917 (a call that is compiled)
    """Note the outcome of a test and return it, or the other one where that is asked for."""
    recording = active()
    if recording is None:
        return value
    if kind == "test":
        value = bool(value)
    entries, recording.note_place = recording.releases[recording.note_place :], len(recording.releases)
    point, is_test = (file, line, start, end, kind), isinstance(value, bool | np.bool_)
    if not is_test and kind != "loop":
        return value
    outcome = is_test and bool(value)
    if parts and len(watched := recording.parts.setdefault(point, [])) < _WATCHED:
        watched.append([part if type(part) in _PLAIN else None for part in parts])
    if len(entries) != 1 or entries[0].kind != EVENT or np.size(entries[0].output) != 1:
        recording.computations.add(point)  # else it is one decision, of which the ledger knows
    recording.test_count += 1
    if recording.turns and recording.test_count > _MOST_TESTS:
        raise TurnedTestsError("a test that is turned makes a loop without an end")
    if is_test and kind != "loop" and recording.turns.get(point, 0) > recording.turn_log.count(point):
        recording.turn_log.append(point)
        outcome, value = not outcome, type(value)(not outcome)
    recording.tests.add((point, outcome))
    return value
