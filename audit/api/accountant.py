"""What a mechanism costs, by several accountants side by side, and whether an accountant can be believed.

    audit.accountant.epsilon(audit.dp_sgd(noise_multiplier=1.0, clip_norm=1.0, sample_rate=0.01, steps=1000), delta=1e-5)
    audit.accountant.noise(target_epsilon=2.0, sample_rate=0.01, steps=1000)
    audit.accountant.steps(target_epsilon=2.0, noise_multiplier=1.0, sample_rate=0.01)
    audit.accountant.check("my_package.accounting:MyAccountant")

`audit accountant` prints what these functions return. An accountant is named as there (a plug-in, `name,field=value`,
`module:object`), or is an object with a method `claim`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from audit.core import checks
from audit.core.adjacency import Adjacency
from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.tables import Table

if TYPE_CHECKING:
    import pandas as pd

    from audit.accounting.regression.conclusion import Conclusion
    from audit.accounting.regression.suite import Result
    from audit.core.events import Event
    from audit.core.protocols import Accountant, Side

USUAL = ("rdp_classic", "rdp", "renyi", "pld", "reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class EpsilonRow:
    """The epsilon that one accountant states.

    Attributes:
        side: where it claims to lie: "upper" (at or above the true epsilon), "lower", or "estimate", which is no bound.
        epsilon: None where the accountant does not cover the mechanism; `note` then says why.
        source: the accountant with its version.
    """

    accountant: str
    side: Side
    epsilon: float | None
    source: str
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Epsilons:
    """What several accountants state of one mechanism, beside the bracket in which its true epsilon was proved to lie.

    Attributes:
        lower, upper: ends of the bracket.
    """

    rows: Table[EpsilonRow]
    lower: float
    upper: float
    delta: float
    adjacency: Adjacency

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with a row each accountant."""
        return self.rows.to_pandas()


@dataclass(frozen=True, slots=True, kw_only=True)
class NoiseRow:
    """The least noise multiplier with which one accountant's claim stays within a budget, and that claim; None without any."""

    accountant: str
    noise_multiplier: float | None
    epsilon: float | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepsRow:
    """The most steps within a budget by one accountant, and how many of them are left; None where it does not cover them."""

    accountant: str
    steps: int | None
    left: int | None
    note: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseRow:
    """What one case of the battery says of an accountant: WRONG, LOOSE, EXACT, UNSUPPORTED or CRASH, and why."""

    case: str
    group: str
    finding: str
    claimed: float
    factor: float
    seconds: float
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Battery:
    """What the battery of cases says of an accountant: each case, and what they amount to."""

    accountant: str
    results: tuple[Result, ...]
    conclusion: Conclusion

    @property
    def passed(self) -> bool:
        """Whether nothing was found that `audit accountant check` would fail for."""
        return self.conclusion.exit_code == 0

    @property
    def rows(self) -> Table[CaseRow]:
        """A row each case."""
        return Table(
            CaseRow(
                case=result.case.id,
                group=result.case.group,
                finding=str(result.finding),
                claimed=result.epsilon,
                factor=result.factor,
                seconds=result.seconds,
                message=result.message,
            )
            for result in self.results
        )

    def to_pandas(self) -> pd.DataFrame:
        """Return a data frame with a row each case."""
        return self.rows.to_pandas()


def epsilon(
    event: Event,
    *,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    accountants: Sequence[str | Mapping[str, Any] | Accountant] = USUAL,
) -> Epsilons:
    """What a mechanism costs at `delta`, by each accountant, beside the proven bracket on the truth.

    Args:
        event: what is done with the data, such as `audit.dp_sgd(...)`.

    Raises:
        ConfigError: no such accountant or adjacency, or a delta outside of (0, 1).
        UnsupportedMechanism: the bracket has no proof for the event; single accountants that lack one say so in their row.

    >>> step = dict(noise_multiplier=1.0, clip_norm=1.0, sample_rate=1.0)
    >>> from audit.core.events import dp_sgd
    >>> costs = epsilon(dp_sgd(**step, steps=1), delta=1e-5, accountants=["rdp"])
    >>> costs.lower <= costs.upper <= costs.rows[0].epsilon
    True
    """
    from audit.accounting.accountants.reference import Reference

    relation = Adjacency.by_name(adjacency)
    rows = []
    for name, accountant in _accountants(accountants):
        try:
            claim = accountant.claim(event, delta=delta, adjacency=relation)
            cells: tuple[float | None, str, str] = (claim.epsilon, claim.source, claim.note)
        except UnsupportedMechanism as error:
            cells = (None, "", f"unsupported: {error}")
        value, source, note = cells
        rows.append(EpsilonRow(accountant=name, side=_side(accountant), epsilon=value, source=source, note=note))
    lower, upper = Reference().bracket(event, delta=delta, adjacency=relation)
    return Epsilons(rows=Table(rows), lower=lower, upper=upper, delta=delta, adjacency=relation)


def noise(
    *,
    target_epsilon: float,
    sample_rate: float,
    steps: int,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    accountants: Sequence[str | Mapping[str, Any] | Accountant] = USUAL,
) -> Table[NoiseRow]:
    """The least noise multiplier of DP-SGD that keeps `steps` steps within a budget, by each accountant.

    Raises:
        ConfigError: a target, delta or rate that is none; no such accountant.
    """
    from audit.accounting.calibration import calibrate_noise
    from audit.core.event_reading import single_phase

    checks.positive(target_epsilon, "target_epsilon")
    checks.open_probability(delta, "delta")
    checks.probability(sample_rate, "sample_rate")
    relation = Adjacency.by_name(adjacency)
    rows = []
    for name, accountant in _accountants(accountants):
        try:
            event = calibrate_noise(
                accountant,
                target_epsilon=target_epsilon,
                delta=delta,
                sample_rate=sample_rate,
                steps=steps,
                adjacency=relation,
            )
            multiplier: float | None = single_phase(event)[0]
            epsilon: float | None = accountant.claim(event, delta=delta, adjacency=relation).epsilon
            note = _caveat(accountant)
        except (UnsupportedMechanism, ConfigError) as error:
            multiplier, epsilon, note = None, None, str(error)
        rows.append(NoiseRow(accountant=name, noise_multiplier=multiplier, epsilon=epsilon, note=note))
    return Table(rows)


def steps(
    *,
    target_epsilon: float,
    noise_multiplier: float,
    sample_rate: float,
    released: int = 0,
    delta: float = 1e-5,
    adjacency: Adjacency | str = Adjacency.ADD_REMOVE,
    accountants: Sequence[str | Mapping[str, Any] | Accountant] = USUAL,
) -> Table[StepsRow]:
    """How many steps of DP-SGD stay within a budget, by each accountant, and how many are left after those released.

    Raises:
        ConfigError: a number that is none of its kind; no such accountant.
    """
    from audit.accounting.calibration import steps_within
    from audit.core.events import dp_sgd

    checks.positive(target_epsilon, "target_epsilon")
    checks.open_probability(delta, "delta")
    checks.nonnegative(released, "released")
    if not 0 < sample_rate <= 1:
        raise ConfigError(
            f"sample_rate is {sample_rate}; expected a number above 0 and up to 1: without sampling no step costs anything"
        )
    step, relation = (
        dp_sgd(noise_multiplier=noise_multiplier, clip_norm=1.0, sample_rate=sample_rate, steps=1),
        Adjacency.by_name(adjacency),
    )
    rows = []
    for name, accountant in _accountants(accountants):
        try:
            step_limit: int | None = steps_within(
                accountant, step, target_epsilon=target_epsilon, delta=delta, adjacency=relation
            )
            note = _caveat(accountant)
        except UnsupportedMechanism as error:
            step_limit, note = None, str(error)
        rest = None if step_limit is None else max(0, step_limit - released)
        rows.append(StepsRow(accountant=name, steps=step_limit, left=rest, note=note))
    return Table(rows)


def check(
    accountant: str | Mapping[str, Any] | Accountant,
    *,
    groups: Sequence[str] | None = None,
    cases: Sequence[str] | None = None,
    skip: Sequence[str] = (),
    required: int = 1,
    seconds: float = 60.0,
    listener: Callable[[Result], None] | None = None,
) -> Battery:
    """Run the regression battery over an accountant, to be called from its own tests.

    Args:
        groups: parts of the battery; None for all.
        cases: texts of which a case's id has to hold one; None for all.
        skip: ids of cases to leave out.
        required: fewest brackets with an answer other than 0 or infinity.
        seconds: of CPU, after which a case counts as a CRASH.
        listener: is called with each result as it is made.

    Raises:
        ConfigError: no such accountant, group or case.
    """
    from audit.accounting.regression import conclusion, suite

    ((name, subject),) = _accountants([accountant])
    case_list = conclusion.choose(suite.load(), groups=groups, texts=cases, omissions=skip)
    results = suite.run(subject, case_list, seconds=seconds, progress=listener)
    return Battery(accountant=name, results=results, conclusion=conclusion.conclude(results, minimum=required))


def _accountants(accountants: Sequence[str | Mapping[str, Any] | Accountant]) -> Iterator[tuple[str, Accountant]]:
    from audit.accounting import resolve

    if isinstance(accountants, str):
        raise ConfigError(f"accountants is the text {accountants!r}; expected a list of accountants, such as [{accountants!r}]")
    for accountant in accountants:
        if isinstance(accountant, str):
            yield accountant, resolve.subject(accountant)
        elif isinstance(accountant, Mapping):
            yield str(accountant.get("kind")), resolve.subject(accountant)
        else:
            yield type(accountant).__name__, accountant


def _side(accountant: Accountant) -> Side:
    from audit.accounting.resolve import side_of

    return side_of(accountant)


def _caveat(accountant: Accountant) -> str:
    """What to say of a budget that is kept by figures which are no upper bound."""
    side = _side(accountant)
    return "" if side == "upper" else f"{'a lower bound' if side == 'lower' else 'an estimate'}: the budget may be exceeded"
