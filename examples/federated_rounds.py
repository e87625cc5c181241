"""Canary clients for a federated training in any framework, and what its recorded rounds show of them. Needs numpy alone.

Copy this one file beside your training. There, for each canary client:

    seed = secrets.randbits(128)                                             # once, kept from the audited party
    update = canary(seed=seed, number=3, size=parameters) * clip_norm * 1e3  # raw: your own code has to clip it

and let `drawn(seed, count)` say which of them send it in the rounds that they take part in, the others sending zeros. Record
what the audited party sees in each round (sums of updates, or differences of released models, flattened) and write

    write_rounds("rounds.npz", rounds, seed=seed, count=500, clip_norm=1.0)

Then, anywhere:

    python federated_rounds.py rounds.npz scores.npz
    audit scores scores.npz --adjacency zero_out --claim-epsilon 4

Without arguments it does so with the rounds of a small Gaussian mechanism, in this folder.
"""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any

import numpy as np

SCHEMA = "federated-rounds/1"


def canary(seed: int, number: int, size: int) -> np.ndarray:
    """Return the unit direction of a canary client `(size,)`: a signed cosine, orthogonal to those of all other numbers.

    Raises:
        ValueError: there are only `size - 1` of them.
    """
    if not 0 <= number < size - 1:
        raise ValueError(f"canary {number} of a model with {size} parameters; expected 0 to {size - 2}")
    signs = 2 * np.random.Generator(np.random.Philox(key=[seed % 2**64, seed >> 64])).integers(0, 2, size) - 1
    turns = (2 * np.arange(size) + 1) * (number + 1) % (4 * size)  # whole numbers, so that no angle loses digits
    return signs * np.sqrt(2 / size) * np.cos(np.pi * turns / (2 * size))


def drawn(seed: int, count: int) -> np.ndarray:
    """Return which canary clients send their update `(count,)` bool: fair coins, to be kept from the audited party."""
    return np.random.Generator(np.random.Philox(key=[seed % 2**64, seed >> 64 ^ 1])).random(count) < 0.5


def write_rounds(
    path: str, rounds: np.ndarray, *, seed: int, count: int, clip_norm: float, honest: np.ndarray | None = None
) -> None:
    """Write what one party saw, for `audit scores` by way of `scores`.

    Args:
        path: of the npz file.
        rounds: `(T, d)` sums as that party saw them, in the order of the rounds.
        seed: of canaries and coins.
        count: of canary clients.
        clip_norm: of one update.
        honest: `(T, d)` sums of the other clients' clipped updates, if they are known; they are subtracted, which sharpens
            the scores. Bounds hold without them.
    """
    parts = {"rounds": np.asarray(rounds, dtype=np.float32)}
    if honest is not None:
        parts["honest"] = np.asarray(honest, dtype=np.float32)
    meta = {"schema": SCHEMA, "seed": seed, "count": count, "clip_norm": clip_norm}
    np.savez_compressed(path, meta=np.array(json.dumps(meta)), **parts)


def scores(path: str) -> tuple[np.ndarray, np.ndarray]:
    """Return the score of each canary client and its coin, both `(count,)`: inner products over all rounds, over the clip norm.

    Raises:
        ValueError: the file is not what `write_rounds` writes, or holds numbers that are not finite.
    """
    with np.load(path, allow_pickle=False) as file:
        missing = {"meta", "rounds"} - set(file.files)
        if missing:
            raise ValueError(f"{path} lacks {', '.join(sorted(missing))}; expected a file of write_rounds")
        meta, rounds = _meta(path, str(file["meta"])), file["rounds"]
        honest = file["honest"] if "honest" in file.files else np.zeros_like(rounds)
    if (
        rounds.ndim != 2
        or not len(rounds)
        or rounds.dtype.kind != "f"
        or honest.shape != rounds.shape
        or not np.isfinite(rounds - honest).all()
    ):
        raise ValueError(
            f"{path} holds rounds of shape {rounds.shape} and type {rounds.dtype}; expected finite floats (rounds, "
            "parameters), honest sums alike"
        )
    if not 1 <= meta["count"] < rounds.shape[1]:
        raise ValueError(f"{path} counts {meta['count']} canaries of {rounds.shape[1]} parameters; expected 1 to one fewer")
    rounds, honest = rounds.astype(np.float64), honest.astype(np.float64)
    total = (rounds - honest).sum(0) / float(meta["clip_norm"])
    products = [canary(meta["seed"], number, len(total)) @ total for number in range(meta["count"])]
    return np.array(products), drawn(meta["seed"], meta["count"])


def _meta(path: str, text: str) -> dict[str, Any]:
    """Return what the file says of its canaries.

    Raises:
        ValueError: it is not what `write_rounds` writes.
    """
    try:
        meta = json.loads(text)
    except json.JSONDecodeError as error:
        raise ValueError(f"{path}: meta is no JSON ({error}); expected a file of write_rounds") from error
    schema = meta.get("schema") if isinstance(meta, dict) else None
    if schema != SCHEMA:
        raise ValueError(f"{path} has schema {schema!r}; expected {SCHEMA!r}")
    whole = all(type(meta.get(name)) is int and meta[name] >= 0 for name in ("seed", "count")) and meta["seed"] < 2**128
    clip_norm = meta.get("clip_norm")
    if not whole or type(clip_norm) not in (int, float) or not 0 < clip_norm < float("inf"):
        raise ValueError(
            f"{path}: meta is {text}; expected whole numbers seed (below 2**128) and count, and a positive clip_norm"
        )
    return meta


def _demo(path: str) -> None:
    """Write 10 rounds of 200 canary clients at noise multiplier 3."""
    seed, count, size, generator = secrets.randbits(128), 200, 1000, np.random.default_rng(0)
    sent = np.stack([canary(seed, number, size) for number in np.flatnonzero(drawn(seed, count))]).sum(0)
    write_rounds(path, sent + 3 * generator.standard_normal((10, size)), seed=seed, count=count, clip_norm=1.0)


def _main(arguments: list[str]) -> None:
    if len(arguments) not in (0, 2):
        sys.exit(__doc__)
    source, target = arguments or ("rounds.npz", "scores.npz")
    if not arguments:
        _demo(source)
    score, member = scores(source)
    np.savez_compressed(target, score=score, member=member)
    print(f"{target}: {len(score)} canary clients, mean score {score[member].mean():.2f} where they sent, ", end="")
    print(f"{score[~member].mean():.2f} where they did not; next: audit scores {target} --adjacency zero_out")


if __name__ == "__main__":
    _main(sys.argv[1:])
