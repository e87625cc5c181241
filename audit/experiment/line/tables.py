"""Tables that go beside the report: every score with its coin, and what the run ran on."""

import io
import json
import os
from collections.abc import Sequence

import numpy as np
import pandas as pd

from audit.core.results import AuditReport
from audit.experiment.line.game import GameOutcome

_COLUMNS = {"mechanism": str, "game": str, "attack": str, "run": int, "canary": int, "score": float, "member": bool}


def scores_parquet(report: AuditReport, outcomes: Sequence[GameOutcome]) -> bytes:
    """Every score: mechanism, game, attack, run, canary, score, member. Holds the coins: for internal use."""
    owners = [(result.name, game) for result in report.mechanisms for game in result.games]
    frames = [pd.DataFrame({name: np.empty(0, kind) for name, kind in _COLUMNS.items()})]
    for (mechanism, game), outcome in zip(owners, outcomes, strict=True):
        for scores in outcome.scores:
            count = len(scores.values) // game.game.runs
            frames.append(
                pd.DataFrame(
                    {
                        "mechanism": mechanism,
                        "game": game.name,
                        "attack": scores.attack,
                        "run": np.repeat(np.arange(game.game.runs), count),
                        "canary": np.tile(np.arange(count), game.game.runs),
                        "score": scores.values,
                        "member": scores.included,
                    }
                )
            )
    buffer = io.BytesIO()
    pd.concat(frames[1:] or frames, ignore_index=True).to_parquet(buffer, index=False)
    return buffer.getvalue()


def environment(report: AuditReport, seconds: float) -> bytes:
    """Return what the run ran on and how long it took; kept apart from the report, which must not depend on either."""
    value = {
        "packages": dict(report.provenance.packages),
        "python": report.provenance.python,
        "platform": report.provenance.platform,
        "device": report.provenance.device,
        "threads": report.provenance.threads,
        "cores": os.cpu_count(),
        "seconds": round(seconds, 1),
    }
    return json.dumps(value, indent=1, sort_keys=True).encode()
