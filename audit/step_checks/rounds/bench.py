"""The bench that probes of a round share: a strategy, its claim, and rounds with replies made by hand."""

import copy
import math
import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from audit.core import checks
from audit.core.data import Array
from audit.core.errors import AuditError, ConfigError
from audit.step_checks.rounds import wire
from audit.step_checks.rounds.global_generators import seeded
from audit.step_checks.rounds.processing import SLACK, SMALL, Processing
from audit.step_checks.rounds.replies import Replies, make_answers
from audit.step_checks.tensors import Tensors, distance, spread, zeros

# norm of an update that stands for none, over the clip norm: some strategies lose a round to an update of exactly zero
FAINT = 1e-6
LOUD = 1e3
SHAPES: Mapping[str, tuple[int, ...]] = {"weight": (40, 30), "bias": (30,), "scale": ()}
# rounds with noise that are played for its law: as many as that many replies allow, within limits
ROUNDS, FEWEST, REPLIES = 240, 40, 4000
LATE_ROUNDS = 6  # in which the influence after many rounds is looked at
PROCESSED_SLACK = 0.05  # of an influence that is averaged over noise


@dataclass(frozen=True, slots=True, kw_only=True)
class RoundClaim:
    """What the accounting of a strategy counts on.

    Attributes:
        noise_multiplier: noise of the sum over the clip norm.
        clip_norm: l2 norm to which a whole update is clipped; of the first round if it adapts.
        clients: by which the sum is divided.
    """

    noise_multiplier: float
    clip_norm: float
    clients: int

    def __post_init__(self) -> None:
        checks.nonnegative(self.noise_multiplier, "noise_multiplier")
        checks.positive(self.clip_norm, "clip_norm")
        if self.clients < 2:
            raise ConfigError(f"clients is {self.clients}; expected at least 2")


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RoundRelease:
    """What a round came to."""

    moved: Tensors | None  # released model minus the one that clients were sent; None if nothing was released
    metrics: Mapping[str, Any]  # released beside it
    refusal: str = ""  # why nothing was released
    clip_norm: float = math.nan  # of the strategy after the round; NaN if it has none
    growth: float = 1.0  # its clip norm before the round over that of the first; 1 if it stays

    @property
    def relative_movement(self) -> Tensors | None:
        """Return the movement in units of the first round's clip norm: noise and influence fit the norm of the same round.

        What a norm that adapts says of a client is judged by `adaptive.count`.
        """
        return self.moved and {name: value / self.growth for name, value in self.moved.items()}


@dataclass(kw_only=True, eq=False)
class RoundBench:
    """A strategy under test."""

    strategy: Any  # an instance; every round has its own copy
    claim: RoundClaim  # what the accounting counts on
    mods: tuple[Any, ...]  # of the clients' apps, the first outermost
    records: Any  # module with the record types: `flwr.app`, or a substitute
    seed: int = 0  # of the global generators during loud rounds
    rounds: int = field(default=0, init=False)
    sequence_ratios: dict[str, float] | None = field(default=None, init=False)
    _late: Any = field(default=None, init=False)
    _silences: bool = field(default=True, init=False)
    _neighbours: dict[bytes, RoundRelease] = field(default_factory=dict, init=False)

    @property
    def unit(self) -> float:
        """Distance that one client may move the released model: clip norm over clients."""
        return self.claim.clip_norm / self.claim.clients

    @property
    def adaptive(self) -> bool:
        """True if the clip norm follows the updates."""
        return hasattr(self.strategy, "clipped_count_stddev") and hasattr(self.strategy, "clipping_norm")

    @property
    def update_multiplier(self) -> float:
        """Noise of the updates' sum over the clip norm; more than is claimed if a noisy count moves the norm."""
        return float(self.strategy.noise_multiplier) if self.adaptive else self.claim.noise_multiplier

    def copied(self, strategy: Any = None) -> Any:
        """Return a copy of a strategy; of the one that was handed in, as it was, if none is given.

        Raises:
            ConfigError: it cannot be copied.
        """
        try:
            modules = {id(module): module for module in sys.modules.values()}  # shared: accountants hold libraries, say
            return copy.deepcopy(self.strategy if strategy is None else strategy, modules)
        except (TypeError, ValueError, RuntimeError) as error:
            raise ConfigError(
                f"the strategy cannot be copied: {error}; hand in one that holds no connection or lock"
            ) from error

    def play(self, replies: Replies, *, quiet: bool = True, strategy: Any = None, number: int = 1) -> RoundRelease:
        """Return what one round releases.

        Args:
            replies: of the clients.
            quiet: without noise if the strategy has a `noise_multiplier`; with noise that repeats if it draws from a
                global generator.
            strategy: continues from here and keeps its state; None takes a fresh copy.
            number: of the round.
        """
        self.rounds += 1
        live = self.copied() if strategy is None else strategy
        growth = float(live.clipping_norm) / self.claim.clip_norm if self.adaptive else 1.0
        with wire.task_identity(self.records), np.errstate(all="ignore"), seeded(self.seed) if quiet else nullcontext():
            try:
                messages = self._messages(live, replies, number)
                if quiet and self._silences:
                    _silence(live)
                weight_key = str(wire.read_setting(self.strategy, "weighted_by_key", "num-examples"))
                answers = make_answers(messages, replies, self.mods, self.records, weight_key)
                errors = [answer for answer in answers if answer.has_error()]
                if errors:
                    return RoundRelease(moved=None, metrics={}, refusal=f"a client's mod: {errors[0].error.reason}")
                arrays, metrics = live.aggregate_train(number, iter(answers) if replies.lazy else answers)
            except AuditError:
                raise
            except Exception as error:  # noqa: BLE001  the strategy may raise anything, and what it raises is the finding
                return RoundRelease(moved=None, metrics={}, refusal=f"{type(error).__name__}: {error}")
        if arrays is None:
            return RoundRelease(moved=None, metrics={}, refusal="the strategy released nothing")
        model = wire.from_record(arrays)
        movement = {name: model[name].astype(np.float64) - value.astype(np.float64) for name, value in replies.start.items()}
        clip_norm = float(wire.read_setting(live, "clipping_norm", math.nan))
        return RoundRelease(moved=movement, metrics=dict(metrics or {}), clip_norm=clip_norm, growth=growth)

    def _messages(self, live: Any, replies: Replies, number: int) -> list[Any]:
        """Return the messages with which the strategy asks its clients, as many as there are replies."""
        fraction = float(wire.read_setting(live, "fraction_train", 1.0)) or 1.0
        nodes = max(math.ceil(self.claim.clients / fraction), int(wire.read_setting(live, "min_available_nodes", 1)))
        config, start = self.records.ConfigRecord(), wire.to_record(self.records, replies.start)
        messages = list(live.configure_train(number, start, config, wire.Nodes(nodes)))
        if len(messages) < len(replies.updates):
            raise ConfigError(
                f"the strategy asks {len(messages)} of {nodes} clients, and its claim is about {self.claim.clients} in a round"
            )
        return messages[: len(replies.updates)]

    def background(self, kind: str, shapes: Mapping[str, tuple[int, ...]] = SHAPES) -> list[Tensors]:
        """Return the updates of all clients but one: "faint", "loud", all "alike" at the clip norm, or "split" in two."""
        count, clip = self.claim.clients - 1, self.claim.clip_norm
        sizes = {
            "faint": [FAINT * clip] * count,
            "loud": [LOUD * clip] * count,
            "alike": [clip * (1 - SLACK)] * count,
            "split": [clip * (1 - SLACK) * (-1) ** index for index in range(count)],
        }[kind]
        updates = {size: spread(shapes, size) for size in sizes}
        return [updates[size] for size in sizes]

    def influence(
        self, base: Sequence[Tensors], update: Tensors, *, is_last: bool = False, **changes: Any
    ) -> tuple[float, RoundRelease, Replies]:
        """Return how far one client moves the release, over what is allowed, the round with it and its replies.

        Neighbouring rounds differ in whether the client's update is zeroed out. Infinite if a release is not finite or one
        of the two rounds is refused. The client replies first, or last.
        """
        faint = {name: np.full_like(value, FAINT * self.claim.clip_norm / _root(update)) for name, value in update.items()}
        start = {name: np.zeros_like(value) for name, value in update.items()}
        rounds = [[*base, own] if is_last else [own, *base] for own in (update, faint)]
        replies = Replies(updates=rounds[0], start=start, **changes)
        first, right = self.play(replies), self._neighbour(Replies(updates=rounds[1], start=start, **changes))
        if first.moved is None or right.moved is None:
            return math.inf, first if first.moved is None else right, replies
        if self.processing.hides_client:
            influence, reference = self.processing.mean_distance(replies, rounds[1]), self.processing.reference(update)
            return (influence / reference if reference else math.inf if influence else 0.0), first, replies
        return distance(first.moved, right.moved) / self.unit, first, replies

    def _neighbour(self, replies: Replies) -> RoundRelease:
        """Return the quiet round without a client's update, which many probes share, played once; see `repeatable`."""
        key = replies.digest()
        if key not in self._neighbours:
            self._neighbours[key] = self.play(replies)
        return self._neighbours[key]

    @cached_property
    def ordinary(self) -> RoundRelease:
        updates = [spread(SHAPES, 0.5 * self.claim.clip_norm), *self.background("alike")]
        return self.play(Replies(updates=updates, start=zeros(SHAPES)))

    def demand_repeatable(self) -> None:
        """Play quiet rounds with the noise that a copied generator repeats if the strategy is undefined without noise.

        Raises:
            ConfigError: equal quiet rounds release different models, or none that is finite.
        """
        if self.is_repeatable:
            return
        first = self.ordinary.moved or {}
        unfit = [name for name, value in first.items() if not np.isfinite(value).all()]
        if unfit:
            self._silences = False
            for name in ("ordinary", "is_repeatable"):
                self.__dict__.pop(name, None)
            if self.is_repeatable:
                return
            raise ConfigError(
                f"a round of ordinary replies releases NaN or infinity in {', '.join(map(repr, unfit))}, as 0/0 does; such a "
                "model tells nothing of a client: mend the strategy first"
            )
        raise ConfigError(
            "equal rounds release different models, so nothing can be laid to a client; give the strategy an attribute "
            "noise_multiplier that is read in aggregate_train"
        )

    @cached_property
    def processing(self) -> Processing:
        """Return the way from the noisy mean to the model."""
        return Processing(self)

    @cached_property
    def is_repeatable(self) -> bool:
        """True if equal quiet rounds release equal models."""
        updates = [spread(SMALL, 0.5 * self.claim.clip_norm), *self.background("alike", SMALL)]
        first, second = (self.play(Replies(updates=updates, start=zeros(SMALL))) for _ in range(2))
        if first.moved is None or second.moved is None:
            return False
        return distance(first.moved, second.moved) <= SLACK * self.unit

    @cached_property
    def noise_samples(self) -> dict[str, Array]:
        """The noise of consecutive rounds over its claimed deviation, by name, `(rounds, entries)`; empty for none."""
        rounds = [outcome.relative_movement for outcome in self.loud_rounds if outcome.relative_movement is not None]
        if len(rounds) < 2:
            return {}
        noise = {name: np.stack([movement[name].ravel() for movement in rounds]) for name in SMALL}
        scale = math.sqrt(len(rounds) / (len(rounds) - 1)) / (self.update_multiplier * self.unit)
        return {name: (values - values.mean(0)) * scale for name, values in noise.items()}

    @cached_property
    def loud_rounds(self) -> tuple[RoundRelease, ...]:
        """Consecutive rounds with noise, those that were released.

        The strategy goes from round to round. If its clip norm adapts, all updates are far beyond it, so that it grows; else
        they are faint. Both come to next to nothing in sum, so that a server with momentum stays where it is.
        """
        size, half = (LOUD if self.adaptive else FAINT) * self.claim.clip_norm, self.claim.clients // 2
        pairs = [spread(SMALL, size), spread(SMALL, -size)] * half
        replies = Replies(
            updates=[*pairs, *[spread(SMALL, FAINT * self.claim.clip_norm)] * (self.claim.clients % 2)], start=zeros(SMALL)
        )
        live = self._late = self.copied()
        outcomes = []
        with seeded(self.seed + 1):
            for number in range(1, max(FEWEST, min(ROUNDS, REPLIES // self.claim.clients)) + 1):
                outcomes.append(self.play(replies, quiet=False, strategy=live, number=number))
        return tuple(outcome for outcome in outcomes if outcome.moved is not None)

    def late_gain(self, update: Tensors) -> float:
        """Return how far an update moves the model after all loud rounds, over C / n: a server may listen ever less.

        It is the root mean square over updates in several rounds: a server may listen to some rounds less than to others.
        """
        first, faint = len(self.loud_rounds) + 1, spread(SMALL, FAINT * self.claim.clip_norm)
        live, gains = self.copied(self._late), list[float]()
        for number in range(first, first + LATE_ROUNDS):
            moves = []
            for own, strategy in ((update, self.copied(live)), (faint, live)):  # the latter goes on to the next round
                replies = Replies(updates=[own, *self.background("faint", SMALL)], start=zeros(SMALL))
                moves.append(self.play(replies, strategy=strategy, number=number).moved)
            gains.append(math.inf if moves[0] is None or moves[1] is None else distance(moves[0], moves[1]) / self.unit)
        return math.sqrt(sum(gain**2 for gain in gains) / LATE_ROUNDS)

    @property
    def slack(self) -> float:
        """Return the relative excess over a sensitivity that is no finding."""
        return PROCESSED_SLACK if self.processing.hides_client else SLACK

    @cached_property
    def server_gain(self) -> float:
        """Largest influence of an update that needs no clipping, over what is allowed; 1 for a mean over all clients."""
        if self.processing.hides_client:
            return 1.0  # influences are over those of such an update
        updates = [spread(SHAPES, sign * self.claim.clip_norm * (1 - SLACK)) for sign in (1, -1)]
        return max(
            self.influence(self.background(kind), update)[0] for kind in ("faint", "split", "alike") for update in updates
        ) / (1 - SLACK)

    def within(self, influence: float) -> bool:
        """Return whether an influence is no larger than that of an update which needs no clipping."""
        return influence <= max(1.0, self.server_gain) * (1 + self.slack)


def _root(update: Tensors) -> float:
    return math.sqrt(sum(value.size for value in update.values()))


def _silence(strategy: Any) -> None:
    """Set the noise of a strategy to zero, if it has settings for it."""
    for layer in wire.chain(strategy):
        for name in ("noise_multiplier", "clipped_count_stddev"):
            if hasattr(layer, name):
                setattr(layer, name, 0.0)
