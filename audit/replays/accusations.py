"""Whether a pair that is not proved is refuted: only by what truly leaves the program (docs/theory/replay.md)."""

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from audit.replays.claims import ReplayClaim
from audit.replays.comparison import ReplayComparison, is_same, transcript_loss
from audit.replays.part_losses import log_outcome, outcome_ratios
from audit.replays.recording import CHOICE, EVENT, NUMBER, SELECTION, Recording
from audit.replays.run import Program, ProgramRun
from audit.replays.transcripts import cut

SIGNIFICANCE = 1e-6
_STRUCTURAL_RUNS = 24  # of a part that differs although all releases are equal
_LEAST_CHANCE = math.log(1e-9)  # of an output on one side: below it, rounding may be what differs
_RARE_RUNS = 12  # of these, with draws far out and fair coins
_SECONDS = 15.0
_SPREAD = 25.0
_WORDS = 200  # of a text, or parts of a list, that are looked at one by one
_FRESH = 1_000_003  # first seed of runs that are not reference
Places = dict[tuple[int, int], set[str]]  # paths of a released number in the output


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Accusation:
    """Why a pair refutes the claim: what was seen, and how it was decided."""

    reason: str
    loss: float
    method: str


def exceeded_law(
    program: Program, pair: tuple[Any, Any], runs: tuple[ProgramRun, ProgramRun], claim: ReplayClaim
) -> Accusation | None:
    """Compare the claim with the loss of the numbers that are returned as they are, if their law is the same in every run."""
    first, second = (run.recording for run in runs)
    if second.divergence is not None or first.gaps or second.gaps or len(first.releases) != len(second.releases):
        return None
    if (ratio := _returned_path(program, pair, runs, claim)) > claim.epsilon * (1 + 1e-5) + 1e-7:
        reason = f"{first.releases[0].site}: decisions that are returned in order cost epsilon {ratio:.4g}; claimed {claim}"
        return Accusation(reason=reason, loss=ratio, method="exact law of what is returned")
    outputs, places = list[dict[int, str]](), common_places(*map(number_places, runs))
    leaving, outcomes = _leaving(runs[0], places), claim.mu is None and claim.delta == 0
    for data, reference in zip(pair, runs, strict=True):
        schedule = reference.recording.schedule
        # the second of three with wide draws: a law that depends on where the draws fall is not the same in every run
        side = [
            program.run(data, Recording(seed=_FRESH + i, schedule=schedule, spread=_SPREAD if i % 2 else 1.0)) for i in range(3)
        ]
        if any(run.error is not None for run in side):
            return None
        places = common_places(places, *map(number_places, side))
        leaving = [i for i in _leaving(reference, places) if i in leaving and all(_same_law(run, reference, i) for run in side)]
        outputs += [{i: repr(run.recording.releases[i].output) for i in leaving} for run in side]
        has_same_laws = all(_same_law(run, reference, i) for run in side for i in range(len(reference.recording.releases)))
        # () stands for a run that does not return them: one way of returning, and never none
        outcomes = outcomes and has_same_laws and len({_outcome_places(run) for run in (*runs, *side)} | {()}) == 2
    if outcomes and (size := _outcome_loss(*runs)) > claim.epsilon * (1 + 1e-5) + 1e-7:
        reason = f"the decisions that are returned cost epsilon {size:.4g}; claimed {claim}"
        return Accusation(reason=f"{first.releases[0].site}: {reason}", loss=size, method="exact law of what is returned")
    leaving = [i for i in leaving if len({side[i] for side in outputs}) > 1]  # what is always the same is so by chance
    loss = transcript_loss(*runs, leaving)
    if isinstance(loss, str) or not loss.exceeds(claim.epsilon, claim.delta, claim.mu):
        return None
    site = runs[0].recording.releases[leaving[0]].site
    reason = loss.reasons[0] if loss.reasons else f"{site}: the loss of what is returned is {loss}"
    return Accusation(
        reason=f"{reason}; claimed {claim}",
        loss=math.inf if loss.divergences is not None else loss.mu if claim.mu is not None else loss.epsilon(claim.delta),
        method="exact law of what is returned",
    )


def _returned_path(program: Program, pair: tuple[Any, Any], runs: tuple[ProgramRun, ProgramRun], claim: ReplayClaim) -> float:
    """Return the log ratio of the recorded output if it lists all decisions in order, in further runs too; 0 if that says
    nothing."""
    if claim.mu is not None or claim.delta or not all(map(_outcome_places, runs)):
        return 0.0
    for i, data in enumerate(pair * 3):
        coins: dict[str, Any] = {"outcomes": [], "coins_for_events": True} if i > 1 else {}
        further = program.run(data, Recording(seed=_FRESH + i, schedule=runs[0].recording.schedule, **coins))
        if further.error is not None or not _outcome_places(further):
            return 0.0
    records = runs[0].recording, runs[1].recording
    parts = cut(*records, range(len(records[0].releases)))
    chances: list[tuple[float, float] | None] = [None] if isinstance(parts, str) else [log_outcome(part) for part in parts]
    for left, right in zip(records[0].releases, records[1].releases, strict=True):
        if left.log_probabilities is not None and right.log_probabilities is not None:
            logs = [side - np.logaddexp.reduce(side) for side in (left.log_probabilities, right.log_probabilities)]
            chances.append((float(logs[0][left.output]), float(logs[1][left.output])))
    pairs_of_logs = [chance for chance in chances if chance is not None]
    first, second = (math.fsum(chance[side] for chance in pairs_of_logs) for side in (0, 1))
    if len(pairs_of_logs) < len(chances) or not max(first, second) > _LEAST_CHANCE:
        return 0.0
    return abs(first - second)


def _outcome_places(run: ProgramRun) -> tuple[str, ...]:
    """Return where the program returns the outcomes of its comparisons and choices one by one; () if not, or not them alone."""
    releases = run.recording.releases
    if not releases or any(release.kind not in (EVENT, CHOICE, SELECTION) for release in releases):
        return ()
    outputs = [str(int(output)) for release in releases for output in np.ravel(release.output).tolist()]
    atoms = {path: atom[1] for path, atom in run.atoms if path.startswith("returned") and isinstance(atom, tuple)}
    return tuple(atoms) if outputs == [{"True": "1", "False": "0"}.get(text, text) for text in atoms.values()] else ()


def _outcome_loss(first: ProgramRun, second: ProgramRun) -> float:
    """Return the loss of independent comparisons and choices of fixed laws: the largest sum of log ratios in one direction."""
    records = first.recording, second.recording
    parts = cut(*records, range(len(records[0].releases)))
    if isinstance(parts, str):
        return 0.0
    ratios: list[list[float] | None] = [outcome_ratios(part) for part in parts]
    for left, right in zip(records[0].releases, records[1].releases, strict=True):
        if left.log_probabilities is not None and right.log_probabilities is not None:
            possible = np.isfinite(left.log_probabilities) & np.isfinite(right.log_probabilities)
            ratios.append((left.log_probabilities - right.log_probabilities)[possible].tolist())
    finite = [ratio for ratio in ratios if ratio]
    if len(finite) < len(ratios):
        return 0.0
    return max(math.fsum(max(ratio) for ratio in finite), math.fsum(max(-part for part in ratio) for ratio in finite))


def number_places(run: ProgramRun) -> Places:
    """Return the paths of each released number in the output."""
    by_number: dict[str, set[str]] = {}
    for path, atom in run.atoms:
        if path.startswith(("returned", "written")) and (isinstance(atom, float) or atom[:1] == ("int",)):
            by_number.setdefault(repr(float(atom[1]) if isinstance(atom, tuple) else atom), set()).add(path)
    outputs = [(i, release.output) for i, release in enumerate(run.recording.releases) if release.kind == NUMBER]
    parts = ((i, j, number) for i, output in outputs for j, number in enumerate(np.ravel(output).tolist()))
    return {(i, j): by_number.get(repr(number), set()) for i, j, number in parts}


def common_places(*tables: Places) -> Places:
    """Return the paths that are those of a number in every run: a program may order its numbers by size, or by the data."""
    return {key: set.intersection(*(table.get(key, set()) for table in tables)) for key in tables[0]}


def _leaving(run: ProgramRun, places: Places) -> list[int]:
    """Return which releases are numbers that each have their place in what leaves the program."""
    absent = {i for (i, _), paths in places.items() if not paths}
    return [i for i, entry in enumerate(run.recording.releases) if entry.kind == NUMBER and i not in absent]


def _same_law(first: ProgramRun, second: ProgramRun, place: int) -> bool:
    if place >= len(second.recording.releases) or place >= len(first.recording.releases):
        return False
    rows = first.recording.releases[place].rows, second.recording.releases[place].rows
    if rows[0].value.shape != rows[1].value.shape or rows[0].weight.shape != rows[1].weight.shape:
        return False
    logs = [run.recording.releases[place].log_probabilities for run in (first, second)]
    if repr(logs[0]) != repr(logs[1]):
        return False
    same_draws = np.array_equal(rows[0].index, rows[1].index)
    return same_draws and all(
        np.allclose(getattr(rows[0], name), getattr(rows[1], name), rtol=1e-12, equal_nan=True) for name in ("value", "weight")
    )


def certain_difference(
    program: Program, pair: tuple[Any, Any], comparison: ReplayComparison, claim: ReplayClaim
) -> Accusation | None:
    """Look for a part of what leaves that is the same in all runs on the data, and another in all runs on the neighbour."""
    # so many runs in which a part is fixed on both sides are no coincidence under the claim; the first names it
    enough_runs = claim.needed_runs(SIGNIFICANCE) + 1
    start, count = time.process_time(), 0
    constant: tuple[dict[str, Any], dict[str, Any]] | None = None
    while count < enough_runs:
        tables = []
        for data in pair:
            run = program.run(data, Recording(seed=_FRESH + 17 + count))
            if run.error is not None:
                return None
            tables.append(_table(run))
        constant = (
            (tables[0], tables[1]) if constant is None else (_common(constant[0], tables[0]), _common(constant[1], tables[1]))
        )
        count += 1
        paths = _different(constant)
        if not paths:
            return None
        if time.process_time() - start > _SECONDS:
            break
    # what a replay showed to differ with all releases equal needs fewer runs, if rare draws leave it as it is
    if constant is not None and count < enough_runs:
        constant = _after_rare_draws(program, pair, constant) if count >= _STRUCTURAL_RUNS and not comparison.gaps else None
        paths = [path for path in _different(constant) if path in comparison.differences] if constant else []
    if not constant or not paths or (count < enough_runs and not program.is_followed(pair[0])):
        return None
    sides = [_short(table.get(paths[0], "absent")) for table in constant]
    place = paths[0].removeprefix("written").strip("[]'") or paths[0]
    reason = f"{place} is {sides[0]} in every run on the data and {sides[1]} in every run on the neighbour"
    return Accusation(reason=f"{reason}{_cause(comparison)}", loss=math.inf, method=f"{count} runs on each side")


def _after_rare_draws(
    program: Program, pair: tuple[Any, Any], constant: tuple[dict[str, Any], dict[str, Any]]
) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Return what is still the same on each side after draws far out and fair coins, None if a run raises.

    Too few runs for the claim say nothing of a response that is seldom turned round.
    """
    rare: list[dict[str, Any]] = [{"outcomes": [], "coins_for_events": True, "spread": _SPREAD}] * _RARE_RUNS
    for i, terms in enumerate([*rare, {"lean": 0}, {"lean": -1}]):
        runs = [program.run(data, Recording(seed=_FRESH - 1 - i, **terms)) for data in pair]
        if any(run.error is not None for run in runs):
            return None
        constant = _common(constant[0], _table(runs[0])), _common(constant[1], _table(runs[1]))
    return constant


def _cause(comparison: ReplayComparison) -> str:
    if comparison.divergence is not None:
        return f" ({comparison.divergence})"
    return ", although all releases are equal" if comparison.differences else ""


def _table(run: ProgramRun) -> dict[str, Any]:
    """Return what leaves: its atoms, for a number also whether it is finite; names that begin with _ are private memory."""
    table: dict[str, Any] = {}
    for path, atom in run.atoms:
        if path.startswith("data") or (
            path.startswith(("global _", "closure", "kept", "self._")) and not path.startswith(("returned", "written"))
        ):
            continue
        table[path] = atom
        if isinstance(atom, float):
            table[f"{path} (finite)"] = "NaN" if math.isnan(atom) else "finite" if math.isfinite(atom) else "infinite"
            table[f"{path} (whole)"] = _ends(atom)
        elif isinstance(atom, tuple) and atom[0] == "str":
            table |= {f"{path} (word {i})": word for i, word in enumerate(atom[1].split()[:_WORDS])}
    for name, parts in _collections(run.atoms).items():
        table[f"{name} (in any order)"] = repr(sorted(parts))
    for text in ("written['printed']", "written['logged']"):
        if text in table:
            table.setdefault(f"{text} (empty)", not table[text])
    return table


def _collections(atoms: Sequence[tuple[str, Any]]) -> dict[str, list[str]]:
    """Return what each list or array in the result holds."""
    groups: dict[str, list[str]] = {}
    for path, atom in atoms:
        if path.startswith("returned") and path.endswith("]"):
            groups.setdefault(path.rpartition("[")[0], []).append(repr(atom))
    return {name: parts for name, parts in groups.items() if len(parts) <= _WORDS}


def _ends(atom: float) -> str:
    return "whole" if math.isfinite(atom) and atom == round(atom) else "other"


def _common(constant: dict[str, Any], table: dict[str, Any]) -> dict[str, Any]:
    paths = [path for path in constant.keys() & table.keys() if is_same(constant[path], table[path])]
    return dict.fromkeys(constant | table, _VARIES) | {path: table[path] for path in paths}


_VARIES = object()


def _different(constant: tuple[dict[str, Any], dict[str, Any]]) -> list[str]:
    sides = [(path, [side.get(path) for side in constant]) for path in constant[0] | constant[1]]
    paths = [path for path, atoms in sides if _VARIES not in atoms and not is_same(*atoms)]
    return sorted(paths, key=lambda path: (not path.startswith("returned"), path))


def _short(atom: Any) -> str:
    text = atom[1] if isinstance(atom, tuple) else f"{atom:.6g}" if isinstance(atom, float) else str(atom)
    return text if len(text) <= 40 else text[:37] + "..."
