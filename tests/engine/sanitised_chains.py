"""Random models through the compiled sums built with address and undefined-behaviour checks, against torch's own sums.

Run by `test_chain_memory.py` in a process of its own, since the checks have to be loaded before everything else.
"""

from __future__ import annotations

import itertools

import numpy as np
import torch
from torch import nn

from audit.core.seeds import Seed
from audit.engine import compile_c
from audit.engine.clipping import Clip, Rows, stacked_state
from audit.engine.compiled_gradients import compilable, compiled_gradients
from audit.engine.compiled_noise import CompiledNoise, compiled_noise
from audit.engine.ghost_clipping import TapeGradients
from audit.engine.noise import NoiseStreams
from audit.engine.parameter_layout import Layout
from tests.engine.random_networks import random_network

CLIPS = (None, Clip(norm=0.5), Clip(norm=0.5, per_layer=True))
ROWS = (1, 2, 7, 8, 9, 31, 64, 255, 256, 257, 520)  # around the widths that the compiled code works in


def chain(generator: np.random.Generator) -> nn.Sequential:
    sizes = [int(size) for size in generator.integers(1, 75, generator.integers(2, 6))]
    activation = nn.ReLU if generator.random() < 0.5 else nn.Tanh
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise(sizes):
        layers += [nn.Linear(before, after, bias=bool(generator.random() < 0.7)), activation()]
    return nn.Sequential(*layers[:-1])


def worst_difference(generator: np.random.Generator, *, images: bool) -> float:
    """The largest difference between compiled sums and torch's, relative to the largest sum, for one random model."""
    models, rows = int(generator.integers(1, 4)), int(generator.choice(ROWS[:7] if images else ROWS))
    if images:
        module, shape = random_network(generator, outputs=int(generator.integers(1, 19)))
    else:
        module = chain(generator)
        shape = (module[0].in_features,)
    state = stacked_state([module] * models, torch.float32, torch.device("cpu"))
    architecture = compilable(module, shape)
    compiled = None if architecture is None else compiled_gradients(architecture, module, state)
    if compiled is None:
        raise RuntimeError(f"the model was not compiled: {module}")
    outputs = module[-1].out_features
    labels = torch.randint(0, outputs, (models * rows,)) if outputs > 1 else torch.randn(models * rows)
    given = Rows(inputs=torch.randn(models * rows, *shape), labels=labels, mask=torch.rand(models, rows) < 0.8)
    clip = CLIPS[int(generator.integers(len(CLIPS)))]
    sums = []
    for way in (compiled, TapeGradients(module, state)):
        sums.append(torch.zeros_like(way.flat))
        way.add_sum(given, clip, sums[-1])
    if any(isinstance(layer, nn.GroupNorm) for layer in module):  # of two numbers: both sides are off by rounding
        return 0.0
    return float((sums[0] - sums[1]).abs().max() / (sums[1].abs().max() + 1e-6))


def noise_difference(generator: np.random.Generator) -> float:
    """The largest difference of compiled noise from torch's over a few steps of a random layout."""
    module, seeds = chain(generator), tuple(Seed(number) for number in range(3))
    like = torch.zeros(3, Layout.of(module).width)
    streams = compiled_noise(Layout.of(module), seeds, like), NoiseStreams(Layout.of(module), seeds, like)
    if not isinstance(streams[0], CompiledNoise):
        raise RuntimeError("noise was not compiled")
    return max(float((streams[0].step() - streams[1].step()).abs().max()) for _ in range(5))


if __name__ == "__main__":
    compile_c._FLAGS = ("-O1", "-g", "-march=native", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined",
                     "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")  # fmt: skip
    compile_c._SECONDS = 300  # such code takes many times as long to compile
    torch.manual_seed(0)
    draws = np.random.default_rng(0)
    differences = [worst_difference(draws, images=images) for images in (False, True) for _ in range(150)]
    differences += [noise_difference(draws) for _ in range(20)]
    print(max(differences))
