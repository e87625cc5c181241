"""Names are nouns and verbs of the field: pronouns and participles standing alone are not, and a class name means one thing."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import pytest

from audit import plugins

ROOT = Path(__file__).resolve().parents[1]
PACKAGES = ("audit", "attacks", "reports")
MOST = 1 / 1000  # share of names that may be such words
MOST_REGULAR = 4 / 1000  # and that may be other participles standing alone, such as `declared`; lower it, never raise it

# words that say nothing about what a value is; a name is one of them, or ends in one after an underscore
PRONOUNS = frozenset(
    re.findall(
        r"\w+",
        """
    all another any anything both each enough even every everything few fewer he hers here him his how it its least less
    many mine more most much none nothing now once one ones other others ours same some something such that theirs them
    then there these they this those what when where which who whom whose why yours
    """,
    )
)
VERBS = frozenset(["are", "be", "been", "being", "did", "do", "does", "had", "has", "have", "is", "was", "were"])
PARTICIPLES = frozenset(
    re.findall(
        r"\w+",
        """
    become begun bent born bought broken brought built burnt caught chosen come dealt done drawn driven eaten fallen fed
    felt flown forgotten fought found given gone got gotten grown heard held kept known laid led left lent lost made meant
    met overcome paid proven rewritten risen said seen sent shot shown sold sought spent spoken spun stolen stood struck
    stuck sworn taken taught thought thrown told torn understood unproven unseen went withdrawn won worn woven written
    """,
    )
)
WORDS = PRONOUNS | VERBS | PARTICIPLES
REGULAR = re.compile(
    r"[a-z]{2,}ed"
)  # found and fitted are alike; checked for whole names only, since lower_bound_fitted says enough

# why a word of the list is right as a name, wherever it is
FIELD = {
    "seed": "of a generator",
    "feed": "the feed-forward part of a transformer block",
    "embed": "a verb: the embedding layer of a model",
    "included": "coins of an audit: which canaries are in the training set",
    "hidden": "layers and states of a network",
    "Composed": "kind of event: the name stands in ledgers and reports",
    "Concentrated": "kind of event: the name stands in ledgers and reports",
    "Grouped": "kind of event: the name stands in ledgers and reports",
    "Repeated": "kind of event: the name stands in ledgers and reports",
    "Calibrated": "in the published schema",
    "Watched": "in the published schema",
    "frozen": "Python's word for read-only, as in dataclass(frozen=True)",
    "NoiseNone": "zoo of wrong steps: the class is named after its file",
    "WorkerLost": "an error: it says what became of the worker",
    "PoissonSampled": "kind of event: the name stands in ledgers and reports",
    "__all__": "the language's own",
    "drawn": "the value that a coin, or a law of secrets, drew for each canary (Assignment.drawn)",
    "released": "what an adversary is given: of an access, a trained model, a round",
    "executed": "what a trainer did, beside what was accounted for (Executed)",
    "observed": "of a mechanism that is not the same to all its observers (ObservedMechanism)",
    "planted": "of canaries: in the training data",
    "declared": "of a claim: stated by an owner, computed by no accountant",
    "supervised": "of tokens: those that the loss is computed on",
    "standardised": "with mean 0 and deviation 1",
    "REPLACE_ONE": "adjacency of that name",
    "proven": "an epsilon that attacks prove, beside the one that is claimed",
    "claimed": "an epsilon that an accountant or an owner states, beside the one that is proven",
    "unused": "of a method that has to exist and is not called",
    "shared": "argument of executors: what all jobs read (Executor.map)",
    "Federated": "plug-in: the class is named after its file",
    "Duplicated": "plug-in: the class is named after its file",
    "Mislabelled": "plug-in: the class is named after its file",
}
# keys of files that users write or read, which are no longer ours to rename: of the published report, a config, a ledger
KEYS = {
    "allowed": "report.json: NegativeControl, TprAtFpr",
    "as_it_is": "option of accountants in a config",
    "calibrated": "option of scorers in a config",
    "created": "report.json: AuditReport",
    "done": "report.json: Coverage",
    "found": "report.json: RecordSpread, GateResult",
    "kept": "report.json: Certificate",
    "met": "report.json: GateResult",
    "mislabelled": "option of the canaries 'duplicated' in a config",
    "fused": "keyword of torch's optimisers",
    "disabled": "attribute of Python's loggers",
    "held": "argument of audit.step_bound",
    "claimed": "column of tables of audit.api",
    "left": "column of tables of audit.api",
    "skipped": "what a trainer reports of itself (Executed)",
    "recomputed": "what a trainer reports of itself (Executed)",
    "measured": "what a trainer reports of itself (Executed)",
    "executed": "what a trainer returns (TrainedModels)",
    "mixed": "option of the executor 'ray' in a config",
    "passed": "report.json: NegativeControl",
    "planned": "report.json: Watched",
    "proved": "report.json: Evidence, Watched",
    "selected": "report.json: LowerBound",
    "known": "key of the battery's file",
    "spent": "ledger and report.json: Release, BudgetRelease",
    "spared": "report.json: Evaluation",
    "unaccounted": "key of a config",
    "used": "report.json: Watched",
    "what": "key of the PDF's template",
    "watched": "report.json: GameResult",
    "when": "ledger and report.json: Release, BudgetRelease",
}


def is_empty(name: str) -> bool:
    """True if the name is a pronoun, a form of be, do or have, or a participle standing alone, or ends in such a word."""
    word = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name.strip("_")).lower()
    if name in FIELD or word in FIELD:
        return False
    last = word.rpartition("_")[2]
    predicate = word.startswith(("is_", "has_", "can_", "as_", "at_"))
    return word in WORDS or (last in PRONOUNS | PARTICIPLES and not predicate)


def is_participle(name: str) -> bool:
    """True if the name is a regular participle standing alone."""
    word = name.strip("_")
    return (
        not {name, word.lower()} & FIELD.keys()
        and bool(REGULAR.fullmatch(word.lower()))
        and word[1:] in (word[1:].lower(), word[1:].upper())
    )


@cache
def names_of(path: Path) -> tuple[tuple[str, int, bool], ...]:
    """Return the names of a file; see `_names`."""
    return tuple(_names(path))


def _names(path: Path) -> Iterator[tuple[str, int, bool]]:
    """Each name that a file stores, takes as an argument or defines, with its line; and whether it is a field of a class."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    states = {id(node) for cls in classes if _is_enum(cls) for node in _members(cls)}  # a state is rightly a participle
    fields = {id(node) for cls in classes for node in _members(cls)}
    for node in ast.walk(tree):
        if id(node) in states:
            continue
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name, node.lineno, id(node) in fields or isinstance(node, ast.Attribute)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                yield name, node.lineno, id(node) in fields
            case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)) | ast.MatchStar(name=str(name)):
                yield name, node.lineno, False


def _is_enum(cls: ast.ClassDef) -> bool:
    return any(ast.unparse(base).endswith(("Enum", "IntFlag")) for base in cls.bases)


def _members(cls: ast.ClassDef) -> Iterator[ast.AST]:
    for statement in cls.body:
        if isinstance(statement, ast.AnnAssign):
            yield statement.target
        elif isinstance(statement, ast.Assign):
            yield from statement.targets
        elif isinstance(statement, ast.FunctionDef):
            yield statement


def sources() -> list[Path]:
    return sorted(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))


@pytest.mark.parametrize(("rule", "most"), [(is_empty, MOST), (is_participle, MOST_REGULAR)])
def test_names_are_words_of_the_field(rule: Callable[[str], bool], most: float) -> None:
    total, offenders = 0, []
    for path in sources():
        sides = {line for name, line, _ in names_of(path) if name in ("right", "top")}
        for name, line, is_field in names_of(path):
            total += 1
            opposite = name == "left" and any(abs(line - side) <= 2 for side in sides)  # of right, or of a top
            if rule(name) and not opposite and not (is_field and name in KEYS):
                offenders.append(f"{path.relative_to(ROOT)}:{line}: {name}")
    assert len(offenders) <= most * total, (
        f"{len(offenders)} of {total} names say nothing about what they hold; give each a noun of the field:\n"
        + "\n".join(offenders)
    )


@pytest.mark.parametrize("name", ["one", "found", "_found", "mean_of_others", "has"])
def test_an_empty_name_is_recognised(name: str) -> None:
    assert is_empty(name)


@pytest.mark.parametrize("name", ["bound", "lower_bound", "is_sorted", "included", "randomised_seed", "observation", "__all__"])
def test_a_word_of_the_field_is_let_pass(name: str) -> None:
    assert not is_empty(name)


@pytest.mark.slow
def test_every_exception_is_in_use() -> None:
    present = {name for path in sources() for name, *_ in names_of(path)}
    assert not (idle := sorted((KEYS.keys() | FIELD.keys()) - present)), f"no name needs the exception: {idle}"


# class names that two modules share on purpose
SHARED = {
    "DpSgd": "the written form of the same training, whose name the published schema holds",
    "NonPrivate": "the written form of the same training, whose name the published schema holds",
    "Section": "a part of a report page",
    "Table": "rows that users get, and the block of a page that prints such rows",
    "Verdict": "the outcome of a claim, and the block of a page that prints it",
    "TextModels": "a protocol, and the models that implement it",
}


@pytest.mark.slow
def test_a_class_name_means_one_thing() -> None:
    """Public classes that are not plug-ins, which are looked up by the name of their file within one folder."""
    places = defaultdict(list)
    for path in sources():
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts)
        plug_in = module.rpartition(".")[0] in plugins.FOLDERS.values()
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_") and not plug_in:
                places[node.name].append(f"{path.relative_to(ROOT)}:{node.lineno}")
    several = {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED}
    assert not several, "class names that mean several things:\n" + "\n".join(
        f"{n}: {', '.join(p)}" for n, p in sorted(several.items())
    )


# a docstring says what a function does or returns: its first word is a verb, or names the thing
QUESTIONS = frozenset(
    ["as", "how", "nothing", "so", "that", "those", "what", "when", "where", "whether", "which", "who", "why"]
)


def test_docstrings_begin_with_a_verb_or_the_thing_returned() -> None:
    offenders = []
    for path in sources():
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            text = ast.get_docstring(node) if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) else None
            if text and re.split(r"\W", text, maxsplit=1)[0].lower() in QUESTIONS:
                offenders.append(f"{path.relative_to(ROOT)}:{node.lineno}: {node.name}: {text.splitlines()[0]}")
    assert not offenders, "docstrings that begin with neither a verb nor the thing returned:\n" + "\n".join(offenders)
