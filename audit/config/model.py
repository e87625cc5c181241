"""The keys of a config, their types, bounds and defaults."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, ConfigDict, Field, model_validator

from audit import plugins
from audit.config.section import ConfigSection, Positive, Share, Spec, named_in, takes_keys, with_line
from audit.config.training import TrainingOverride, TrainingSection
from audit.core.access import ACCESS_BY_NAME, Access
from audit.core.adjacency import Adjacency
from audit.core.claims import MOST_CERTIFICATES
from audit.core.data import SPLIT
from audit.core.errors import ConfigError
from audit.core.protocols import Gate
from audit.core.results import USUAL_FORMATS

VERSION = 1
Format = Annotated[str, named_in("formats")]
Kind = Annotated[str, named_in("mechanisms")]


def _access(name: str) -> str:
    if ":" not in name and name not in ACCESS_BY_NAME:
        raise ValueError(f"'{name}' is no access; expected one of {', '.join(ACCESS_BY_NAME)}, or package.module:OBJECT")
    return name


class DeclaredClaim(ConfigSection):
    """A guarantee that a user states without an accountant.

    With `family` the whole trade-off curve is claimed that has this epsilon at delta: "gdp" that of a Gaussian, "dp_sgd" that
    of the mechanism's own sample rate and steps. Bounds inside that family can refute it then.
    """

    epsilon: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    delta: Share | None = None
    source: str = "declared"
    family: Literal["gdp", "dp_sgd"] | None = None


class MechanismSpec(ConfigSection):
    """One training recipe to compare: with or without differential privacy; further keys are a third party's own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.+-]*$")]
    kind: Kind
    clip_norm: Positive = 1.0
    noise_multiplier: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = None
    target_epsilon: Positive | None = None
    claim: DeclaredClaim | None = None
    trainer: Spec | None = None
    training: TrainingOverride = TrainingOverride()

    @property
    def mechanism(self) -> dict[str, Any]:
        """The mechanism's own keys: of those that all mechanisms know, the ones that it takes or that are given."""
        package = plugins.FOLDERS["mechanisms"]
        takes, _ = plugins.keys(plugins.find(package, self.kind, "mechanisms"))
        keys = [key for key in ("clip_norm", "noise_multiplier", "target_epsilon") if key in takes or key != "clip_norm"]
        settings = {key: value for key in keys if (value := getattr(self, key)) is not None}
        return {"kind": self.kind, **settings, **(self.model_extra or {})}

    @model_validator(mode="after")
    def _keys_fit(self) -> MechanismSpec:
        with_line(lambda: plugins.build(plugins.FOLDERS["mechanisms"], self.mechanism, "mechanisms"))
        return self


class GameSpec(ConfigSection):
    """One game: what is planted, what the adversary sees, how it is scored and bounded.

    `prior` is the share of members that an adversary expects among its candidates; only the precision of thresholds uses it.
    With `stopping: first_proof` the runs are a maximum: they are trained job by job until a claim is refuted.
    """

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _.+-]*$")]
    access: Annotated[str, AfterValidator(_access)] = Access.FINAL_MODEL.name
    adjacency: Adjacency = Adjacency.ADD_REMOVE
    runs: Annotated[int, Field(ge=1)] = 1
    references: Annotated[int, Field(ge=0)] = 0
    inclusion_probability: Share = 0.5
    prior: Share = 0.01
    canaries: Annotated[Spec, takes_keys("canaries")]
    count: Annotated[int, Field(ge=1)]
    scorers: Annotated[list[Annotated[Spec, takes_keys("scorers")]], Field(min_length=1)]
    estimators: Annotated[list[Annotated[Spec, takes_keys("estimators")]], Field(min_length=1)]
    mechanisms: list[str] | None = None
    stopping: Literal["never", "first_proof"] = "never"


class Policy(ConfigSection):
    """Gates for release by name, each with its limit; all are optional. A gate that is not met makes the exit code 1.

    A gate is a file of `audit/experiment/gates`, or a third party's `package.module:Class`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def gates(self) -> dict[str, Gate]:
        return {name: _gate(name, limit) for name, limit in (self.model_extra or {}).items() if limit is not None}

    @model_validator(mode="before")
    @classmethod
    def _all_gates(cls, entries: Any) -> Any:
        """Return the gates that there are, without a limit if none is given."""
        defaults = dict.fromkeys(plugins.in_order(plugins.FOLDERS["gates"]))
        return {**defaults, **entries} if isinstance(entries, dict) else entries

    @model_validator(mode="after")
    def _limits_fit(self) -> Policy:
        with_line(lambda: self.gates)
        return self


def _gate(name: str, limit: Any) -> Gate:
    if isinstance(limit, bool) or not isinstance(limit, int | float):
        raise ConfigError(f"policy.{name} is {limit!r}; expected a number")
    gate: Gate = plugins.build(plugins.FOLDERS["gates"], {"kind": name, "limit": float(limit)}, "policy")
    return gate


class ExecutionSection(ConfigSection):
    """Where and in what portions models are trained; further keys are the executor's own."""

    model_config = ConfigDict(extra="allow", frozen=True)

    kind: str = "serial"
    models_per_job: Annotated[int, Field(ge=1)] = 32

    @property
    def executor(self) -> dict[str, Any]:
        return {"kind": self.kind, **(self.model_extra or {})}


class Output(ConfigSection):
    """Where results go and in which forms, and whether the report says what its mechanisms cost, or their course alone."""

    directory: str = "runs"
    formats: list[Format] = Field(default=list(USUAL_FORMATS))
    costs: bool | Literal["course"] = False


Words = Annotated[str, Field(max_length=300)]


class About(ConfigSection):
    """Who has what audited, why and until when: printed in the report, and the owner's to say. All are optional."""

    system: Words = ""
    owner: Words = ""
    purpose: Words = ""
    release_context: Words = ""
    auditor: Words = ""
    reviewer: Words = ""
    valid_until: Words = ""
    next_audit: Words = ""


class Config(ConfigSection):
    """A whole audit."""

    version: int
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]*$")]
    title: Annotated[str, Field(max_length=300)] = ""
    seed: Annotated[int, Field(ge=0)] | None = None
    """Of all draws, coins among them; None draws one of 128 bits from the system, kept in the run folder's `private/`."""

    delta: Share = 1e-5
    confidence: Share = 0.95
    device: str = "cpu"
    data: Annotated[Spec, takes_keys("readers", "name", "records_per_user", *SPLIT)]
    model: Annotated[Spec, takes_keys("models")]
    training: TrainingSection = TrainingSection()
    mechanisms: Annotated[list[MechanismSpec], Field(min_length=1)]
    games: Annotated[list[GameSpec], Field(min_length=1)]
    accountants: list[Annotated[Spec, takes_keys("accountants")]] = Field(
        default=[{"kind": "pld"}, {"kind": "rdp"}, {"kind": "rdp_classic"}]
    )
    policy: Policy = Policy()
    about: About = About()
    execution: ExecutionSection = ExecutionSection()
    output: Output = Output()
    certificates: Annotated[int, Field(ge=0, le=MOST_CERTIFICATES)] = 200
    """Simulated audits behind a game's calibration certificate, fewer where they would take long; 0 simulates nothing."""
    unaccounted: list[str] = Field(default=[])
    """What touched the private data outside the claim (tuning runs, statistics, vocabularies), in words."""

    checks: list[Spec] = Field(default=[])
    """Checks of what was run that third parties add (`package.module:Class`); this project's own always run."""
    coverage: list[Spec] = Field(default=[])
    """Classes of attack that third parties add to the report's list."""

    def find_training(self, mechanism: MechanismSpec) -> TrainingSection:
        """Return how a mechanism is trained; `ConfigError` for options that its optimiser does not take, lacks or refuses."""
        try:
            return self.training.overridden(mechanism.training)
        except ConfigError as error:
            raise ConfigError(f"training of '{mechanism.name}': {error}") from error

    @model_validator(mode="after")
    def _trainings_fit(self) -> Config:
        with_line(lambda: [self.find_training(mechanism) for mechanism in self.mechanisms])
        return self

    @model_validator(mode="after")
    def _names_agree(self) -> Config:
        for kind, entries in (("mechanisms", self.mechanisms), ("games", self.games)):
            names = [entry.name for entry in entries]
            if len(set(names)) != len(names):
                raise ValueError(f"two {kind} have the same name: {names}")
        training_names = {mechanism.name for mechanism in self.mechanisms}
        for game in self.games:
            if missing := sorted(set(game.mechanisms or ()) - training_names):
                raise ValueError(
                    f"game '{game.name}' names mechanisms that do not exist: {missing}; there are {sorted(training_names)}"
                )
        return self
