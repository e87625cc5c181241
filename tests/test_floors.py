"""The house stands: imports only go down, and each heavy library has one door."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

# first match decides; a module may import modules of a lower floor, or of its own package where listed in PEERS
FLOORS = [
    ("audit.core", 0),
    ("audit.stats", 0),
    ("audit.training", 1),
    ("audit.config", 1),
    ("audit.plugins", 1),
    ("audit.verdict", 1),
    ("audit.calibration", 1),
    ("audit.refutation", 1),
    ("audit.planning", 2),
    ("audit.certificates", 3),
    ("audit.trainers", 2),
    ("audit.targets", 2),
    ("audit.accountants", 2),
    ("audit.estimators", 2),
    ("attacks.views", 1),
    ("attacks.pool", 1),
    ("attacks.boundary", 1),
    ("attacks.augmentations", 1),
    ("attacks.canaries", 2),
    ("attacks.scorers", 2),
    ("audit.experiment", 3),
    ("audit.battery", 3),
    ("audit.subjects", 3),
    ("audit.ledger", 3),
    ("audit.evaluation", 3),
    ("audit.descriptive", 3),
    ("audit.fitted_start", 3),
    ("audit.group", 3),
    ("audit.seen", 3),
    ("audit.training_run", 3),
    ("audit.design", 3),
    ("audit.summary", 3),
    ("audit.tables", 3),
    ("audit.rounds", 3),
    ("audit.stopping", 3),
    ("audit.playing", 3),
    ("audit.planting", 3),
    ("audit.timing", 3),
    ("audit.utility", 3),
    ("audit.store", 3),
    ("audit.executors", 2),
    ("audit.job", 3),
    ("audit.measure", 3),
    ("audit.inspect_model", 3),
    ("audit.api", 3),
    ("reports", 4),
    ("audit.assemble", 5),
    ("audit.pytest_plugin", 6),
    ("audit.cli", 6),
    ("audit.commands", 6),
    ("audit.__main__", 6),
    ("attacks", 0),
    ("audit", 0),
]
# packages whose modules may import each other (a plug-in never imports a plug-in)
PEERS = ["audit.core", "audit.stats", "audit.training", "audit.config", "reports"]
ROOF = ["audit.cli", "audit.commands", "audit.__main__"]
FLOOR_THREE = 3

DOORS = {
    "torch": ["audit.training", "audit.trainers", "audit.targets", "attacks.canaries"],
    "dp_accounting": ["audit.accountants"],
    "opacus": ["audit.accountants", "audit.trainers"],
    "prv_accountant": ["audit.accountants"],
    "autodp": ["audit.accountants"],
    "jax_privacy": ["audit.accountants"],
    "matplotlib": ["reports"],
    "typst": ["reports"],
    "yaml": ["audit.config"],
    "pydantic": ["audit.config", "reports"],
    "typer": ["audit.cli", "audit.commands"],
    "rich": ["audit.cli", "audit.commands"],
    "scipy": ["audit.stats"],
    "ray": ["audit.executors"],
}


def modules() -> list[tuple[str, Path]]:
    found = []
    for package in ("audit", "attacks", "reports"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            found.append((name, path))
    return found


def imports(path: Path) -> list[str]:
    names = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            names += [f"{node.module}.{alias.name}" for alias in node.names]
    return names


def within(name: str, package: str) -> bool:
    return name == package or name.startswith(package + ".")


def floor(name: str) -> int:
    return next(level for prefix, level in FLOORS if within(name, prefix))


@pytest.mark.parametrize(("name", "path"), modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_imports_only_go_down(name: str, path: Path) -> None:
    for used in imports(path):
        if used.split(".")[0] not in ("audit", "attacks", "reports"):
            continue
        peers = any(within(name, package) and within(used, package) for package in PEERS)
        same_third = floor(name) == floor(used) == FLOOR_THREE
        roof = any(within(name, part) for part in ROOF) and any(within(used, part) for part in ROOF)
        private = used.rpartition("._")[0] == name.rpartition(".")[0] or f"{name.rpartition('.')[0]}._" in used
        allowed = peers or same_third or roof or private or used == "audit.__version__"
        assert allowed or floor(used) < floor(name), f"{name} imports {used}: not downward"
    if within(name, "audit.core"):
        assert not any(within(used, "audit.stats") for used in imports(path)), f"{name}: core knows stats"
    if within(name, "audit.stats"):
        assert not any(within(used, "audit.core") for used in imports(path)), f"{name}: stats knows core"
    if within(name, "reports"):
        assert all(
            within(u, "audit.core") or within(u, "reports")
            for u in imports(path)
            if u.split(".")[0] in ("audit", "attacks", "reports")
        )


@pytest.mark.parametrize("library", sorted(DOORS))
def test_one_door_per_library(library: str) -> None:
    for name, path in modules():
        if any(within(used, library) for used in imports(path)):
            assert any(within(name, door) for door in DOORS[library]), (
                f"{name} imports {library}; its doors are {DOORS[library]}"
            )


def test_no_global_random_state() -> None:
    banned = ("np.random.seed", "np.random.rand", "np.random.normal(", "random.seed(", "torch.manual_seed")
    for name, path in modules():
        text = path.read_text()
        for call in banned:
            assert call not in text, f"{name} uses {call}; every stream is seed.child(name, index)"
