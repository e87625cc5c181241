"""Random numbers that are a function of key, step and place, for N models at once: Philox4x32-10 in operations of any device.

There is no state that has to be kept or put back: a number is the same whatever was drawn before it, beside which models, and
in pieces of whatever size. How many kernels a draw launches does not depend on the number of models.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from audit.core.seeds import Seed

_MULTIPLIERS = (0xD2511F53, 0xCD9E8D57)  # of the published generator, as are the increments
_INCREMENTS = (0x9E3779B9, 0xBB67AE85)
_ROUNDS = 10
_WORD = 0xFFFFFFFF
WORDS = 4  # of one counter


def round_keys(keys: Tensor) -> Tensor:
    """`(10, 2, ...)` keys of the rounds from `(2, ...)` words of 32 bits, in int64 on any device."""
    increments = torch.tensor(_INCREMENTS, device=keys.device).view(2, *(1,) * (keys.dim() - 1))
    return torch.stack([(keys + number * increments) & _WORD for number in range(_ROUNDS)])


def multipliers(dimensions: int, device: torch.device) -> Tensor:
    """Return the factors of a round `(2, 1, ...)` for counters of so many dimensions."""
    return torch.tensor(_MULTIPLIERS, device=device).view(2, *(1,) * (dimensions - 1))


def philox(counter: Tensor, keys: Tensor, factors: Tensor) -> Tensor:
    """`(4, ...)` independent words of 32 bits for each counter `(4, ...)`: Philox4x32-10, by `round_keys` and `multipliers`.

    Products of two words take all 64 bits. In int64 they wrap around, which leaves every bit in its place; a shift to the right
    copies the sign, which the mask takes away (Salmon, Moraes, Dror, Shaw 2011, "Parallel random numbers: as easy as 1, 2, 3").
    """
    multiplicands, addends = counter[0::2], counter[1::2]
    for key in keys:
        products = (multiplicands * factors).flip(0)
        multiplicands = ((products >> 32) ^ addends).bitwise_xor_(key).bitwise_and_(_WORD)
        addends = products.bitwise_and_(_WORD)
    return torch.stack([multiplicands[0], addends[0], multiplicands[1], addends[1]])


class CounterStreams:
    """One stream for each model, of one purpose: its key is the model's seed for it, its counter says step, draw and place.

    Words 0 to 3 of a counter are place, draw, step and 0, and a counter gives the four numbers from place times 4 on. The key
    has 63 bits of a hash of the seed's path, so two of a million streams are the same with a chance of one in ten million.
    """

    def __init__(self, seeds: Sequence[Seed], device: torch.device) -> None:
        keys = [seed.integer() for seed in seeds]
        halves = torch.tensor([[key & _WORD for key in keys], [key >> 32 for key in keys]])
        self.models = len(seeds)
        self.device = device
        self._keys = round_keys(halves.view(2, 1, -1, 1)).to(device)
        self._factors = multipliers(4, device)

    def words(self, steps: Tensor, start: int, count: int, draw: int = 0) -> Tensor:
        """`(4, steps, N, count)` words of 32 bits in int64, for `count` places from `start` on in one of a step's draws.

        `steps` `(steps,)` are their numbers on the device, below 2^32; `ValueError` if places or draws are not.
        """
        if start + count > _WORD or draw > _WORD:
            raise ValueError(f"{start + count} places and draw {draw}; a counter tells 2^32 apart")
        shape = (len(steps), self.models, count)
        places = torch.arange(start, start + count, device=self.device).expand(shape)
        moments = steps.view(-1, 1, 1).expand(shape)
        counter = torch.stack([places, torch.full_like(moments, draw), moments, torch.zeros_like(moments)])
        return philox(counter, self._keys, self._factors)

    def uniforms(self, steps: Tensor, start: int, count: int, draw: int = 0) -> Tensor:
        """`(steps, N, count)` uniform numbers of 24 bits in [0, 1), float32, from number `start` of a draw on."""
        first, offset = divmod(start, WORDS)
        words = _in_order(self.words(steps, first, -(-(offset + count) // WORDS), draw))
        return words[..., offset : offset + count].bitwise_right_shift(8).to(torch.float32).mul_(2.0**-24)

    def normals(self, steps: Tensor, start: int, count: int) -> Tensor:
        """`(steps, N, count)` standard normal numbers in float64, from number `start`, a multiple of 4 (or `ValueError`), on.

        Box and Muller's pairs of uniform numbers of 32 bits, of which the largest comes to 6.66; a normal number is beyond
        that with a chance of 3e-11.
        """
        if start % WORDS:
            raise ValueError(f"normal numbers from {start} on; expected a multiple of {WORDS}")
        words = self.words(steps, start // WORDS, -(-count // WORDS)).to(torch.float64)
        radii = words[0::2].add(1.0).mul_(2.0**-32).log_().mul_(-2.0).sqrt_()  # plus 1, as 0 has no logarithm
        angles = words[1::2].mul(2.0 * math.pi * 2.0**-32)
        pairs = torch.stack([radii * angles.cos(), angles.sin_().mul_(radii)], dim=1)  # (2, 2, steps, N, count / 4)
        return _in_order(pairs.flatten(0, 1))[..., :count]

    def heads(self, steps: Tensor, start: int, count: int, rate: float) -> Tensor:
        """`(steps, N, count)` coins in bool from coin `start` on, each True with probability `rate`.

        A coin is a uniform number of 63 bits below `rate` times 2^63, rounded up: exact for rates of at least 2^-10, which a
        double holds in so many bits, and at most 2^-63 too much for smaller ones.
        """
        return self._numbers(steps, start, count).le(_last(rate))

    def gaps(self, steps: Tensor, start: int, count: int, rate: float, limit: int) -> Tensor:
        """`(steps, N, count)` distances in int64 from one head to the next, from distance `start` on, each at most `limit`.

        Coins are heads with probability `rate`, above 0 and below 1. The distance is above k if a uniform number v of 63
        bits has `(1 - v) <= (1 - rate)^k`: exact to rounding of double precision, which knows small v best, and so the
        small distances.
        """
        values = self._numbers(steps, start, count).to(torch.float64).add_(0.5).mul_(2.0**-63)  # a half, so that none is 0
        distances = values.neg_().log1p_().div_(math.log1p(-rate)).floor_().add_(1.0)
        return distances.clamp_(max=limit).to(torch.int64)

    def _numbers(self, steps: Tensor, start: int, count: int) -> Tensor:
        """`(steps, N, count)` uniform numbers of 63 bits in int64, from number `start` on."""
        first, offset = divmod(start, 2)
        words = self.words(steps, first, -(-(offset + count) // 2))
        numbers = words[0::2].bitwise_left_shift(31).bitwise_or_(words[1::2] >> 1)
        return _in_order(numbers)[..., offset : offset + count]


def _last(rate: float) -> int:
    """Return the largest of 2^63 equally likely numbers that counts as a head."""
    numerator, denominator = rate.as_integer_ratio()
    return -(-numerator * 2**63 // denominator) - 1  # in whole numbers: as floats products beyond 2^53 would be rounded


def _in_order(values: Tensor) -> Tensor:
    """`(..., count * k)` from `(k, ..., count)`: the `k` values of a place beside each other."""
    return values.movedim(0, -1).flatten(-2)
