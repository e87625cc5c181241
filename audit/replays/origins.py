"""Which expressions of a program's source may depend on what it draws, and which on its data alone.

Names are followed through assignments, branches, loops and calls by name, without their order: what is not followed is drawn.
"""

import ast
from collections.abc import Iterable, Iterator

DRAWS = frozenset(
    "random secrets rng default_rng RandomState Generator randn rand randint laplace normal uniform exponential gumbel choice "  # noqa: SIM905
    "choices shuffle permutation randperm bernoulli multinomial poisson binomial geometric logistic integers standard_normal "
    "gauss sample rsample rvs uuid4 urandom randrange getrandbits multivariate_normal normal_ uniform_ bernoulli_ randn_like "
    "rand_like laplace_ exponential_ distributions time time_ns monotonic perf_counter bytes standard_exponential "
    "standard_gamma standard_cauchy standard_t expovariate betavariate gammavariate lognormvariate normalvariate paretovariate "
    "vonmisesvariate weibullvariate triangular vonmises rayleigh pareto weibull zipf lognormal negative_binomial "
    "hypergeometric chisquare dirichlet randbytes token_bytes token_hex randbelow permuted".split()
)
_DRAWING_MODULES = ("random", "secrets", "numpy.random", "torch.distributions", "scipy.stats")
_GENERATOR_NAMES = frozenset(("r", "g", "rng", "gen", "generator", "rand", "rs", "random_state", "prng", "state"))
Unit = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
_UNITS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


class Origins:
    """The names of a module that may hold something drawn.

    Args:
        tree: of its source.
        drawing: names of functions elsewhere that draw.
    """

    def __init__(self, tree: ast.Module, drawing: Iterable[str]) -> None:
        self._drawn = set[tuple[int, str]]()  # a function's id (0: the module), and a name of it that holds draws
        self._unknown = set[tuple[int, str]]()
        self._attributes = set[str]()  # of any object, once one of the name holds draws
        self._drawing = set(drawing)  # names of functions with a result that may be drawn
        self._loops = set[int]()  # left early where a draw says so
        self._parents: dict[int, int] = {}
        self._own: dict[int, set[str]] = {0: set()}
        self._units: list[tuple[int, Unit]] = []
        self._unit_of: dict[int, int] = {}
        self._calls: dict[str, list[tuple[int, ast.Call]]] = {}
        self._collect(tree, 0)
        self._functions = {node.name for _, node in self._units if not isinstance(node, ast.Lambda)}
        before = -1
        while before != (before := len(self._drawn) + len(self._drawing) + len(self._loops) + len(self._attributes)):
            self._block(tree.body, 0, False, None)
            for unit, node in self._units:
                self._parameters(unit, node)
                if isinstance(node, ast.Lambda):
                    continue
                self._name = node.name
                self._block(node.body, unit, False, None)
        self.answers = {id(node): self._is_drawn(node, unit) for node, unit in self._nodes(tree) if isinstance(node, ast.expr)}

    def is_drawn(self, node: ast.expr) -> bool:
        """True if an expression of the tree may depend on a draw."""
        return self.answers.get(id(node), True)

    def unknown_names(self, node: ast.expr) -> list[str]:
        """Return arguments in an expression that come from callers which are not known."""
        names = dict.fromkeys(part.id for part in ast.walk(node) if isinstance(part, ast.Name))
        return [name for name in names if (self._unit_of.get(id(node), 0), name) in self._unknown]

    def _collect(self, node: ast.AST, unit: int) -> None:
        for child in ast.iter_child_nodes(node):
            inner = unit
            if isinstance(child, ast.Name) and isinstance(child.ctx, ast.Store):
                self._own[unit].add(child.id)
            if isinstance(child, ast.Global | ast.Nonlocal):
                self._drawn |= {(0, name) for name in child.names}
            if isinstance(child, ast.ImportFrom) and child.module in _DRAWING_MODULES:
                self._drawing |= {part.asname or part.name for part in child.names}
            if isinstance(child, ast.Call) and isinstance(child.func, ast.Name):
                self._calls.setdefault(child.func.id, []).append((unit, child))
            if isinstance(child, _UNITS):
                inner = id(child)
                self._units.append((inner, child))
                self._parents[inner] = unit
                arguments = child.args
                names = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg]
                self._own[inner] = {part.arg for part in names if part is not None}
                if not isinstance(child, ast.Lambda):
                    self._own[unit].add(child.name)
            self._unit_of[id(child)] = inner
            self._collect(child, inner)

    def _nodes(self, tree: ast.Module) -> Iterator[tuple[ast.AST, int]]:
        return ((node, self._unit_of.get(id(node), 0)) for node in ast.walk(tree))

    def _holds_draws(self, name: str, unit: int) -> bool:
        while name not in self._own[unit] and unit:
            unit = self._parents[unit]
        return (unit, name) in self._drawn

    def _is_drawn(self, node: ast.AST | None, unit: int) -> bool:
        for part in ast.walk(node) if node is not None else ():
            if isinstance(part, ast.Attribute) and (part.attr in DRAWS or part.attr in self._attributes):
                return True
            if isinstance(part, ast.Name):
                if part.id in DRAWS or part.id in self._drawing:
                    return True
                if self._holds_draws(part.id, self._unit_of.get(id(part), unit)):
                    return True
        return False

    def _parameters(self, unit: int, node: Unit) -> None:
        """Note which parameters hold draws, by the calls of a function; if these are unknown, all but the first are watched."""
        arguments = [*node.args.posonlyargs, *node.args.args]
        names = [part.arg for part in arguments]
        extra = [part.arg for part in (node.args.vararg, node.args.kwarg, *node.args.kwonlyargs) if part is not None]
        calls = [] if isinstance(node, ast.Lambda) else self._calls.get(node.name, [])
        drawn = set[str]()
        if calls:
            for caller, call in calls:
                values = zip([*names, *extra[:1] * len(call.args)], call.args, strict=False)
                drawn |= {name for name, value in values if self._is_drawn(value, caller)}
                keywords = [part.arg for part in call.keywords if self._is_drawn(part.value, caller)]
                drawn |= {name for name in keywords if name} | (set(extra) if keywords else set())
        else:
            first = 2 if names[:1] in (["self"], ["cls"]) else 1
            unknown = {*names[first : len(names) - len(node.args.defaults)], *extra}
            self._unknown |= {(unit, name) for name in unknown}
            drawn |= {name for name in unknown if name in _GENERATOR_NAMES}
        self._drawn |= {(unit, name) for name in drawn}

    def _taint(self, target: ast.AST, unit: int) -> None:
        self._attributes |= {target.attr} if isinstance(target, ast.Attribute) else set()
        for part in ast.walk(target):
            if isinstance(part, ast.Name):
                home = unit
                while part.id not in self._own[home] and home:
                    home = self._parents[home]
                self._drawn.add((home, part.id))

    def _block(self, body: list[ast.stmt], unit: int, under: bool, loop: ast.AST | None) -> None:
        for node in body:
            self._statement(node, unit, under or (loop is not None and id(loop) in self._loops), loop)

    def _statement(self, node: ast.stmt, unit: int, under: bool, loop: ast.AST | None) -> None:
        if isinstance(node, (*_UNITS, ast.ClassDef)):
            self._block(node.body if isinstance(node, ast.ClassDef) else [], unit, under, None)
            return
        tests = [part for name in ("test", "iter", "subject") if (part := getattr(node, name, None)) is not None]
        inside = under or any(self._is_drawn(test, unit) for test in tests)
        if isinstance(node, ast.Break | ast.Continue) and under and loop is not None:
            self._loops.add(id(loop))
        if isinstance(node, ast.Return) and unit and (under or self._is_drawn(node.value, unit)):
            self._drawing.add(self._name)
        for target in [*getattr(node, "targets", ()), *([node.target] if hasattr(node, "target") else [])]:
            value = getattr(node, "value", None) or getattr(node, "iter", None)
            if inside or self._is_drawn(value, unit) or (not isinstance(target, ast.Name) and self._is_drawn(target, unit)):
                self._taint(target, unit)
        self._expressions(node, unit, under)
        for name in ("body", "orelse", "finalbody"):
            self._block(getattr(node, name, None) or [], unit, inside, node if isinstance(node, _LOOPS) else loop)
        for branch in [*getattr(node, "handlers", ()), *getattr(node, "cases", ())]:
            self._block(branch.body, unit, inside, loop)

    def _expressions(self, node: ast.stmt, unit: int, under: bool) -> None:
        """Note names that expressions of a statement assign, fill or hand to a method that draws."""
        parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr | ast.withitem)]
        for part in (inner for expression in parts for inner in ast.walk(expression)):
            if isinstance(part, ast.NamedExpr) and (under or self._is_drawn(part.value, unit)):
                self._taint(part.target, unit)
            if isinstance(part, ast.comprehension) and self._is_drawn(part.iter, unit):
                self._taint(part.target, unit)
            if isinstance(part, ast.withitem) and part.optional_vars is not None and self._is_drawn(part.context_expr, unit):
                self._taint(part.optional_vars, unit)
            if not isinstance(part, ast.Call):
                continue
            values = [*part.args, *(keyword.value for keyword in part.keywords)]
            if not isinstance(part.func, ast.Attribute):
                is_own = isinstance(part.func, ast.Name) and part.func.id in self._functions
                if isinstance(node, ast.Expr) and is_own and any(self._is_drawn(value, unit) for value in values):
                    for value in values:
                        self._taint(value, unit)  # filled by it
                continue
            base = part.func.value
            if (
                isinstance(base, ast.Name)
                and isinstance(node, ast.Expr)
                and (under or any(self._is_drawn(value, unit) for value in values))
            ):
                self._taint(base, unit)  # filled with it
            if part.func.attr == "shuffle":
                for value in values:
                    self._taint(value, unit)
