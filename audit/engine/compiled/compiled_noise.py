"""torch's Gaussian numbers of the CPU by compiled code: the same streams to rounding, in a sixth of the time."""

import ctypes
import functools
import logging
from collections.abc import Sequence

import torch
from torch import Tensor

from audit.core.seeds import Seed
from audit.engine.compile_c import library
from audit.engine.parameter_layout import Layout
from audit.engine.random.noise import NoiseSource, NoiseStreams, gaps

log = logging.getLogger(__name__)

SOURCE = "normal_numbers.c"
GROUP = 16  # numbers that torch draws together; every parameter starts at a multiple of them
_TRIAL_NUMBERS, _LARGEST_DIFFERENCE = 4096, 1e-5
_WHOLE, _MEMORY = ctypes.c_int64, ctypes.c_void_p


class CompiledNormals:
    """Streams of standard normal numbers in float32: those of `normal_` with `torch.Generator().manual_seed(seed)`.

    Absolute error against double precision below 1e-6, which is less than torch's own. Like torch, only the low 32 bits of a
    seed count, and no number exceeds 5.77. `width` numbers are drawn at a time, a multiple of 16; in columns `zeros`, from and
    up to, 0 is written in their place. `ValueError` for a width or columns that compiled code would leave its memory for.
    """

    def __init__(self, code: ctypes.CDLL, seeds: tuple[int, ...], width: int, zeros: Sequence[tuple[int, int]] = ()) -> None:
        if width % GROUP or not all(0 <= start <= stop <= width for start, stop in zeros):
            raise ValueError(
                f"{width} numbers at a time, 0 in columns {list(zeros)}; expected a multiple of {GROUP} that holds them"
            )
        code.normal_stream_bytes.restype, code.normal_stream_bytes.argtypes = _WHOLE, ()
        code.normal_start.restype, code.normal_start.argtypes = None, (_MEMORY, ctypes.c_uint32)
        code.normal_numbers.restype, code.normal_numbers.argtypes = None, (_MEMORY, _WHOLE, _WHOLE, _MEMORY, _WHOLE, _MEMORY)
        self._code = code
        self._states = torch.zeros(len(seeds), int(code.normal_stream_bytes()), dtype=torch.uint8)
        self._zeros = torch.tensor(zeros, dtype=torch.int64)
        self._numbers = torch.empty(len(seeds), width)
        for state, seed in zip(self._states, seeds, strict=True):
            code.normal_start(state.data_ptr(), seed & 0xFFFFFFFF)

    def step(self) -> Tensor:
        states, zeros, numbers = self._states.data_ptr(), self._zeros.data_ptr(), self._numbers.data_ptr()
        self._code.normal_numbers(states, *self._numbers.shape, zeros, len(self._zeros), numbers)
        return self._numbers


def compiled_noise(layout: Layout, seeds: tuple[Seed, ...], like: Tensor) -> NoiseSource:
    """Noise for models with compiled sums: by compiled code if this machine's agrees with torch, else by torch."""
    code = _code() if like.device.type == "cpu" and like.dtype == torch.float32 and layout.width % GROUP == 0 else None
    if code is None:
        return NoiseStreams(layout, seeds, like)
    return CompiledNormals(code, tuple(seed.integer() for seed in seeds), layout.width, gaps(layout))


@functools.cache
def _code() -> ctypes.CDLL | None:
    """Return compiled code that draws torch's numbers; None if there is none, which is logged once.

    How torch makes its numbers is no promise of torch's, so it is asked here.
    """
    code = library(SOURCE)
    if code is None:
        return None
    numbers = CompiledNormals(code, (1,), _TRIAL_NUMBERS).step()
    reference = torch.empty(_TRIAL_NUMBERS).normal_(generator=torch.Generator().manual_seed(1))
    if torch.allclose(numbers[0], reference, rtol=0.0, atol=_LARGEST_DIFFERENCE):
        return code
    log.warning("torch %s draws Gaussian numbers by other means than compiled code; noise is left to torch", torch.__version__)
    return None
