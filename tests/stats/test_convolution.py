"""Convolutions give the bits of scipy.signal, which takes a second to import; importing the public functions stays quick."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from scipy import signal

from audit.stats.bounds.bernoulli_sums import DIRECT, convolve


@pytest.mark.parametrize(("first", "second"), [(500, 500), (20_000, 11), (1, 300_000), (77_777, 4_321)])
def test_the_transform_gives_the_bits_of_scipy(first: int, second: int) -> None:
    random = np.random.default_rng(first)
    item, peer = random.dirichlet(np.ones(first)), random.dirichlet(np.ones(second))
    assert first * second > DIRECT
    np.testing.assert_array_equal(convolve(item, peer), np.maximum(signal.fftconvolve(item, peer), 0.0))


def test_short_sequences_are_summed_directly() -> None:
    np.testing.assert_array_equal(convolve(np.array([0.5, 0.5]), np.array([0.25, 0.75])), [0.125, 0.5, 0.375])


def test_public_functions_load_neither_torch_nor_signal_processing() -> None:
    code = "import sys, audit; audit.lower_bound; print(sorted({'torch', 'scipy.signal', 'scipy.stats'} & set(sys.modules)))"
    loaded = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert loaded.strip() == "[]"
