"""Random models through compiled sums and clients' steps, built with address and undefined-behaviour checks, against torch's.

Run by `test_chain_memory.py` in its own process, since the checks have to be loaded before everything else.
"""

from __future__ import annotations

import copy
import itertools

import numpy as np
import torch
from torch import nn

from audit.core.seeds import Seed
from audit.engine import compile_c
from audit.engine.compiled.compiled_gradients import client_steps, compilable, compiled_gradients
from audit.engine.compiled.compiled_noise import CompiledNormals, compiled_noise
from audit.engine.gradients.clipping import Clip, Rows, flat_storage, stacked_state
from audit.engine.gradients.ghost_clipping import TapeGradients
from audit.engine.losses import USUAL
from audit.engine.parameter_layout import Layout
from audit.engine.random.noise import NoiseStreams
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


def random_module(generator: np.random.Generator, *, images: bool) -> tuple[nn.Sequential, tuple[int, ...]]:
    """A network or a chain, and the shape of its records."""
    if images:
        return random_network(generator, outputs=int(generator.integers(1, 19)))
    module = chain(generator)
    return module, (module[0].in_features,)


def worst_difference(generator: np.random.Generator, *, images: bool) -> float:
    """The largest difference between compiled sums and torch's, relative to the largest sum, for one random model."""
    models, rows = int(generator.integers(1, 4)), int(generator.choice(ROWS[:7] if images else ROWS))
    module, shape = random_module(generator, images=images)
    state = stacked_state([module] * models, torch.float32, torch.device("cpu"))
    architecture = compilable(module, shape)
    compiled = None if architecture is None else compiled_gradients(architecture, module, state)
    if compiled is None:
        raise RuntimeError(f"the model was not compiled: {module}")
    outputs = module[-1].out_features
    labels = torch.randint(0, outputs, (models * rows,)) if outputs > 1 else torch.randn(models * rows)
    provided = Rows(inputs=torch.randn(models * rows, *shape), labels=labels, mask=torch.rand(models, rows) < 0.8)
    clip = CLIPS[int(generator.integers(len(CLIPS)))]
    sums = []
    for way in (compiled, TapeGradients(module, state)):
        sums.append(torch.zeros_like(way.flat))
        way.add_sum(provided, clip, sums[-1])
    if any(isinstance(layer, nn.GroupNorm) for layer in module):  # of two numbers: both sides are off by rounding
        return 0.0
    return float((sums[0] - sums[1]).abs().max() / (sums[1].abs().max() + 1e-6))


def client_difference(generator: np.random.Generator, *, images: bool) -> float:
    """The largest difference of clients' compiled steps from torch's in double precision, relative to how far they went."""
    module, shape = random_module(generator, images=images)
    outputs, count, rate = module[-1].out_features, 30, 0.05
    inputs, labels = torch.randn(count, *shape), torch.randint(0, outputs, (count,)) if outputs > 1 else torch.randn(count)
    steps = client_steps(module, (inputs, labels), "on", 1e9)
    if steps is None:
        raise RuntimeError(f"the clients' steps were not compiled: {module}")
    clients, times, rows = int(generator.integers(1, 4)), int(generator.integers(1, 4)), int(generator.choice(ROWS[:6]))
    flat = flat_storage(Layout.of(module), stacked_state([module] * clients, torch.float32, torch.device("cpu")))
    start, places, real = flat.clone(), torch.randint(0, count, (clients, times, rows)), torch.rand(clients, times, rows) < 0.7
    real[0, 0] = False  # a step without records leaves the model if it is
    steps.descend(flat, places, real, rate)
    goal = start.double()
    for client in range(clients):
        plain = copy.deepcopy(module).double()
        optimizer = torch.optim.SGD(plain.parameters(), lr=rate)
        for step in range(times):
            chosen = places[client, step][real[client, step]]
            if not len(chosen):
                continue
            optimizer.zero_grad()
            answers = labels[chosen] if outputs > 1 else labels[chosen].double()
            USUAL.values(plain(inputs[chosen].double()), answers).mean().backward()
            optimizer.step()
        for slot in Layout.of(module).slots:
            slot.view(goal)[client] = plain.get_parameter(slot.name).detach()
    if any(isinstance(layer, nn.GroupNorm) for layer in module):  # of two numbers: both sides are off by rounding
        return 0.0
    return float((flat - goal).abs().max() / ((goal - start).abs().max() + 1e-6))


def noise_difference(generator: np.random.Generator) -> float:
    """The largest difference of compiled noise from torch's over a few steps of a random layout."""
    module, seeds = chain(generator), tuple(Seed(number) for number in range(3))
    like = torch.zeros(3, Layout.of(module).width)
    streams = compiled_noise(Layout.of(module), seeds, like), NoiseStreams(Layout.of(module), seeds, like)
    if not isinstance(streams[0], CompiledNormals):
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
    clients = [client_difference(draws, images=images) for images in (False, True) for _ in range(60)]
    print(max(differences), max(clients))
