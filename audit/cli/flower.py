"""`audit flower`: checks of a federated strategy of Flower's, called as a mechanism."""

from __future__ import annotations

from typing import Any

from audit.cli import options, own_code, step
from audit.cli.printing import AsJson


def flower(
    strategy: options.Strategy,
    mod: options.Mods = None,
    noise_multiplier: options.ClaimedNoise = None,
    clip_norm: options.ClaimedClip = None,
    clients: options.ClaimedClients = None,
    seed: options.StepSeed = 0,
    output: options.StepOutput = None,
    as_json: AsJson = False,
) -> int:
    """Check a Flower strategy: clipping, weights, noise. Exit code 1 if the claim is refuted. Executes its module."""
    from audit.step_checks.rounds.run import check_strategy

    own_code.add_working_folder([strategy, *(mod or [])])
    with own_code.prints_aside():
        report = check_strategy(
            _instance(strategy),
            mods=[own_code.find(name) for name in mod or []],
            noise_multiplier=noise_multiplier,
            clip_norm=clip_norm,
            clients=clients,
            seed=seed,
        )
    return step.conclude(report, "strategy", output, as_json)


def _instance(name: str) -> Any:
    """Return the strategy that a name represents; a class or a function without arguments is called."""
    value = own_code.find(name)
    if isinstance(value, type) or not any(hasattr(value, name) for name in ("aggregate_train", "aggregate_fit", "epsilon")):
        return own_code.call(value, name)
    return value
