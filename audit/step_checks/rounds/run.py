"""All probes on one federated strategy, or on a client's mod for local noise."""

from __future__ import annotations

import copy
import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from audit.core.errors import ConfigError
from audit.core.quiet import quiet_log
from audit.stats import noise_tests
from audit.stats.curves.tradeoff import gdp_epsilon
from audit.step_checks.findings import Finding, StepReport, all_findings, finding
from audit.step_checks.rounds import legacy, wire
from audit.step_checks.rounds.bench import LOUD, SHAPES, RoundBench, RoundClaim
from audit.step_checks.rounds.global_generators import seeded
from audit.step_checks.rounds.processing import SMALL
from audit.step_checks.steps import Setting
from audit.step_checks.tensors import Tensors, norm, spread, zeros

# A client's mod that clips and adds noise before anything leaves the client: local differential privacy of one round.
_NEVER = 1e30  # an epsilon at which the mod adds no noise to speak of
_ROUNDS = 240
_SIGNIFICANCE = 1e-9
_CLAIMS = ("clipping_norm", "sensitivity", "epsilon", "delta")


def check_local(mod: Any, records: Any, seed: int) -> StepReport:
    """Return the findings on a mod such as Flower's `LocalDpMod`: clipping, noise, and the epsilon that the two come to.

    Raises:
        ConfigError: epsilon or delta with which no noise is defined.
    """
    if not mod.epsilon > 0 or not 0 < mod.delta < 1:
        raise ConfigError(f"the mod has epsilon {mod.epsilon} and delta {mod.delta}; expected epsilon above 0, delta in (0, 1)")
    client = _Client(mod, records, seed)
    findings = [_clip(client, mod), _zero(client), *_noise(client, mod), _integers(client)]
    setting = Setting(noise_multiplier=client.deviation(mod) / mod.clipping_norm, clip_norm=mod.clipping_norm, divisor=1.0)
    return StepReport(name=type(mod).__name__, setting=setting, findings=tuple(findings))


class _Client:
    """A client with an app that has that mod alone."""

    def __init__(self, mod: Any, records: Any, seed: int) -> None:
        loud, silent = copy.deepcopy(mod), copy.deepcopy(mod)
        silent.epsilon = _NEVER
        older = legacy.is_legacy_mod(mod)
        self.loud, self.silent = (legacy.LegacyMod(each, records) if older else each for each in (loud, silent))
        self.records, self.seed = records, seed

    @staticmethod
    def deviation(mod: Any) -> float:
        """Standard deviation of the classic Gaussian mechanism that such a mod is documented to add."""
        return float(mod.sensitivity * math.sqrt(2 * math.log(1.25 / mod.delta)) / mod.epsilon)

    def upload(self, update: Tensors, quiet: bool = True) -> Tensors | str:
        """Return how far the model that leaves the client is from zero, or why none leaves."""
        records = self.records
        with wire.task_identity(records), np.errstate(all="ignore"):
            start = wire.to_record(records, {name: np.zeros_like(value) for name, value in update.items()})
            content = records.RecordDict({"arrays": start, "config": records.ConfigRecord()})
            message = records.Message(content, dst_node_id=1, message_type="train")
            answer = records.RecordDict(
                {"arrays": wire.to_record(records, update), "metrics": records.MetricRecord({"num-examples": 1})}
            )
            try:
                reply = wire.through_mods(
                    message, records.Message(answer, reply_to=message), [self.silent if quiet else self.loud]
                )
            except Exception as error:  # noqa: BLE001  the mod may raise anything, and what it raises is the finding
                return f"{type(error).__name__}: {error}"
            if reply.has_error():
                return str(reply.error.reason)
            return {name: value.astype(np.float64) for name, value in wire.from_record(reply.content["arrays"]).items()}


def _size(upload: Tensors | str) -> float:
    return math.inf if isinstance(upload, str) else norm(upload)


def _clip(client: _Client, mod: Any) -> Finding:
    """Return the finding on the update that leaves the client longest."""
    clip = float(mod.clipping_norm)
    updates = {"a whole update": spread(SHAPES, LOUD * clip), "NaN in one entry": spread(SHAPES, LOUD * clip)}
    updates["NaN in one entry"]["bias"][0] = np.nan
    for name, shape in SHAPES.items():
        alone = zeros(SHAPES)
        alone[name] = spread({name: shape}, LOUD * clip)[name]
        updates[f"parameter '{name}' alone"] = alone
    sizes = {label: _size(client.upload(update)) for label, update in updates.items()}
    label = max(sizes, key=lambda name: sizes[name])
    message = f"{LOUD:g} C long, {label} leaves the client at {sizes[label] / clip:.4g} C"
    fix = "clip the whole update, scalars too, and let one that is not finite count as zero"
    return finding("local.clip", sizes[label] <= clip * 1.002, message, measurement=sizes[label], claim=clip, fix=fix)


def _zero(client: _Client) -> Finding:
    upload = client.upload(zeros(SHAPES))
    if isinstance(upload, str):
        return finding(
            "local.zero", False, f"An update of exactly zero is lost: {upload}", fix="guard the division by the norm"
        )
    return finding("local.zero", True, "An update of exactly zero is legal")


def _noise(client: _Client, mod: Any) -> list[Finding]:
    """Return the findings on the deviation of the noise, and on the epsilon at clip norm C, of diameter 2 C."""
    clip, claimed = float(mod.clipping_norm), client.deviation(mod)
    with seeded(client.seed):
        draws = [client.upload(spread(SMALL, 0.5 * clip), quiet=False) for _ in range(_ROUNDS)]
    uploads = [draw for draw in draws if not isinstance(draw, str)]
    if len(uploads) < len(draws):
        return [finding("local.noise", False, f"An ordinary update is lost: {next(d for d in draws if isinstance(d, str))}")]
    values = np.stack([np.concatenate([array.ravel() for array in draw.values()]) for draw in uploads])
    values = (values - values.mean(0)) * math.sqrt(len(values) / (len(values) - 1))
    deviation = float(np.sqrt(np.mean(values**2)))
    is_passed = claimed > 0 and noise_tests.variance_tail(values, claimed) >= _SIGNIFICANCE
    message = f"Noise has deviation {deviation:.4g} where {claimed:.4g} is documented"
    fix = "add N(0, deviation^2) to every entry"
    scale = finding("local.noise", is_passed, message, measurement=deviation, claim=claimed, fix=fix)
    epsilon = gdp_epsilon(2 * clip / claimed, mod.delta) if claimed > 0 else math.inf
    message = (
        f"One round is ({epsilon:.4g}, {mod.delta:g})-differentially private where {mod.epsilon:g} is claimed: two updates of "
        f"norm C are 2 C = {2 * clip:g} apart, and noise is scaled for a sensitivity of {mod.sensitivity:g}; rounds add up"
    )
    fix = "set sensitivity to twice the clip norm, and account for all rounds"
    return [
        scale,
        finding("local.epsilon", epsilon <= mod.epsilon * (1 + 1e-6), message, measurement=epsilon, claim=mod.epsilon, fix=fix),
    ]


def _integers(client: _Client) -> Finding:
    counters: Mapping[str, Any] = {"weight": np.full(60, 1e-6, np.float32), "counter": np.arange(5, dtype=np.int64)}
    check, fix = "local.integer", "leave integer buffers out of what is clipped, noised and sent"
    upload = client.upload(dict(counters), quiet=False)
    if isinstance(upload, str):
        return finding(check, False, f"A model with an integer buffer is lost: {upload}", fix=fix)
    counter = upload["counter"]
    exact = bool(np.array_equal(counter, np.round(counter)) and counter.any())
    message = f"An integer buffer leaves the client without noise: {counter}" if exact else "No integer buffer leaves exactly"
    return finding(check, not exact, message, fix=fix)


PROBES = "audit.step_checks.rounds.probes"


def check_strategy(
    strategy: Any,
    *,
    mods: Sequence[Any] = (),
    noise_multiplier: float | None = None,
    clip_norm: float | None = None,
    clients: int | None = None,
    records: Any = None,
    seed: int = 0,
) -> StepReport:
    """Return the findings of all probes on a Flower strategy, called as a mechanism.

    Takes seconds, trains nothing and needs no Ray. Every round is played on a copy of the strategy, with replies that are
    made by hand.

    Args:
        strategy: an instance of `flwr.serverapp.strategy.Strategy`, or anything with its `configure_train` and
            `aggregate_train`; one of the older `flwr.server.strategy`; or a client's mod with local noise (`LocalDpMod`).
        mods: of the clients' apps, the first outermost, if clients clip; of the API that the strategy is of.
        noise_multiplier: noise of the sum over the clip norm that the accounting claims; None reads the strategy's.
        clip_norm: that it claims; None reads the strategy's `clipping_norm`.
        clients: in a round, by which the sum is divided; None reads `num_sampled_clients`.
        records: module with the record types; None takes `flwr.app`.
        seed: of the global generators.

    Raises:
        ConfigError: no strategy, a claim that can neither be read nor was given, a strategy that refuses ordinary replies or
            cannot be repeated without noise, or no Flower.

    References: docs/use/federated.md.
    """
    module = wire.flower_records() if records is None else records
    with quiet_log("flwr", logging.CRITICAL), seeded(seed):  # it logs each of hundreds of rounds
        if callable(strategy) and all(hasattr(strategy, name) for name in _CLAIMS):
            return check_local(strategy, module, seed)
        if legacy.is_legacy(strategy):
            strategy = legacy.LegacyRounds(strategy, module)
            mods = [legacy.LegacyMod(mod, module) for mod in mods]
        if not hasattr(strategy, "aggregate_train") or not hasattr(strategy, "configure_train"):
            raise ConfigError(
                f"a {type(strategy).__name__} has no configure_train and aggregate_train; hand in a strategy of Flower's "
                "message API (flwr.serverapp.strategy)"
            )
        claim = _claim(strategy, noise_multiplier, clip_norm, clients)
        bench = RoundBench(strategy=strategy, claim=claim, mods=tuple(mods), records=module, seed=seed)
        if bench.ordinary.moved is None:
            raise ConfigError(f"the strategy refused ordinary replies: {bench.ordinary.refusal}; do its clients need a mod?")
        bench.demand_repeatable()
        findings, seconds = all_findings(PROBES, bench)
    setting = Setting(noise_multiplier=claim.noise_multiplier, clip_norm=claim.clip_norm, divisor=float(claim.clients))
    name = " around ".join(type(layer).__name__ for layer in wire.chain(strategy) if not isinstance(layer, legacy.LegacyRounds))
    return StepReport(name=name, setting=setting, findings=findings, seconds=seconds)


def _claim(strategy: Any, noise_multiplier: float | None, clip_norm: float | None, clients: int | None) -> RoundClaim:
    """Return the claim, with what was not given read from the strategy.

    An adaptive strategy of Flower's holds the multiplier of the updates alone, z_u = (z^-2 - (2 s)^-2)^-1/2 with the deviation
    s of the count's noise; z is the given multiplier.
    """

    def claimed(value: Any, attribute: str, option: str) -> Any:
        content = wire.read_setting(strategy, attribute, None) if value is None else value
        if content is None:
            raise ConfigError(f"{type(strategy).__name__} has no {attribute}; say what is claimed by {option}")
        return content

    multiplier = float(claimed(noise_multiplier, "noise_multiplier", "noise_multiplier"))
    spread = wire.read_setting(strategy, "clipped_count_stddev", None)
    if noise_multiplier is None and spread and multiplier:
        multiplier = 1 / math.hypot(1 / multiplier, 1 / (2 * float(spread)))
    return RoundClaim(
        noise_multiplier=multiplier,
        clip_norm=float(claimed(clip_norm, "clipping_norm", "clip_norm")),
        clients=int(claimed(clients, "num_sampled_clients", "clients")),
    )
