"""All probes on one federated strategy, or on a client's mod for local noise."""

from __future__ import annotations

import logging
import math
from collections.abc import Sequence
from typing import Any

from audit.core.errors import ConfigError
from audit.core.quiet import quiet_log
from audit.step_checks.findings import StepReport, all_findings
from audit.step_checks.rounds import legacy, local_mod, wire
from audit.step_checks.rounds.bench import RoundBench, RoundClaim
from audit.step_checks.rounds.global_generators import seeded
from audit.step_checks.steps import Setting

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
        if local_mod.is_local(strategy):
            return local_mod.check_local(strategy, module, seed)
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
