"""Federated averaging: whole updates clipped, with noise at the server, at each client, shared by all clients, or none."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from audit.accounting import calibration
from audit.core import checks
from audit.core.access import Access, Observer
from audit.core.adjacency import Adjacency
from audit.core.clip_quantile import ClipQuantile
from audit.core.errors import ConfigError
from audit.core.event_reading import noisy_steps, phases, steps
from audit.core.events import Event, Unit, dp_sgd, sgd
from audit.core.phrases import join_clauses, phrase
from audit.core.protocols import MechanismSetting
from audit.core.rounding import up
from audit.mechanisms._sgd import first_accountant
from audit.stats.curves import tradeoff

REMARKS = {
    "none": "no noise is added, so no client is protected from anybody; secure aggregation alone is not differential privacy",
    "central": "noise at the server protects no client from the server: whoever receives updates or their sums sees them "
    "without noise, and no epsilon is claimed there; the claim is about those who see released models alone",
    "local": "each client adds noise to its own update, so the claim about single updates holds before the server too; in the "
    "sum the noise of all clients adds up, and who sees sums alone learns less, but for clients, which know their own noise: "
    "colluders: c claims what holds before c of them together",
    "distributed": "the clients share the noise of the sum: the claim about sums rests on secure aggregation, a single update "
    "carries one share only, and where a share p of the clients drops out the noise shrinks by the root of 1 - p; who knows "
    "the shares of c clients (a client knows its own) meets the noise of the others alone, as colluders: c claims",
    "records": "each client trains by DP-SGD on its own records, so the claim about one record holds before the server too; a "
    "client that holds many is protected by group privacy alone",
}
PLACES = tuple(REMARKS)
UNITS = ("client", "example")
OF_EXAMPLES = (
    "claims are about one record of a client; a record may turn its client's whole update, so they count on half of the noise; "
    "several records of one client move no more than its update, and are claimed alike"
)
ADAPTIVE = (
    "the clip norm follows a noisy count of the updates that it does not clip; the claim covers sums and counts together, "
    "and whoever sees the clip norm of each round sees the counts"
)
GROUPS = (2, 10, 100)


@dataclass(frozen=True, slots=True, kw_only=True)
class Federated:
    """DP-FedAvg about one client: its event says what is done in each round, its observers what each party is protected by.

    Attributes:
        clients: who may take part; a public constant, their expected number in a round divides the sum.
        noise: "central", added by the server to the sum; "local", by each client to its update; "distributed", a share of the
            sum's noise by each client, under ideal secure aggregation; "records", by each client in its own steps, which clip
            and noise single records' gradients (unit "example" alone); or "none".
        clip_norm: l2 bound on a client's whole update.
        noise_multiplier: noise standard deviation over the clip norm: of the sum, or of each update if it is local; or
        target_epsilon: which the noise is calibrated to, for those whom it is to protect from: whoever sees the released
            models, the sums if it is distributed, the updates if it is local.
        cohorts: fixed groups of clients, equal in size up to one, that take turns, one a round. Who takes part is public, so
            sampling protects no one, and each client is in rounds / cohorts of the rounds.
        dropout: share of the clients who do not reply in every round, rounded up, drawn anew: their updates and their part of
            a distributed noise are missing.
        colluders: clients who look on together with whoever sees sums or models: they know their own part of a local or
            distributed noise, which protects no one from them. 1 is a single curious client, 0 is an outsider.
        unit: whom the claims are about: "client", whose update is zeroed out, or "example", one record that is added to a
            client's or removed. A record may turn its client's whole update, which moves by twice the clip norm at most, so
            what is a noise multiplier of s about clients is s / 2 about examples; sampling of clients is not counted there,
            because the client takes part with either set of records.
        adaptive_clip: `{quantile, rate, share}`: the clip norm, at first `clip_norm`, moves after each round by `rate` towards
            this quantile of the updates' norms; a noisy count of those below it costs this `share` of the privacy. None keeps
            it. With noise "central" alone.
        local_steps: and record_rate: of "records": a client's steps in a round, and the chance of a record to be in one.

    References:
        McMahan et al. 2018, arXiv 1710.06963 (central). Kairouz, Liu, Steinke 2021, arXiv 2102.06387 (distributed). Andrew et
        al. 2021, arXiv 1905.03871 (adaptive_clip).
    """

    trainer: ClassVar[str] = "federated"

    clients: int
    noise: str = "central"
    clip_norm: float = 1.0
    noise_multiplier: float | None = None
    target_epsilon: float | None = None
    dropout: float = 0.0
    colluders: int = 0
    cohorts: int = 1
    unit: str = "client"
    local_steps: int | None = None
    record_rate: float | None = None
    adaptive_clip: Mapping[str, float] | None = None

    def __post_init__(self) -> None:
        checks.clipped_noise(self.clip_norm, self.noise_multiplier)
        if self.clients < 1:
            raise ConfigError(f"clients is {self.clients}; expected at least 1")
        checks.choice(self.noise, "noise", PLACES)
        checks.choice(self.unit, "unit", UNITS)
        options = (self.noise_multiplier is not None) + (self.target_epsilon is not None)
        if options != (self.noise != "none"):
            expectation = "neither" if self.noise == "none" else "exactly one"
            raise ConfigError(
                f"federated training with noise '{self.noise}' takes {expectation} of noise_multiplier, target_epsilon"
            )
        self._check_records()
        if ClipQuantile.read(self.adaptive_clip) is not None and self.noise != "central":
            raise ConfigError(
                f"adaptive_clip with noise '{self.noise}': a server counts and noises; use noise 'central', or leave it out"
            )
        if not 1 <= self.cohorts <= self.clients or (self.clients % self.cohorts and self.noise == "distributed"):
            raise ConfigError(
                f"cohorts is {self.cohorts} of {self.clients} clients with noise '{self.noise}'; expected 1 to the number of "
                "clients, and a divisor of it where clients share the noise of a sum"
            )
        if not 0 <= self.dropout < 1 or not self.replies or (self.dropout and self.noise != "distributed"):
            raise ConfigError(
                f"dropout is {self.dropout:g}; expected 0 to 1, so that a client of a round is left, and 0 unless noise is "
                "'distributed'"
            )
        if not 0 <= self.colluders < self.replies or (self.colluders and self.noise not in ("local", "distributed")):
            raise ConfigError(
                f"colluders is {self.colluders} with noise '{self.noise}' and {self.replies} replies in a round; expected 0 or "
                "more and fewer than reply, and 0 unless noise is 'local' or 'distributed': of other noise no client knows a "
                "part"
            )

    def _check_records(self) -> None:
        """Raise `ConfigError` if DP-SGD inside clients is not said in full, or is said of other noise."""
        options = (self.local_steps, self.record_rate)
        if self.noise != "records":
            if options != (None, None):
                raise ConfigError(
                    "local_steps and record_rate of the mechanism are those of noise 'records'; give them to the trainer"
                )
            return
        complete = (self.local_steps or 0) >= 1 and 0 < (self.record_rate or 0.0) <= 1 and self.noise_multiplier is not None
        if not complete or self.unit != "example" or self.cohorts != 1:
            raise ConfigError(
                "noise 'records' needs unit 'example', noise_multiplier, local_steps of at least 1, record_rate above 0 and up "
                "to 1, and no cohorts"
            )

    @property
    def replies(self) -> int:
        """Clients who reply in a round: of the whole federation, or of the smallest cohort on turn."""
        group = self.clients // self.cohorts
        return group - math.ceil(self.dropout * group - 1e-9)  # .1 of 30 is 3, whatever the last digit of the product

    @property
    def _unknown_share(self) -> float:
        """Return the deviation of the part of a sum's noise that the colluders do not know, over that of the whole."""
        return math.sqrt(1 - self.colluders / self.replies)

    @property
    def passes(self) -> Mapping[str, Any]:
        """Keys of the trainer that follow from the mechanism."""
        records = {"local_steps": self.local_steps, "record_rate": self.record_rate} if self.noise == "records" else {}
        records |= {"record_noise": self.noise_multiplier, "record_clip": self.clip_norm} if records else {}
        return records | {
            "clients": self.clients,
            "noise": self.noise,
            "dropped": self.clients // self.cohorts - self.replies,
            "colluders": self.colluders,
            "cohorts": self.cohorts,
            "unit": self.unit,
            "adaptive_clip": self.adaptive_clip,
        }

    def remark(self, setting: MechanismSetting) -> str:
        """Return who is protected from whom, in a sentence for the cover."""
        if self.noise == "records":
            return join_clauses((REMARKS[self.noise], self._group_claims(setting)))
        remarks = [REMARKS[self.noise]]
        remarks += [OF_EXAMPLES] if self.unit == "example" and self.noise != "none" else []
        return join_clauses([*remarks, ADAPTIVE] if self.adaptive_clip is not None else remarks)

    def _group_claims(self, setting: MechanismSetting) -> str:
        """Return what the claim about one record leaves a client that holds several.

        In each step k records move a clipped sum by k clip norms at most, by 2 k if they are replaced. Sampling them is not
        counted, so that the group's curve is that of Gaussian noise (Dong, Roth and Su 2019, arXiv 1905.02383, theorem 4):
        k mu-GDP.
        """
        event = self._inside(setting.steps)
        distance = 2 if setting.adjacency is Adjacency.REPLACE_ONE else 1
        mu = distance * math.sqrt(sum(count / noise**2 if noise else math.inf for noise, _, count in phases(event)))
        small, medium, large = (up(tradeoff.gdp_epsilon(size * mu, setting.delta)) for size in GROUPS)
        return phrase(
            "by group privacy it leaves a client's {few} records an epsilon of {two}, {more} records {ten} and {many} records "
            "{hundred} at delta {delta}, sampling not counted",
            few=GROUPS[0],
            two=small,
            more=GROUPS[1],
            ten=medium,
            many=GROUPS[2],
            hundred=large,
            delta=f"{setting.delta:g}",
        )

    def event(self, setting: MechanismSetting) -> Event:
        """Return the event of the training about one client, with the noise that is really added.

        Raises:
            ConfigError: a target epsilon without an accountant, or that no noise meets; local or distributed noise with clients
                sampled.
        """
        rate, rounds = setting.sample_rate, self._participations(setting)
        if self.unit == "example" and self.noise != "records" and setting.adjacency is Adjacency.REPLACE_ONE:
            raise ConfigError(
                "claims about examples count on any change of one record already, and adjacency 'replace_one' would count it "
                "twice; use 'add_remove'"
            )
        if self.noise in ("none", "records"):
            return sgd(sample_rate=rate, steps=rounds, unit="client")
        if self.noise in ("local", "distributed") and rate != 1:
            raise ConfigError(
                f"{self.noise} noise with sample_rate {rate:g}: the sum's noise would depend on who takes part, and be none "
                "in a round without a client; use sample_rate 1"
            )
        return dp_sgd(
            noise_multiplier=self._multiplier(setting), clip_norm=self.clip_norm, sample_rate=rate, steps=rounds, unit="client"
        )

    def _participations(self, setting: MechanismSetting) -> int:
        """Return the rounds that one client may take part in; `ConfigError` for cohorts and sampling, or unequal turns."""
        if self.cohorts > 1 and (setting.sample_rate != 1 or setting.steps % self.cohorts):
            raise ConfigError(
                f"{self.cohorts} cohorts with sample_rate {setting.sample_rate:g} and {setting.steps} rounds; use "
                "sample_rate 1, and rounds that the cohorts divide"
            )
        return setting.steps // self.cohorts

    def _multiplier(self, setting: MechanismSetting) -> float:
        """Return the noise multiplier that the training has: less than was planned if clients drop out."""
        if self.target_epsilon is None:
            return (self.noise_multiplier or 0.0) * math.sqrt(self.replies / (self.clients // self.cohorts))
        event = calibration.calibrate_noise(
            first_accountant(setting),
            target_epsilon=self.target_epsilon,
            delta=setting.delta,
            sample_rate=setting.sample_rate if self.unit == "client" else 1.0,
            steps=self._participations(setting),
            clip_norm=self.clip_norm,
            adjacency=setting.adjacency,
        )
        return phases(event)[0][0] * self._distance / (self._unknown_share if self.noise == "distributed" else 1.0)

    @property
    def _distance(self) -> float:
        """Return how far one unit moves an update at most, in clip norms."""
        return 1.0 if self.unit == "client" else 2.0

    def observers(self, event: Event) -> tuple[Observer, ...]:
        """Return what the training is to each party, those who see least first.

        Who sees single updates sees who took part, so sampling protects from no one there. The sum of updates that carry
        local noise has the noise of all clients.
        """
        noisy = noisy_steps(event)
        bare = Observer(access=Access.EACH_UPDATE, event=sgd(sample_rate=1.0, steps=steps(event), unit=self._unit))
        if self.noise == "records":
            return (Observer(access=Access.EACH_UPDATE, event=self._inside(steps(event))),)
        if noisy is None:
            return (bare if self.unit == "example" else replace(bare, event=event),)

        def observer(access: Access, multiplier: float, rate: float = 1.0) -> Observer:
            steps_of_party = dp_sgd(
                noise_multiplier=multiplier / self._distance,
                clip_norm=noisy.clip_norm,
                sample_rate=rate if self.unit == "client" else 1.0,
                steps=noisy.steps,
                unit=self._unit,
            )
            return Observer(access=access, event=steps_of_party)

        if self.noise == "central":
            return observer(Access.RELEASED_MODELS, noisy.noise_multiplier, noisy.sample_rate), bare
        if self.noise == "distributed":
            share = noisy.noise_multiplier / math.sqrt(self.replies)
            sum_noise = noisy.noise_multiplier * self._unknown_share
            return observer(Access.SECURE_SUM, sum_noise), observer(Access.EACH_UPDATE, share)
        client_update = observer(Access.EACH_UPDATE, noisy.noise_multiplier)
        total_noise = noisy.noise_multiplier * math.sqrt(self.replies - self.colluders)
        return observer(Access.SECURE_SUM, total_noise), client_update

    def _inside(self, rounds: int) -> Event:
        """Return what a client that takes part in every round does with one of its records."""
        return dp_sgd(
            noise_multiplier=self.noise_multiplier or 0.0,
            clip_norm=self.clip_norm,
            sample_rate=self.record_rate or 1.0,
            steps=rounds * (self.local_steps or 1),
        )

    @property
    def _unit(self) -> Unit:
        return "client" if self.unit == "client" else "example"


PLUGIN = Federated
