"""What sampling decides if a replay cannot: outputs of the program on the pair that it left open."""

import time
from typing import Any

from audit.core.adjacency import Adjacency
from audit.core.claims import DECLARED, Claim, Outcome
from audit.core.errors import DataError
from audit.mechanism_checks.run import Questions, check_mechanism
from audit.mechanism_checks.sampling import Pair
from audit.replays.claims import ReplayClaim
from audit.replays.recording import Recording
from audit.replays.run import Program
from audit.stats.curves import tradeoff

CONFIDENCE = 1 - 1e-6
_FEWEST, _LIMIT = 300, 12_000


def sample_pair(program: Program, pair: tuple[Any, Any], claim: ReplayClaim, seconds: float) -> str | None:
    """Return why outputs on a pair refute the claim, or None if they do not.

    Guarantee: a program that keeps its claim is refuted with probability at most `1 - CONFIDENCE`.
    """
    start = time.process_time()
    outputs = [_output(program, data, seed) for seed in range(2) for data in pair]
    if any(output is None for output in outputs):
        return None
    samples = int(seconds / max((time.process_time() - start) / 4, 1e-6) / 2)
    if samples < _FEWEST:
        return None
    epsilon, delta = (claim.epsilon, claim.delta) if claim.mu is None else (1.0, tradeoff.gdp_delta(claim.mu, 1.0))
    questions = Questions(
        claim=Claim(epsilon=epsilon, delta=delta, adjacency=Adjacency.REPLACE_ONE, source=DECLARED),
        confidence=CONFIDENCE,
        floating_point=False,
    )
    try:
        report = check_mechanism(
            lambda data, rng: _output(program, data, int(rng.integers(2**40))),
            [Pair(data=pair[0], neighbour=pair[1], name="pair")],
            questions,
            samples=min(samples, _LIMIT),
        )
    except DataError:
        return None  # outputs of a form that has no score
    return report.verdict.reason if report.verdict.outcome is Outcome.VIOLATED else None


def _output(program: Program, data: Any, seed: int) -> Any:
    run = program.run(data, Recording(seed=seed))
    if run.error is not None:
        return None
    return {
        path: float(atom) if isinstance(atom, float) else atom[1] if isinstance(atom, tuple) else str(atom)
        for path, atom in run.atoms
        if path.startswith("returned")
    }
