"""All risks of a synthetic table, each beside the same attack on control records, within one error budget."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from attacks.tables import neighbours, singling_out
from attacks.tables.columns import TableTriple
from audit.core import checks
from audit.core.data import Array
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed
from audit.core.table_risks import Closeness, SuccessRate, TableAudit, TableRisk
from audit.stats.bounds import excess_success
from audit.stats.bounds.binomial import rate_lower, rate_upper
from audit.stats.bounds.excess_success import shared_values_tail

LEAST_RECORDS = 20
FEWEST_COLUMNS = 2
IMPLAUSIBLE = 1e-6  # chance of as many equal records if training and control are a random split
MOST_DISTANCES = 1000  # synthetic records whose closest real record is looked for


@dataclass(frozen=True, slots=True, kw_only=True)
class TableSettings:
    """How a synthetic table is attacked.

    Attributes:
        attacks: on training records, and on control records, of each risk.
        predicate_columns: of predicates of several columns.
        secrets: columns to infer, one at a time, from all others; None takes every column.
        first, second: columns of the two tables that are linked; None takes the first and the second half.
        neighbours: closest synthetic records on each side of a link.
        confidence: with which all limits hold together.
        splits: random splits behind the p-value of singling out.
    """

    attacks: int = 1000
    predicate_columns: int = 3
    secrets: tuple[str, ...] | None = None
    first: tuple[str, ...] | None = None
    second: tuple[str, ...] | None = None
    neighbours: int = 1
    confidence: float = 0.95
    splits: int = 9999
    seed: int = 0

    def __post_init__(self) -> None:
        checks.confidence(self.confidence)
        for name in ("attacks", "predicate_columns", "neighbours", "splits"):
            checks.count(getattr(self, name), name, minimum=1)
        if (self.first is None) != (self.second is None):
            raise ConfigError(
                "columns of one side of a link are named and those of the other are not; name both, 'first' and 'second', or "
                "neither"
            )


def table_audit(tables: TableTriple, settings: TableSettings) -> TableAudit:
    """The three risks of a synthetic table.

    Control records are of the same people as the training records, and the table was made without them: best, both are a
    random split of one table. If they differ for another reason (another year), the excess shows that reason.

    Guarantee: if the table does not depend on which of the records it was made from, any risk is called beyond chance with
        probability at most `1 - confidence` (exact tests of a random split: Fisher's, and for predicates one by splits drawn
        anew). Limits of rates and of the excess hold for records attacked at random;
        predicates have none.

    Raises:
        DataError: too few records or columns, a column that does not exist, or a link with columns on both sides.
        ConfigError: settings that do not fit the tables.

    References:
        Giomi, Boenisch, Wehmeyer and Tasnádi 2023, "A unified framework for quantifying privacy risk in synthetic data"
        (the attacks and the figure; the tests and limits are of this project).
    """
    _check_sizes(tables, settings)
    _refuse_shared(tables)
    secrets = range(len(tables.names)) if settings.secrets is None else tables.places(settings.secrets, "secrets")
    sides = _sides(tables, settings)
    trials = _Trials(tables=tables, settings=settings, risks=3 + len(secrets))
    risks = [
        trials.predicates("one column", 1, lambda count, random: singling_out.one_column(tables, count, random)),
        trials.predicates(
            f"{settings.predicate_columns} columns",
            settings.predicate_columns,
            lambda count, random: singling_out.several_columns(tables, settings.predicate_columns, count, random),
        ),
    ]
    training, control = (trials.sample(side) for side in ("training", "control"))
    links = [neighbours.link_hits(tables, sides, records, settings.neighbours) for records in (training, control)]
    names = [" + ".join(tables.names[place] for place in side) for side in sides]
    by_chance = neighbours.link_by_chance(len(tables.synthetic), settings.neighbours)
    risks.append(trials.from_records("linkability", f"{names[0]} with {names[1]}", links, by_chance))
    answers = [neighbours.inference_hits(tables, list(secrets), records) for records in (training, control)]
    for secret in secrets:
        right = [answer[secret] for answer in answers]
        risks.append(
            trials.from_records("inference", tables.names[secret], right, neighbours.infer_by_chance(tables, secret, training))
        )
    return TableAudit(
        synthetic_records=len(tables.synthetic),
        training_records=len(tables.training),
        control_records=len(tables.control),
        columns=tables.names,
        categorical=tuple(name for name, is_category in zip(tables.names, tables.is_category, strict=True) if is_category),
        confidence=settings.confidence,
        risks=tuple(risk for risk in risks if risk is not None),
        closeness=_closeness(tables, Seed(settings.seed).child("closeness")),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Trials:
    """Attacks on both tables; each of `risks` takes an equal share of the error."""

    tables: TableTriple
    settings: TableSettings
    risks: int

    @property
    def significance(self) -> float:
        return (1 - self.settings.confidence) / self.risks

    def sample(self, side: str) -> Array:
        return self._draw(side, self.settings.attacks, "records")

    def predicates(
        self, attack: str, columns: int, make: Callable[[int, np.random.Generator], list[singling_out.Predicate]]
    ) -> TableRisk | None:
        """Singling out by predicates, on as many training as control records; None if no predicate is met by one record."""
        random = Seed(self.settings.seed).child(f"predicates {attack}").numpy()
        predicates = make(self.settings.attacks, random)
        if not predicates:
            return None
        size = min(len(self.tables.training), len(self.tables.control))
        groups = [self._draw(side, size, "predicates") for side in ("training", "control")]
        guesses = singling_out.guesses(self.tables, columns, self.settings.attacks, random)
        rows = [singling_out.matches(predicate, np.concatenate(groups)) for predicate in predicates]
        counts = [(int((row < size).sum()), int((row >= size).sum())) for row in rows]
        hits = sum(first == 1 for first, _ in counts), sum(second == 1 for _, second in counts)
        tail = excess_success.split_tail(rows, size, self.settings.splits, random)
        by_chance = singling_out.successes(guesses, groups[0]) / len(guesses)
        risk = self._risk("singling out", attack, (hits, (len(rows), len(rows))), by_chance, tail)
        # one record may meet all predicates, so they are no independent trials; the p-value's splits do not ask for that
        sides = {side: replace(getattr(risk, side), lower=0.0, upper=1.0) for side in ("training", "control")}
        return replace(risk, **sides, excess_lower=-1.0, excess_upper=1.0)

    def from_records(self, risk: str, attack: str, right: Sequence[Array], by_chance: float) -> TableRisk:
        """A risk from which of the attacked training and control records were guessed right."""
        hits, counts = (int(right[0].sum()), int(right[1].sum())), (len(right[0]), len(right[1]))
        return self._risk(risk, attack, (hits, counts), by_chance, excess_success.fisher_tail(hits, counts))

    def _risk(
        self, risk: str, attack: str, outcome: tuple[tuple[int, int], tuple[int, int]], by_chance: float, tail: float
    ) -> TableRisk:
        hits, counts = outcome
        excess, low, high = excess_success.excess_limits(hits, counts, self.significance)
        return TableRisk(
            risk=risk,
            attack=attack,
            training=self._rate(hits[0], counts[0]),
            control=self._rate(hits[1], counts[1]),
            baseline=by_chance,
            excess=excess,
            excess_lower=low,
            excess_upper=high,
            p_value=tail,
            beyond_chance=tail <= self.significance,
        )

    def _rate(self, hits: int, count: int) -> SuccessRate:
        side = self.significance / 4  # the limits that the excess is made of
        return SuccessRate(
            successes=hits,
            attacks=count,
            lower=float(rate_lower(hits, count, side)),
            upper=float(rate_upper(hits, count, side)),
        )

    def _draw(self, side: str, count: int, purpose: str) -> Array:
        records: Array = getattr(self.tables, side)
        random = Seed(self.settings.seed).child(f"{purpose} of {side}").numpy()
        return records[random.permutation(len(records))[:count]]


def _sides(tables: TableTriple, settings: TableSettings) -> tuple[list[int], list[int]]:
    if settings.first is None or settings.second is None:
        half = len(tables.names) // 2
        return list(range(half)), list(range(half, len(tables.names)))
    first, second = tables.places(settings.first, "first columns"), tables.places(settings.second, "second columns")
    if set(first) & set(second):
        name = tables.names[min(set(first) & set(second))]
        raise DataError(f"column '{name}' is on both sides of the link, so that the halves of a record name each other")
    return first, second


def _check_sizes(tables: TableTriple, settings: TableSettings) -> None:
    sizes = {side: len(getattr(tables, side)) for side in ("synthetic", "training", "control")}
    for side, size in sizes.items():
        if size < LEAST_RECORDS:
            raise DataError(f"the {side} table has {size} records; expected at least {LEAST_RECORDS}")
    columns = len(tables.names)
    if columns < FEWEST_COLUMNS or settings.predicate_columns > columns:
        raise DataError(
            f"the tables have {columns} columns and predicates of {settings.predicate_columns} are asked for; expected at "
            f"least {max(FEWEST_COLUMNS, settings.predicate_columns)} columns"
        )
    if settings.neighbours > sizes["synthetic"]:
        raise ConfigError(f"neighbours is {settings.neighbours}; expected at most the {sizes['synthetic']} synthetic records")


def shared_records(tables: TableTriple) -> tuple[int, int]:
    """Return how many control records equal a training record in every column, and how many training records another one."""
    training, control = _row_numbers(tables)
    counts = np.bincount(training, minlength=1 + int(control.max()))
    return int((counts[control] > 0).sum()), int((counts[training] > 1).sum())


def _row_numbers(tables: TableTriple) -> tuple[Array, Array]:
    """Numbers of the training and the control records, equal if records are equal in every column."""
    rows = np.concatenate([tables.training, tables.control])
    rows = np.where(np.isnan(rows), np.inf, rows)  # a missing number equals a missing number; infinite ones were refused
    numbers = np.unique(rows, axis=0, return_inverse=True)[1].reshape(-1)
    return numbers[: len(tables.training)], numbers[len(tables.training) :]


def _refuse_shared(tables: TableTriple) -> None:
    """Raise `DataError` if more values are in both tables than a random split of their records would put there."""
    if shared_values_tail(*_row_numbers(tables)) < IMPLAUSIBLE:
        shared, twins = shared_records(tables)
        raise DataError(
            f"{shared} of {len(tables.control)} control records equal a training record in every column, and {twins} of "
            f"{len(tables.training)} training records another one, as no random split would have it: the control has to be "
            "people that the table was made without; take these records out of the control table"
        )


def _closeness(tables: TableTriple, seed: Seed) -> Closeness:
    size = min(len(tables.training), len(tables.control))
    random = seed.numpy()
    synthetic = tables.synthetic[random.permutation(len(tables.synthetic))[:MOST_DISTANCES]]
    groups = [group[random.permutation(len(group))[:size]] for group in (tables.training, tables.control)]
    training, control = (neighbours.closest_distances(tables, synthetic, group) for group in groups)
    return Closeness(
        training_copies=float(np.mean(training == 0)),
        control_copies=float(np.mean(control == 0)),
        training_distance=float(np.median(training)),
        control_distance=float(np.median(control)),
    )
