"""What the adapters of other people's accountants share: figures passed on as they are, for the battery to judge."""

import importlib
import importlib.metadata
import warnings
from types import ModuleType

from dp_accounting.privacy_accountant import NeighboringRelation

from audit.core.adjacency import Adjacency
from audit.core.claims import Claim
from audit.core.errors import UnsupportedMechanism
from audit.core.event_reading import phases
from audit.core.events import Event

RELATIONS = {
    Adjacency.ADD_REMOVE: NeighboringRelation.ADD_OR_REMOVE_ONE,
    Adjacency.ZERO_OUT: NeighboringRelation.REPLACE_SPECIAL,
    Adjacency.REPLACE_ONE: NeighboringRelation.REPLACE_ONE,
}
NOTE = "the library's figure, unchecked"


def library(module: str, package: str) -> ModuleType:
    """The imported module, or `UnsupportedMechanism` that says whether it is missing or broken."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return importlib.import_module(module)
    except ImportError as error:
        if isinstance(error, ModuleNotFoundError) and error.name == module.partition(".")[0]:
            raise UnsupportedMechanism(f"{package} is not installed ({error}): pip install {package}") from error
        raise UnsupportedMechanism(
            f"{package} is installed and cannot be imported: {error}; a release of what it needs does not fit"
        ) from error


def figure(
    epsilon: float, *, package: str, method: str, delta: float, adjacency: Adjacency, note: str = NOTE, module: str = ""
) -> Claim:
    """A library's figure as a claim that names the library, its version and which of its accountants spoke."""
    source = f"{package} {importlib.metadata.version(module or package)} {method}"
    return Claim(epsilon=float(epsilon), delta=delta, adjacency=adjacency, source=source, note=note)


def add_remove_only(name: str, adjacency: Adjacency) -> None:
    """Refuses replace-one for a library that has no figure for it."""
    if adjacency is Adjacency.REPLACE_ONE:
        raise UnsupportedMechanism(f"{name} accounts for add/remove only; it has no figure for replace_one")


def opacus(kind: str, mechanism: Event, *, delta: float, adjacency: Adjacency, note: str = NOTE) -> Claim:
    """Return what Opacus' accountant `kind` states for a history of (noise multiplier, sample rate, steps)."""
    add_remove_only("Opacus", adjacency)
    history = list(phases(mechanism))
    class_name = {"RDP": "RDPAccountant", "PRV": "PRVAccountant", "GDP": "GaussianAccountant"}[kind]
    accountants = library("opacus.accountants", "opacus")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        accountant = getattr(accountants, class_name)()
        accountant.history = history
        epsilon = accountant.get_epsilon(delta)
    return figure(epsilon, package="opacus", method=kind, delta=delta, adjacency=adjacency, note=note)
