"""Auto: two strong attacks mixed by rank, or another if it is ahead on the references, each once in the target's place."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from attacks.scorers import _contest
from attacks.scorers._contest import FOLDER, FORMULA, Contest, Winner, candidates, choose_mixture, in_target_place
from attacks.signals import _temperature
from attacks.signals.logits import Logits, Losses
from attacks.signals.nearby_confidences import NearbyConfidences
from audit import plugins
from audit.core.coins import as_coins
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Attack, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.bounds.roc import auc
from audit.stats.scoring.strength import rank_log_odds
from audit.stats.spread import evenly

_FORMS: tuple[dict[str, object], ...] = (
    {"kind": "offset"},
    {"kind": "rmia", "temperature": 1.0},
    {"kind": "rmia", "temperature": 2.0},
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Formulas:
    """Scores each canary with the mean log odds of its ranks under `offset` and under `rmia` at temperatures 1 and 2.

    With one reference there is none left to attack it with, so that nothing shows which of them is ahead; the mean is rarely
    far behind any (docs/evidence/results.md, "One reference"). A function of the target's outputs and the references.

    Attributes:
        online: use references that trained on the canary, too.
    """

    online: bool = True

    @property
    def name(self) -> str:
        return "offset with rmia" if self.online else "offset with rmia offline"

    @property
    def needs(self) -> Needs:
        offset, *ratios = (attack.needs for attack in self._parts())
        return replace(offset, reductions=frozenset(offset.reductions).union(*(ratio.reductions for ratio in ratios)))

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        ranks = [rank_log_odds(attack.score(target, reference, seed)) for attack in self._parts()]
        return np.asarray(np.mean(ranks, axis=0))

    def _parts(self) -> list[Attack]:
        return [plugins.build("attacks.scorers", {**form, "online": self.online}) for form in _FORMS]


FEWEST = 3  # references: LiRA needs two beside the one that is put in the target's place

# attacks that are compared, by name; among equals the first is taken
FORMS: Mapping[str, Mapping[str, object]] = {
    f"rmia offline at temperature {degree:g}": {"kind": "rmia", "online": False, "temperature": degree}
    for degree in (2.0, 1.5, 1.0, 3.0, 0.5)
} | {"lira offline": {"kind": "lira", "online": False}}


def highest(target: View, reference: View, *, rows: Array, columns: Array) -> tuple[str, Attack, float] | None:
    """The attack that most often scores the target above a reference, and how often; None if none can score.

    A reference that did not train on the records represents a target that did not: over all records the share is 1/2 if the
    target trained on none of them, and grows with the records that an attack distinguishes, so the attack with the largest
    share has the largest AUC, but for noise. Both sides are scored with the same other references.
    """
    row = _temperature.some_records(_as_row(target), columns)
    some_target = View(signals={key: array[0] for key, array in row.signals.items()}, labels=row.labels)
    references = _temperature.some_records(reference, columns)
    best: tuple[str, Attack, float] | None = None
    for name, form in FORMS.items():
        attack = plugins.build(FOLDER, dict(form))
        share = elevation(attack, some_target, references, rows)
        if share is not None and (best is None or share > best[2]):
            best = name, attack, share
    return best


def elevation(attack: Attack, target: View, reference: View, rows: Array) -> float | None:
    """Return how often the target's score of a record is above that of a reference without it, ties counting half."""
    coins = np.asarray(reference.included, dtype=bool)
    shares = []
    for row in rows[~coins[rows].all(axis=1)].tolist():  # a reference that has all records shows no nonmember
        stand_in, remainder = in_target_place(reference, target.labels, row)
        seed = Seed(0).child("elevation", row)  # one for both sides, so that an attack's own draws favour neither
        try:
            scores, null_scores = attack.score(target, remainder, seed), attack.score(stand_in, remainder, seed)
        except ObservationError:
            return None
        shares.append(auc(scores, null_scores[~coins[row]]))
    return float(np.mean(shares)) if shares else None


def _as_row(target: View) -> View:
    return View(signals={key: np.asarray(array)[None] for key, array in target.signals.items()}, labels=target.labels)


_FEWEST_RECORDS = 1000  # that are looked at for the choice, if there are as many: ten nonmembers a model decide a TPR at 1 %
_SIDE = 10  # records on the smaller side, below which a model's ROC says nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Auto:
    """Scores each canary by its ranks under a learned score and RMIA, or by an attack that is ahead of this mixture.

    The learned score is `near_records` if canaries are records of real features and there are four references or more,
    else `learned_combination`. Every attack of this folder that reads outputs alone is tried, also in its offline form if
    it has one. References are targets one after the other, attacked with all the others; nothing of the target takes part.
    The one with the highest mean TPR up to 5 % FPR is taken if it leads the mixture by more than two standard errors over
    these targets. Of tied outputs (shares of trees or neighbours, labels, rounded probabilities) it has to lead `rmia` instead;
    if none does, the one with the highest AUC of those no worse up to 5 % FPR is taken where it leads so in AUC.

    If none of three or more references trained on a canary, or none may be used that did, the target's outputs decide: RMIA
    at one of five temperatures or LiRA, whichever puts the target's scores above those of a reference in its place most often.

    No choice asks for the target's coins, so it is a fixed function of what the references and the target show, and bounds
    on epsilon hold as they do for any fixed attack (docs/theory/choice.md, "An attack chosen on the references"). If the
    references show nothing, a fixed attack is taken: the loss without a reference, several formulas added up by rank of one,
    the mixture of two, RMIA if a side has too few canaries.

    Attributes:
        online: use references that trained on the canary, too.
        targets: references that are put in the target's place at most, evenly spread.
        pairs: about how many (reference, canary) pairs each of these attacks looks at for the choice; of more canaries an
            evenly spread subset decides.
    """

    online: bool = True
    targets: int = 8
    pairs: int = 64_000

    needs: ClassVar[Needs] = Needs(signals={Logits()}, instead={Losses()}, optional={NearbyConfidences()})

    def choose(self, reference: View, labels: Array | None) -> tuple[str, str]:
        """Name of the attack that is taken with these references, and the evidence for it, in words.

        >>> from attacks.signals import _reading as reading
        >>> Auto().choose(reading.NO_REFERENCE, None)
        ('loss', 'there is no reference model to compare with')
        """
        if self._goes_by_outputs(reference):
            reason = "each target's outputs decide, by how far they lie above those of references without the canary"
            return "rmia or lira offline", reason
        name, _, reason = self._choice(reference, labels)
        return name, reason

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        """Scores of the chosen attack, `(m,)` float64; `ObservationError` if the target shows neither outputs nor losses, or
        none of what the chosen attack reads.
        """
        if all(target.get(signal.key) is None for signal in (Logits(), Losses())):
            raise ObservationError("attack 'auto' reads outputs or losses, and the target shows neither")
        if self._goes_by_outputs(reference):
            attack = self._offline_attack(target, reference)
        else:
            _, attack, _ = self._choice(reference, target.labels)
        return attack.score(target, reference, seed)

    def _offline(self, reference: View) -> bool:
        """True if no reference that trained on a canary may be used, or there is none."""
        return len(reference) > 0 and not (self.online and as_coins(reference.included).sum() > 0)

    def _goes_by_outputs(self, reference: View) -> bool:
        """True if a target's outputs decide."""
        return self._offline(reference) and len(reference) >= FEWEST

    def _offline_attack(self, target: View, reference: View) -> Attack:
        """The attack that puts the target's scores farthest above references', RMIA if none can score."""
        records = as_coins(reference.included).shape[1]
        columns = evenly(records, max(_FEWEST_RECORDS, self.pairs // len(reference)))
        rows = evenly(len(reference), self.targets)
        leader = highest(target, reference, rows=rows, columns=columns)
        return _fixed({"kind": "rmia", "online": False}, "")[1] if leader is None else leader[1]

    def _choice(self, reference: View, labels: Array | None) -> tuple[str, Attack, str]:
        if len(reference) == 0:
            return _fixed({"kind": "loss"}, "there is no reference model to compare with")
        coins = as_coins(reference.included)
        members = coins.sum(axis=1)
        balance = np.minimum(members, coins.shape[1] - members)
        usable = np.flatnonzero(balance >= max(1, min(_SIDE, coins.shape[1] // 4)))
        if (offline := self._offline(reference)) or len(coins) == 1:
            return _formulas(len(coins), online=not offline)
        if not len(usable):
            return _fixed({"kind": "rmia"}, "too few canaries on a side, so none shows how strong an attack is")
        if len(coins) < _contest.FEWEST:
            mixture = choose_mixture(reference)
            return mixture.name, mixture, f"two of at least {_contest.FEWEST} references that show whether another is ahead"
        columns = evenly(coins.shape[1], max(_FEWEST_RECORDS, self.pairs // len(coins)))
        contest = Contest(
            views=_temperature.some_records(reference, columns),
            labels=None if labels is None else np.asarray(labels)[columns],
            targets=usable[evenly(len(usable), self.targets)],
        )
        winner = contest.winner()
        if winner is None:
            return _fixed({"kind": "rmia"}, "no attack could be tried on the references")
        return winner.name, dict(candidates(reference, len(coins)))[winner.name], _evidence(winner, len(contest.targets))


def _formulas(references: int, *, online: bool) -> tuple[str, Attack, str]:
    attack = Formulas(online=online)
    if online:
        return attack.name, attack, "a single reference has no other to be attacked with, so none shows how strong an attack is"
    return attack.name, attack, f"{references} of at least {FEWEST} references that show what lies above them"


def _evidence(winner: Winner, targets: int) -> str:
    lead, error = winner.lead
    rank = f"no other was ahead by more than two standard errors in {_contest.TAIL}"
    if winner.name != winner.usual:
        rank = f"it had the highest {winner.figure}"
    if lead:
        rank += f", {lead:.3f} ± {error:.3f} more than {_usual(winner.usual)}"
    if winner.figure == _contest.AREA:
        rank += f", and no less in {_contest.TAIL}"
    return (
        f"of {winner.attacks} attacks on {targets} references in the target's place {rank}; its TPR at 1 % FPR was "
        f"{winner.power.tpr:.3f} on average (AUC {winner.power.auc:.3f})"
    )


def _usual(name: str) -> str:
    return name if name == FORMULA else f"the mixture {name}"


def _fixed(form: dict[str, object], reason: str) -> tuple[str, Attack, str]:
    name = str(form["kind"]) if form.get("online", True) else f"{form['kind']} offline"
    return name, plugins.build(FOLDER, form), reason


PLUGIN = Auto
