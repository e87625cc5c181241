"""Random small convolutional networks that compiled code covers."""

from __future__ import annotations

import numpy as np
import torch
from torch import nn


def random_network(generator: np.random.Generator, outputs: int) -> tuple[nn.Sequential, tuple[int, int, int]]:
    """A network with its own values, and the shape of its records."""

    def one_of(*values: int) -> int:
        return int(generator.choice(values))

    shape = one_of(1, 2, 3, 8), one_of(*range(4, 19)), one_of(*range(4, 19))
    layers: list[nn.Module] = []
    channels, images = shape[0], torch.zeros(1, *shape)
    for _ in range(one_of(1, 1, 2, 2, 3)):
        width = one_of(1, 3, 4, 6, 8, 16, 17, 32)
        kernel = one_of(1, 2, 3, 3, 5), one_of(1, 2, 3, 3, 5)
        stride, margin = (one_of(1, 1, 2, 3), one_of(1, 1, 2, 3)), (one_of(0, 1, 2), one_of(0, 1, 2))
        bias, affine, ceil, activates = (bool(coin) for coin in generator.random(4) < (0.7, 0.8, 0.5, 0.8))
        block: list[nn.Module] = [nn.Conv2d(channels, width, kernel, stride, margin, one_of(1, 1, 1, 2), bias=bias)]
        if generator.random() < 0.3:
            groups = one_of(*(n for n in range(1, width + 1) if width % n == 0))
            block.append(nn.GroupNorm(groups, width, affine=affine))
        if activates:
            block.append(nn.ReLU() if generator.random() < 0.6 else nn.Tanh())
        if generator.random() < 0.5:
            size, step, edge = one_of(2, 3), one_of(1, 2, 3), one_of(0, 1)
            full = nn.AdaptiveAvgPool2d((one_of(1, 2), one_of(1, 3)))
            pools = nn.MaxPool2d(size, step, edge, ceil_mode=ceil), nn.AvgPool2d(size, step, edge, ceil_mode=ceil), full
            block.append(pools[int(generator.integers(3))])
        try:
            images = nn.Sequential(*block)(images)
        except (RuntimeError, ValueError):  # larger than what is left of the image, or one number to normalise
            continue
        layers, channels = layers + block, width
    if not any(isinstance(layer, nn.Conv2d) for layer in layers):
        layers = [nn.Conv2d(channels, 4, 1)]
        images = layers[0](torch.zeros(1, *shape))
    numbers, activation = images[0].numel(), nn.ReLU if generator.random() < 0.5 else nn.Tanh
    linear: list[nn.Module] = [nn.Flatten()]
    for _ in range(one_of(0, 0, 1, 2)):
        linear += [nn.Linear(numbers, 11), activation()]
        numbers = 11
    return nn.Sequential(*layers, *linear, nn.Linear(numbers, outputs)), shape
