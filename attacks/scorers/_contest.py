"""References as targets: whether an attack on outputs ranks their members better than the mixture of two strong ones."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from attacks.signals import _reading as reading
from attacks.signals import _temperature
from attacks.signals.logits import Logits, Losses
from attacks.signals.nearby_confidences import NearbyConfidences
from audit import plugins
from audit.core.data import Array
from audit.core.errors import ObservationError
from audit.core.protocols import Attack, Chooser, Needs
from audit.core.seeds import Seed
from audit.core.views import View
from audit.stats.bounds import roc
from audit.stats.scoring.strength import ALONE_FROM, TailPower, mixed, partial_auc, strength

# A learned score steadied by RMIA, as one attack: the learned combination, or near records if their outputs are shown.
FORMULA = "rmia"
LEARNED = ("learned_combination", "near_records")


@dataclass(frozen=True, slots=True, kw_only=True)
class RankMixture:
    """Scores each canary with the weighted sum of the log odds of its ranks under a learned score and `rmia`.

    RMIA's weight is `600 / (600 + pairs)` with `pairs` of a reference and a canary, none from 60,000 on
    (`audit.stats.scoring.strength`). A function of the target's outputs and the references, as its parts are.
    """

    scorer: str = "learned_combination"

    @property
    def name(self) -> str:
        return f"{self.scorer} with {FORMULA}"

    @property
    def needs(self) -> Needs:
        first, ratio = (attack.needs for attack in self._parts())
        return Needs(
            signals=first.signals | ratio.signals,
            instead=first.instead and ratio.instead,
            references=max(first.references, ratio.references),
        )

    def score(self, target: View, reference: View, seed: Seed) -> Array:
        combination, ratio = self._parts()
        pairs = np.asarray(reference.included).size
        scores = combination.score(target, reference, seed)
        if pairs >= ALONE_FROM:
            return scores
        return mixed(scores, ratio.score(target, reference, seed), pairs)

    def _parts(self) -> tuple[Attack, Attack]:
        combination, ratio = (plugins.build("attacks.scorers", {"kind": kind}) for kind in (self.scorer, FORMULA))
        return combination, ratio


def choose_mixture(reference: View) -> RankMixture:
    """The mixture for what references show: of near records if each reference can be attacked so by all the others."""
    combination, near = (RankMixture(scorer=kind) for kind in LEARNED)
    return near if reference.get(NearbyConfidences.key) is not None and len(reference) > near.needs.references else combination


FOLDER = "attacks.scorers"
_REMEMBERED = 64
_ROWS = 16_000  # (reference, record) pairs that an attack with a fit learns from while it is tried
_ERRORS = 2.0  # standard errors by which another attack has to lead
_UP_TO = 0.05  # false positive rate: the mean TPR up to it is compared, far less noisy than the TPR at 1 %
_WINNERS: dict[bytes, Winner | None] = {}

_DIGITS, _DISTINCT = 6, 0.5  # of confidences that differ by rounding, and the share of distinct ones below which they tie

TAIL, AREA = "mean TPR up to 5 % FPR", "AUC"
Lead = tuple[float, float]

FEWEST = 3  # references: the mixture needs two beside the one in the target's place


class Winner(NamedTuple):
    """What a contest gives.

    Attributes:
        usual: name of the attack that is taken unless another is ahead.
        power: its TPR at 1 % FPR and AUC on the references.
        lead: by which it is ahead of the usual one, and the standard error over references; zeros of that one.
    """

    name: str
    usual: str
    power: TailPower
    attacks: int
    lead: Lead
    figure: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Contest:
    """References that attacks are compared on."""

    views: View
    labels: Array | None
    targets: Array

    def winner(self) -> Winner | None:
        """The attack that is taken; remembered, since every run of a game asks again."""
        key = self._digest()
        if key not in _WINNERS:
            if len(_WINNERS) >= _REMEMBERED:
                _WINNERS.clear()
            _WINNERS[key] = self._strongest()
        return _WINNERS[key]

    def _strongest(self) -> Winner | None:
        """The attack with the highest mean TPR up to 5 % FPR if it leads the usual one by more than two standard errors.

        The usual one is the mixture or, of tied outputs, RMIA: few values leave a learned score little but noise to learn from.
        They also leave little to distinguish attacks at few false positives, so that the AUC decides next.
        """
        shared = replace(self, views=_temperature.with_tempered_confidences(self.views, self.labels))
        mixture = choose_mixture(self.views)
        attacks = {
            name: attack for name, attack in candidates(self.views, len(self.views) - 1, rows=_ROWS) if name != mixture.name
        }
        results = {name: shared.scores(attack) for name, attack in attacks.items()}
        able = {name: rows for name, rows in results.items() if rows is not None and _ranks(rows)}
        if mixture.scorer in able and FORMULA in able:  # no fit is made twice
            pairs = (len(self.views) - 1) * np.asarray(self.views.included).shape[1]
            parts = zip(able[mixture.scorer], able[FORMULA], strict=True)
            able[mixture.name] = [mixed(scores, ratio, pairs) for scores, ratio in parts]
        if not able:  # nothing could be tried, or all models answer the same for every record
            return None
        coins = list(np.asarray(self.views.included, dtype=bool)[self.targets])
        tails = {name: _tails(rows, coins) for name, rows in able.items()}
        if FORMULA in able and self._is_tied():
            areas = {name: _areas(rows, coins) for name, rows in able.items()}
            name, lead, figure = _lead_formula(tails, areas)
            return Winner(name, FORMULA, strength(able[name], coins), len(able), lead, figure)
        name, lead = _ahead(tails, mixture.name)
        return Winner(name, mixture.name, strength(able[name], coins), len(able), lead, TAIL)

    def _is_tied(self) -> bool:
        """True if the references answer in steps: some with certainty, or most records as another is answered."""
        target, remainder = in_target_place(self.views, self.labels, int(self.targets[0]))
        if reading.step(target, remainder, "auto") is not None:
            return True
        values, _ = reading.confidences(target, remainder, "auto")
        return bool(len(np.unique(np.asarray(values[0], np.float64).round(_DIGITS))) < _DISTINCT * values.shape[1])

    def _digest(self) -> bytes:
        digest = hashlib.sha256()
        arrays = {"coins": self.views.included, "labels": self.labels, "targets": self.targets, **self.views.signals}
        for name, array in arrays.items():
            values = np.ascontiguousarray(np.asarray([] if array is None else array))
            digest.update(f"{name} {values.shape} {values.dtype}".encode())
            digest.update(values.tobytes())
        return digest.digest()

    def scores(self, attack: Attack) -> list[Array] | None:
        """Scores of each reference that is a target, by an attack; None if it cannot score one of them."""
        rows = []
        for row in self.targets.tolist():
            target, remainder = in_target_place(self.views, self.labels, row)
            try:
                rows.append(attack.score(target, remainder, Seed(0).child("auto", row)))
            except ObservationError:
                return None
        return rows


def _ranks(rows: list[Array]) -> bool:
    """True if the scores of some target differ between any two records: a constant is no attack, however lucky."""
    return any(bool((values != values[:1]).any()) for values in rows)


def _lead(figures: Array, rival: Array) -> Lead:
    """Mean difference between two attacks' figures on each target, and its standard error."""
    ahead = figures - rival
    return float(ahead.mean()), float(ahead.std(ddof=1)) / len(ahead) ** 0.5 if len(ahead) > 1 else np.inf


def _is_clear(lead: Lead) -> bool:
    return lead[0] > _ERRORS * lead[1]


def _ahead(figures: Mapping[str, Array], usual: str) -> tuple[str, Lead]:
    """Return the attack with the highest mean figure if it clearly leads the usual one or none is usual; else the usual one."""
    name = max(figures, key=lambda key: float(figures[key].mean()))
    if usual not in figures or name == usual:
        return name, (0.0, 0.0)
    lead = _lead(figures[name], figures[usual])
    return (name, lead) if _is_clear(lead) else (usual, (0.0, 0.0))


def _lead_formula(tails: Mapping[str, Array], areas: Mapping[str, Array]) -> tuple[str, Lead, str]:
    """Return what leads RMIA up to 5 % FPR and is not clearly behind in AUC, else in AUC and no worse up to 5 % FPR, or it."""
    able = {key: values for key, values in tails.items() if not _is_clear(_lead(areas[FORMULA], areas[key]))}
    name, lead = _ahead(able, FORMULA)
    if name != FORMULA:
        return name, lead, TAIL
    level = {key: values for key, values in areas.items() if tails[key].mean() >= tails[FORMULA].mean()}
    name, lead = _ahead(level, FORMULA)
    return name, lead, TAIL if name == FORMULA else AREA


def _areas(rows: list[Array], coins: list[Array]) -> Array:
    return np.array([roc.auc(values[mask], values[~mask]) for values, mask in zip(rows, coins, strict=True)])


def _tails(rows: list[Array], coins: list[Array]) -> Array:
    """Mean TPR up to 5 % FPR on each target."""
    pairs = zip(rows, coins, strict=True)
    return np.array([partial_auc(values[mask], values[~mask], _UP_TO) for values, mask in pairs])


def in_target_place(models: View, labels: Array | None, row: int) -> tuple[View, View]:
    """One of the models as a target, and all others as its references."""
    coins = np.asarray(models.included, dtype=bool)
    rivals = np.delete(np.arange(len(coins)), row)
    target = View(signals={key: array[row] for key, array in models.signals.items()}, labels=labels)
    return target, View(signals={key: array[rivals] for key, array in models.signals.items()}, included=coins[rivals])


def candidates(models: View, references: int, *, rows: int | None = None) -> Iterator[tuple[str, Attack]]:
    """The attacks of the folder that read outputs of so many references, by name: as they are, and offline; then the mixture.

    What models say of near records counts as outputs if the view holds it. `rows` is how many pairs those learn from that
    say so; None leaves what they take alone.
    """
    keys = {Logits.key, Losses.key} | ({NearbyConfidences.key} & models.signals.keys())
    for kind in plugins.names(FOLDER):
        settings = {field.name for field in dataclasses.fields(plugins.find(FOLDER, kind))}
        form: dict[str, object] = {"kind": kind} if rows is None or "rows" not in settings else {"kind": kind, "rows": rows}
        forms = {kind: form, f"{kind} offline": {**form, "online": False}}
        for name in list(forms) if "online" in settings else [kind]:
            attack = plugins.build(FOLDER, forms[name])
            if attack.needs.keys <= keys and attack.needs.references <= references and not isinstance(attack, Chooser):
                yield name, attack
    mixture = choose_mixture(models)
    if mixture.needs.references <= references:
        yield mixture.name, mixture
