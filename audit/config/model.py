"""The keys of a config, their types, bounds and defaults."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, model_validator
from pydantic_core import PydanticCustomError

from audit import plugins
from audit.core.access import ACCESS_BY_NAME, Access
from audit.core.adjacency import Adjacency
from audit.core.claims import MOST_CERTIFICATES
from audit.core.errors import ConfigError
from audit.core.protocols import Gate
from audit.core.results import USUAL_FORMATS

VERSION = 1
Result = TypeVar("Result")


class ConfigSection(BaseModel):
    """Every part of a config: unknown keys are errors, values do not change."""

    model_config = ConfigDict(extra="forbid", frozen=True)


def _spec(value: Any) -> Any:
    return {"kind": value} if isinstance(value, str) else value


Spec = Annotated[dict[str, Any], BeforeValidator(_spec)]
"""A plug-in: its name alone, or a mapping with `kind` and the plug-in's own keys."""


def _access(name: str) -> str:
    if ":" not in name and name not in ACCESS_BY_NAME:
        raise ValueError(f"'{name}' is no access; expected one of {', '.join(ACCESS_BY_NAME)}, or package.module:OBJECT")
    return name


class UnknownKey(ConfigError):
    """A key that its section does not take; `advice` names the nearest and all that are allowed."""

    def __init__(self, key: str, advice: str) -> None:
        super().__init__(f"unknown key '{key}'.{advice}")
        self.key, self.advice = key, advice


def _check(check: Callable[[], Result]) -> Result:
    """Return what `check` returns; its refusal becomes one that names the line of the file."""
    try:
        return check()
    except UnknownKey as error:  # the reader of files knows its line
        raise PydanticCustomError("unknown_key", "{advice}", {"key": error.key, "advice": error.advice}) from error
    except ConfigError as error:
        raise ValueError(str(error)) from error


def _named_in(folder: str) -> AfterValidator:
    """Return a check that a name is that of a plug-in, or `package.module:Class`."""
    return AfterValidator(lambda name: _check(lambda: plugins.check_name(plugins.FOLDERS[folder], name, folder)))


Format = Annotated[str, _named_in("formats")]
Kind = Annotated[str, _named_in("mechanisms")]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]
Rate = Annotated[float, Field(gt=0, le=1)]


_OPTIMIZERS = plugins.FOLDERS["optimizers"]
_PAIRS = (("batch_size", "sample_rate"), ("steps", "epochs"))


def optimizer_keys(optimizer: Mapping[str, Any]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the options that an optimiser takes, and those of them that have no default.

    Raises:
        ConfigError: there is no such optimiser.
    """
    return plugins.keys(plugins.find(_OPTIMIZERS, str(optimizer.get("kind")), "training.optimizer"))


class TrainingOverride(ConfigSection):
    """What a mechanism trains in its own way; further keys are options of the optimiser, as those of `optimizer` itself."""

    model_config = ConfigDict(extra="allow", frozen=True)

    optimizer: Spec | None = None
    batch_size: Annotated[int, Field(gt=0)] | None = None
    sample_rate: Rate | None = None
    steps: Annotated[int, Field(gt=0)] | None = None
    epochs: Positive | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The options of the optimiser that stand beside it, for every optimiser that takes them."""
        return {key: value for key, value in (self.model_extra or {}).items() if value is not None}

    @model_validator(mode="after")
    def _options_are_unique(self) -> TrainingOverride:
        if doubles := sorted(self.options.keys() & (self.optimizer or {}).keys()):
            raise ValueError(f"{', '.join(doubles)} stands both in optimizer and beside it; give it once")
        if self.optimizer is not None:
            optimizer = {**self.optimizer, **self.options}
            _check(lambda: self.check_options(optimizer))
            _, mandatory = optimizer_keys(optimizer)
            if set(mandatory) <= optimizer.keys():  # a mechanism may give what is missing here
                _check(lambda: plugins.build(_OPTIMIZERS, optimizer, "training.optimizer"))
        return self

    def check_options(self, optimizer: Mapping[str, Any]) -> None:
        """Raise `ConfigError` where a key is neither one of a training nor an option of this optimiser."""
        takes, _ = optimizer_keys(optimizer)
        fields = list(TrainingOverride.model_fields)
        for key in self.options:
            if key not in takes:
                raise UnknownKey(
                    key,
                    f"{plugins.hint(key, [*fields, *takes])} Allowed here: {', '.join(fields)}, and the "
                    f"options of the optimiser '{optimizer.get('kind')}': {', '.join(takes) or 'none'}",
                )


class TrainingSection(TrainingOverride):
    """How models are trained; a mechanism can override single keys."""

    optimizer: Spec = {"kind": "sgd"}

    def overridden(self, own: TrainingOverride) -> TrainingSection:
        """Return this training with a mechanism's own keys on top; giving one of a pair replaces the other.

        Where the mechanism has an optimiser of its own, the options beside the common optimiser hold for it too if it takes
        them; those within the common optimiser do not.

        Raises:
            ConfigError: an optimiser that does not exist, an option that it does not take or lacks, or a value that it refuses.
        """
        if own.optimizer is None:
            own.check_options(self.optimizer)
            optimizer = {**self.optimizer, **self.options, **own.options}
        else:
            takes, _ = optimizer_keys(own.optimizer)
            common = {key: value for key, value in self.options.items() if key in takes}
            optimizer = {**common, **own.optimizer, **own.options}
        plugins.build(_OPTIMIZERS, optimizer, "training.optimizer")
        values: dict[str, Any] = {}
        for pair in _PAIRS:
            source = self if all(getattr(own, name) is None for name in pair) else own
            values |= {name: getattr(source, name) for name in pair}
        return TrainingSection(optimizer=optimizer, **values)


class DeclaredClaim(ConfigSection):
    """A guarantee that somebody states without an accountant.

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
        settings = {key: getattr(self, key) for key in ("clip_norm", "noise_multiplier", "target_epsilon")}
        setting_values = {
            key: value for key, value in settings.items() if value is not None and (key in takes or key != "clip_norm")
        }
        return {"kind": self.kind, **setting_values, **(self.model_extra or {})}

    @model_validator(mode="after")
    def _keys_fit(self) -> MechanismSpec:
        _check(lambda: plugins.build(plugins.FOLDERS["mechanisms"], self.mechanism, "mechanisms"))
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
    canaries: Spec
    count: Annotated[int, Field(ge=1)]
    scorers: Annotated[list[Spec], Field(min_length=1)]
    estimators: Annotated[list[Spec], Field(min_length=1)]
    mechanisms: list[str] | None = None
    stopping: Literal["never", "first_proof"] = "never"


class Policy(ConfigSection):
    """Gates for release by name, each with its limit; all are optional. A gate that is not met makes the exit code 1.

    A gate is a file of `audit/experiment/gates`, or a third party's `package.module:Class`.
    """

    model_config = ConfigDict(extra="allow", frozen=True)

    @property
    def gates(self) -> dict[str, Gate]:
        """The gates that have a limit."""
        return {name: _gate(name, limit) for name, limit in (self.model_extra or {}).items() if limit is not None}

    @model_validator(mode="before")
    @classmethod
    def _all_gates(cls, entries: Any) -> Any:
        """Return the gates that there are, without a limit where none is given."""
        defaults = dict.fromkeys(plugins.in_order(plugins.FOLDERS["gates"]))
        return {**defaults, **entries} if isinstance(entries, dict) else entries

    @model_validator(mode="after")
    def _limits_fit(self) -> Policy:
        _check(lambda: self.gates)
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
        """The executor's spec."""
        return {"kind": self.kind, **(self.model_extra or {})}


class Output(ConfigSection):
    """Where results go and in which forms."""

    directory: str = "runs"
    formats: list[Format] = list(USUAL_FORMATS)


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
    seed: Annotated[int, Field(ge=0)] = 0
    delta: Share = 1e-5
    confidence: Share = 0.95
    device: str = "cpu"
    data: Spec
    model: Spec
    training: TrainingSection = TrainingSection()
    mechanisms: Annotated[list[MechanismSpec], Field(min_length=1)]
    games: Annotated[list[GameSpec], Field(min_length=1)]
    accountants: list[Spec] = [{"kind": "pld"}, {"kind": "rdp"}, {"kind": "rdp_classic"}]
    policy: Policy = Policy()
    about: About = About()
    execution: ExecutionSection = ExecutionSection()
    output: Output = Output()
    certificates: Annotated[int, Field(ge=0, le=MOST_CERTIFICATES)] = 200
    """Simulated audits behind a game's calibration certificate, fewer where they would take long; 0 simulates nothing."""
    unaccounted: list[str] = []
    """What touched the private data outside the claim (tuning runs, statistics, vocabularies), in words."""

    checks: list[Spec] = []
    """Checks of what was run that third parties add (`package.module:Class`); this project's own always run."""
    coverage: list[Spec] = []
    """Classes of attack that third parties add to the report's list."""

    def training_of(self, mechanism: MechanismSpec) -> TrainingSection:
        """Return how a mechanism is trained.

        Raises:
            ConfigError: options that its optimiser does not take, lacks or refuses.
        """
        try:
            return self.training.overridden(mechanism.training)
        except ConfigError as error:
            raise ConfigError(f"training of '{mechanism.name}': {error}") from error

    @model_validator(mode="after")
    def _trainings_fit(self) -> Config:
        _check(lambda: [self.training_of(mechanism) for mechanism in self.mechanisms])
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
