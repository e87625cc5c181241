"""The house is: imports only go down, and each heavy library has one door."""

from __future__ import annotations

import ast
import functools
from pathlib import Path

import pytest

from audit import plugins

ROOT = Path(__file__).resolve().parents[1]

# from the ground up; a module imports modules of lower floors its own and room, nothing else
FLOORS = [
    ["audit.core", "audit.stats"],
    ["audit.event_curves", "audit.plugins"],
    ["audit.config", "audit.data", "audit.models", "audit.optimizers", "audit.execution", "attacks.signals"],
    [
        "audit.engine",
        "audit.execution.executors",
        "attacks.canaries",
        "attacks.reconstruction",
        "attacks.scorers",
        "attacks.tables",
        "audit.accounting.accountants",
        "audit.bounds.estimators",
    ],
    ["audit.endpoint", "audit.subjects", "audit.trainers", "audit.accounting", "audit.bounds", "audit.checks", "audit.replays"],
    ["audit.accounting.regression", "audit.mechanism_checks", "audit.mechanisms", "audit.step_checks"],
    ["audit.zoo", "audit.experiment", "reports"],
    ["audit.api"],
    ["audit.cli"],
    ["audit.__main__", "audit", "attacks"],
]
# the folders of a large package on their floors, from the ground up; modules beside the folders are on their own floor
INNER_FLOORS = {
    "audit.engine": [
        ["losses", "compile_c"],
        ["parameter_layout", "record_rows"],
        ["optimizing", "random", "device"],
        ["layers", "microbatches"],
        ["gradients"],
        ["measurements", "trial"],
        ["compiled", "dp_options"],
        ["federated", "read", "schedule"],
        ["chunk", "text"],
        ["ensemble"],
    ],
    "audit.experiment": [["coverage", "games", "gates"], ["describe"], ["line"], ["external", "plan"]],
}
PLUG_INS = sorted(plugins.FOLDERS.values())
MOST_ROOMS, MOST_FLOORS = 26, 10

DOORS = {
    "torch": [
        "audit.engine",
        "audit.models",
        "audit.optimizers",
        "audit.trainers",
        "audit.subjects",
        "audit.replays",
        "audit.step_checks",
        "audit.zoo",
        "attacks.canaries",
        "attacks.reconstruction",
    ],
    "dp_accounting": ["audit.accounting.accountants"],
    "opacus": ["audit.accounting.accountants", "audit.trainers"],
    "prv_accountant": ["audit.accounting.accountants"],
    "autodp": ["audit.accounting.accountants"],
    "jax_privacy": ["audit.accounting.accountants"],
    "matplotlib": ["reports"],
    "typst": ["reports"],
    "yaml": ["audit.config"],
    "pydantic": ["audit.config", "reports"],
    "typer": ["audit.cli"],
    "rich": ["audit.cli"],
    "scipy": ["audit.stats"],
    "onnxruntime": ["audit.subjects"],
    "skops": ["audit.subjects"],
    "lightgbm": ["audit.subjects"],
    "xgboost": ["audit.subjects"],
    "ray": ["audit.execution.executors"],
    "transformers": ["audit.models"],
    "peft": ["audit.models"],
    "huggingface_hub": ["audit.models"],
    "tokenizers": ["audit.data"],
}


def modules() -> list[tuple[str, Path]]:
    result = []
    for package in ("audit", "attacks", "reports"):
        for path in sorted((ROOT / package).rglob("*.py")):
            name = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
            result.append((name, path))
    return result


@functools.cache
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


ROOMS = {room: level for level, rooms in enumerate(FLOORS) for room in rooms}
MODULES = dict(modules())


def room(name: str) -> str:
    return max((room for room in ROOMS if within(name, room)), key=len)


def own_imports(name: str) -> set[str]:
    """Modules of this project that the module imports."""
    used = {full if full in MODULES else full.rpartition(".")[0] for full in imports(MODULES[name])}
    return {module for module in used if module in MODULES}


@pytest.mark.parametrize("name", MODULES)
def test_imports_only_go_down(name: str) -> None:
    for used in own_imports(name):
        inside = room(used) == room(name)
        assert inside or ROOMS[room(used)] < ROOMS[room(name)], (
            f"{name} (floor {ROOMS[room(name)]}) imports {used} (floor {ROOMS[room(used)]}): not downward"
        )
        if inside and room(name) in PLUG_INS:
            assert used.rpartition(".")[2].startswith("_") or used == room(name), f"plug-in {name} imports plug-in {used}"
    if within(name, "reports"):
        allowed = ("audit.core", "audit.plugins", "reports")
        outside = [used for used in own_imports(name) if not any(within(used, item) for item in allowed)]
        assert not outside, f"{name} imports {outside}: reports read audit.core only, and find formats by name"


@pytest.mark.parametrize("package", INNER_FLOORS)
def test_imports_inside_a_package_only_go_down(package: str) -> None:
    levels = {name: level for level, names in enumerate(INNER_FLOORS[package]) for name in names}

    def level(module: str) -> int:
        return levels[module.removeprefix(f"{package}.").partition(".")[0]]

    for name in MODULES:
        if within(name, package) and name != package:
            for used in own_imports(name):
                if within(used, package) and used != package:
                    same = used.split(".")[: package.count(".") + 2] == name.split(".")[: package.count(".") + 2]
                    assert same or level(used) < level(name), f"{name} imports {used}: not downward inside {package}"


def test_no_import_runs_in_a_circle() -> None:
    unfinished: list[str] = []
    finished: set[str] = set()

    def visit(name: str) -> None:
        assert name not in unfinished, f"a circle: {' -> '.join([*unfinished[unfinished.index(name) :], name])}"
        if name in finished:
            return
        unfinished.append(name)
        for used in sorted(own_imports(name) - {name}):
            visit(used)
        finished.add(unfinished.pop())

    for name in MODULES:
        visit(name)


def test_the_house_stays_small() -> None:
    top = {".".join(name.split(".")[:2]) for name in MODULES if name.startswith("audit.")}
    assert len(top) <= MOST_ROOMS, sorted(top)
    assert len(FLOORS) <= MOST_FLOORS


@pytest.mark.parametrize("library", sorted(DOORS))
def test_one_door_per_library(library: str) -> None:
    for name, path in MODULES.items():
        if any(within(used, library) for used in imports(path)):
            assert any(within(name, door) for door in DOORS[library]), (
                f"{name} imports {library}; its doors are {DOORS[library]}"
            )


def test_no_global_random_state() -> None:
    banned = ("np.random.seed", "np.random.rand", "np.random.normal(", "random.seed(", "torch.manual_seed")
    for name, path in modules():
        # finds out whether third-party code draws from them; stands in for them while a program is replayed
        if name in ("audit.step_checks.rounds.global_generators", "audit.replays.sources"):
            continue
        text = path.read_text()
        for call in banned:
            assert call not in text, f"{name} uses {call}; every stream is seed.child(name, index)"
