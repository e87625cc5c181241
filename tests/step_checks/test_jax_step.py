"""Steps of jax-privacy through numpy arrays and integer seeds; they run if the extra 'jax' is installed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from audit.step_checks.run import check_step

jax = pytest.importorskip("jax", reason="needs the extra 'jax'")
clipping = pytest.importorskip("jax_privacy", reason="needs the extra 'jax'").clipping
jnp = jax.numpy
CLIP_NORM, LEARNING_RATE, PADDED = 0.5, 0.5, 32  # checks try batches of 1.5 divisors and 5


def parameters() -> dict[str, Any]:
    stream = np.random.default_rng(1)
    return {"weight": (stream.normal(size=(6, 3)) * 0.5).astype(np.float32), "bias": stream.normal(size=3).astype(np.float32)}


def sample() -> tuple[Any, Any]:
    stream = np.random.default_rng(0)
    return stream.normal(size=(16, 6)).astype(np.float32), stream.integers(3, size=16)


def record_loss(params: Any, x: Any, y: Any) -> Any:
    """Return the cross entropy of one record."""
    return -jax.nn.log_softmax(x @ params["weight"] + params["bias"])[y]


def batch_sum_loss(params: Any, x: Any, y: Any, padding: Any) -> Any:
    """Return the summed loss of a batch; its gradient is clipped as one."""
    losses = -jnp.take_along_axis(jax.nn.log_softmax(x @ params["weight"] + params["bias"]), y[:, None], axis=1)[:, 0]
    return jnp.where(padding, 0.0, losses).sum()


def padded(batch: Any) -> Any:
    """Return the batch at the one size that is compiled, and which rows are padding: so jax-privacy takes empty batches."""
    extra = PADDED - len(batch[1])
    return [
        *(np.concatenate([array, np.zeros((extra, *array.shape[1:]), array.dtype)]) for array in batch),
        np.arange(PADDED) >= PADDED - extra,
    ]


def step(released: Callable[..., Any]) -> Callable[..., Any]:
    """Return the step of a clipped sum, from numpy arrays and an integer seed to numpy arrays."""
    compiled = jax.jit(released)

    def run(params: Any, batch: Any, seed: int, *, noise_multiplier: float, divisor: float) -> Any:
        total = compiled(params, *padded(batch))
        keys = jax.random.split(jax.random.key(seed), len(params))
        deviation = noise_multiplier * CLIP_NORM
        noisy = {
            name: total[name] + deviation * jax.random.normal(key, params[name].shape)
            for name, key in zip(params, keys, strict=True)
        }
        return {name: np.asarray(params[name] - LEARNING_RATE * noisy[name] / divisor) for name in params}

    return run


def codes(released: Callable[..., Any]) -> tuple[set[str], set[str]]:
    report = check_step(
        step(released),
        parameters(),
        sample(),
        noise_multiplier=1.0,
        clip_norm=CLIP_NORM,
        divisor=16.0,
        learning_rate=LEARNING_RATE,
        generator="seed",
    )
    return {finding.check for finding in report.failures}, {finding.check for finding in report.open}


def test_the_clipped_gradient_of_jax_privacy_is_not_accused() -> None:
    clipped = clipping.clipped_grad(record_loss, l2_clip_norm=CLIP_NORM, batch_argnums=(1, 2), keep_batch_dim=False)

    def release(params: Any, x: Any, y: Any, padding: Any) -> Any:
        return clipped(params, x, y, is_padding_example=padding)

    failed, _ = codes(release)
    assert failed == set()


def test_clipping_the_gradient_of_the_batch_is_refuted() -> None:
    def clip_batch(params: Any, x: Any, y: Any, padding: Any) -> Any:
        gradient = jax.grad(batch_sum_loss)(params, x, y, padding)
        return clipping.clip_pytree(gradient, clip_norm=CLIP_NORM)[0]

    failed, _ = codes(clip_batch)
    assert "clip.add" in failed
