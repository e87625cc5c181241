"""Torch under replay: a mode that gives drawn noise its law, keeps it through linear operations, and records what leaves.

Noise is noted by storage, so that views share it; the tensors themselves stay ordinary ones, and a replayed release is
written into their storage. What reads numbers without asking the dispatcher (`numpy()`, `tolist()`, copies by `copy` and
`pickle`) is asked by a function mode to release them first.
"""

import contextlib
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import numpy as np
import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, _disable_current_modes

from audit.replays import operations
from audit.replays.noisy import NoisyArray, lift
from audit.replays.recording import NUMBER, Recording, Schedule
from audit.replays.seeds import follow_seeds, keep_seeds
from audit.replays.torch_operations import COINS, LINEAR, NORMALS, NOT_READ, SELECTIONS
from audit.replays.torch_tensors import (
    agree,
    bind_arguments,
    covers,
    entries_in,
    plain_numbers,
    storage_places,
    tensors_in,
    written_tensors,
)

_RAW_READERS = {
    torch.Tensor.numpy, torch.Tensor.tolist, torch.Tensor.__array__, torch.Tensor.__deepcopy__, torch.Tensor.__reduce_ex__,
    torch.Tensor.data_ptr, torch.Tensor.untyped_storage, torch.Tensor.storage,
}  # fmt: skip
Coins = tuple[list[Tensor], Tensor]
_OVERWRITES = ("zero", "fill", "set", "copy", "normal", "")
_SEED = 982_451_653  # added to the seed of a run: none that a program would give a generator itself
_FEWEST_SEEDS = 2**24  # of which a drawn one is a secret
_MOST_SEEDS = 8  # whole numbers that are drawn at once and may be seeds


@dataclass(slots=True)
class _Shadow:
    """The noise in a storage; the weak reference keeps its address from being used again."""

    storage: StorageWeakRef
    flat: NoisyArray


@functools.lru_cache(maxsize=4096)
def _names(func: Any) -> tuple[str, str]:
    """Return the name of an operation, and that of the one that writes into no argument."""
    name = str(func._schema.name).removeprefix("aten::")
    return name, name.removesuffix("_") if not name.startswith("__") else name


class TorchNoise(TorchDispatchMode):
    """Records torch's noise into a `Recording`.

    Attributes:
        recording: of the run.
        coins: draws that choose rather than hide (masks, permutations), in order, each with the tensors of its terms.
        recorded: those of the recorded run, which a replay with its seed draws again; None with another seed.
    """

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        frozen = recording.frozen
        self.recording, self.coins = recording, list[Coins]()
        self.recorded: list[Coins] | None = None if frozen is None or frozen.seed != recording.seed else frozen.coins
        recording.coins = self.coins
        self._shadows: dict[int, _Shadow] = {}
        self._few_seeds: set[int] = set()  # whole numbers drawn among few numbers: whoever tries them all knows the noise
        self._drew_few_seeds = False
        self._states: dict[bytes, tuple[Any, Any]] = {}  # of generators, with what was drawn in them

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """False: compiled functions run as written here; keeping each call from the compiler would load it."""
        return False

    @property
    def has_few_seeds(self) -> bool:
        """True if noise came from one of few seeds, and only whole numbers were drawn beside it."""
        return self._drew_few_seeds and not any(coins.dtype.is_floating_point for _, coins in self.coins)

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        name, base = _names(func)
        if base in NORMALS or base == "exponential":
            return self._draw(func, args, kwargs)
        if base in COINS:
            return self._toss(func, args, kwargs)
        if not self._shadows or base in NOT_READ or func.is_view:
            return func(*args, **kwargs)
        noisy = [item for item in tensors_in((args, kwargs)) if self.noise(item) is not None]
        targets = [item for item in written_tensors(func, args, kwargs) if self._key(item) in self._shadows]
        if not noisy and not targets:
            return func(*args, **kwargs)
        if noisy and name.startswith("_foreach_"):
            return self._one_by_one(name.removeprefix("_foreach_"), func, args, kwargs)
        return self._follow(base, func, args, kwargs)

    def _follow(self, base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        by_name = bind_arguments(func, args, kwargs)
        if base in SELECTIONS and (answer := SELECTIONS[base](self._forms(by_name))) is not None:
            return torch.from_numpy(np.asarray(answer))
        form = LINEAR[base](self._forms(by_name)) if base in LINEAR else None
        if form is None:
            self._release_all(base, func, args, kwargs)
        answer = func(*args, **kwargs)
        if isinstance(form, NoisyArray):
            self.attach(answer, form)
        elif form is not None:  # released by the sum itself, as the early schedule does
            answer.copy_(torch.as_tensor(np.asarray(form)))
            self.attach(answer, lift(self.recording, form))
        else:
            for item in written_tensors(func, args, kwargs):
                if self._key(item) in self._shadows:
                    self.attach(item, lift(self.recording, plain_numbers(item)))
        return answer

    def _release_all(self, base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        overwrites = {id(item) for item in written_tensors(func, args, kwargs)} if base in _OVERWRITES else set()
        for item in tensors_in((args, kwargs)):
            if id(item) not in overwrites:
                form = self.noise(item)
                if form is not None and not form.value.any():
                    self.recording.remark_early_read(f"that went through {base}")
                self.release(item)

    def _forms(self, named: dict[str, Any]) -> dict[str, Any]:
        """Return the arguments with noisy tensors as noisy arrays and plain ones as arrays of numpy."""
        return {key: self._form(item) for key, item in named.items()}

    def _form(self, item: Any) -> Any:
        if isinstance(item, list | tuple):
            return [self._form(part) for part in item]
        if not isinstance(item, Tensor):
            return item
        form = self.noise(item)
        if form is None:
            return plain_numbers(item)
        # a model that is being differentiated works on released numbers
        return None if item.requires_grad and torch.is_grad_enabled() else form

    def _one_by_one(self, base: str, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what an operation on lists of tensors gives, tensor by tensor."""
        answers = []
        with self, torch.no_grad():
            for i in range(len(args[0])):
                item, *rest = (part[i] if isinstance(part, list | tuple) else part for part in args)
                if base.startswith("addc") and len(rest) > 2:  # of one tensor the factor is a keyword
                    kwargs = kwargs | {"value": rest.pop()}
                answers.append(getattr(item, base)(*rest, **kwargs))
        return None if base.endswith("_") else answers

    def _draw(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        by_name = bind_arguments(func, args, kwargs)
        if not self._is_secret(by_name.get("generator")):
            return self._follow("", func, args, kwargs)
        standard = "randn" in func._schema.name
        mean, std = (0.0, 1.0) if standard else (by_name.get("mean", 0.0), by_name.get("std", 1.0))
        law = "exponential" if "exponential" in func._schema.name else "normal"
        if law == "exponential":
            std = 1.0 / by_name.get("lambd", 1.0)
        if isinstance(std, Tensor):
            self.release(std)
        mean_form = self._form(mean) if isinstance(mean, Tensor) else mean
        generator = by_name.get("generator")
        state = bytes((torch.default_generator if generator is None else generator).get_state().numpy())
        answer = func(*args, **kwargs)
        deviation = plain_numbers(std) if isinstance(std, Tensor) else float(std)
        centre = plain_numbers(mean) if isinstance(mean, Tensor) else float(mean)
        with np.errstate(all="ignore"):
            unit = np.where(np.asarray(deviation) == 0, 0.0, (plain_numbers(answer) - centre) / deviation)
        index = self._indices(unit, state, law)
        self._write_draws(answer, index, centre, deviation)
        weight = np.broadcast_to(np.asarray(deviation, dtype=np.float64), unit.shape)[..., None].copy()
        noise = NoisyArray(self.recording, np.zeros(unit.shape), index[..., None], weight)
        if isinstance(mean_form, NoisyArray):
            noise = noise + mean_form
        else:
            noise.value = np.broadcast_to(np.asarray(mean_form, dtype=np.float64), unit.shape).copy()
        self.attach(answer, noise)
        if self.recording.schedule is not Schedule.LATE and noise.value.any():
            self.release(answer)  # noise around a mean is a sum with data
        return answer

    def sample(self, law: str, family: Any, plain: Any, shape: Any = ()) -> Tensor:
        """Return `loc + scale * z` with new draws of a law for a distribution that has both."""
        if not self._is_secret(None):  # numbers that everybody knows
            return plain(family, shape)  # type: ignore[no-any-return]
        state = bytes(torch.default_generator.get_state().numpy())
        with _disable_current_modes(), torch.no_grad():
            standard = type(family)(torch.zeros_like(family.loc), torch.ones_like(family.scale), validate_args=False)
            unit = plain(standard, shape).contiguous()
        index = self._indices(plain_numbers(unit), state, law)
        self._write_draws(unit, index)
        self.attach(unit, NoisyArray(self.recording, np.zeros(unit.shape), index[..., None], np.ones((*index.shape, 1))))
        return family.loc + family.scale * unit  # type: ignore[no-any-return]

    def _write_draws(self, item: Tensor, index: Any, centre: Any = 0.0, deviation: Any = 1.0) -> None:
        """Write draws of a path far out, or chosen ones, into a tensor."""
        recording = self.recording
        if recording.spread != 1.0 or recording.chosen or recording.lean is not None:
            with _disable_current_modes(), torch.no_grad():
                item.detach().copy_(torch.from_numpy(np.asarray(centre + deviation * recording.draws[index])))

    def _indices(self, unit: Any, state: bytes, law: str) -> Any:
        """Return the base draws of numbers: those of before, if the generator was in that state before."""
        values, index = self._states.get(state, (unit.ravel()[:0], np.zeros(0, dtype=np.int64)))
        size = min(len(values), unit.size)
        differs = ~np.isclose(unit.ravel()[:size], values[:size], rtol=1e-4, atol=1e-6)
        count = int(np.argmax(differs)) if differs.any() else size
        if size and not count:
            self.recording.gaps.append("numbers of a generator that was in the same state before")
        fresh = self.recording.draw(law, unit.ravel()[count:])
        index = np.concatenate([index[:count], fresh])
        if len(index) > len(values) or not count:
            self._states[state] = unit.ravel(), index
        return index.reshape(unit.shape)

    def _is_secret(self, generator: torch.Generator | None) -> bool:
        """Note the seed that noise is drawn by; False if every run has it: then the numbers are constants."""
        seed = (torch.default_generator if generator is None else generator).initial_seed()
        follow_seeds(self.recording, [self.recording.drawn_seeds.get(repr(seed), "")])
        if self.recording.seeds[-1:] != [f"torch {seed}"]:
            self.recording.seeds.append(f"torch {seed}")
        if seed in self._few_seeds:
            self._drew_few_seeds = True
            return False
        if self.recording.public_seeds is not None:
            return f"torch {seed}" not in self.recording.public_seeds
        return seed == _SEED + self.recording.seed or repr(seed) in self.recording.drawn_seeds

    def _toss(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Draw what chooses; in a replay, the recorded draws again, for the records that both data sets have."""
        targets = written_tensors(func, args, kwargs)
        inputs = [item for item in tensors_in((args, kwargs)) if all(item is not target for target in targets)]
        for item in inputs:
            self.release(item)
        terms = [item.detach().clone() for item in inputs]
        answer = func(*args, **kwargs)
        place = len(self.coins)
        if self.recorded is not None and place < len(self.recorded):
            self._repeat(func, answer, terms, self.recorded[place])
        self.coins.append((terms, answer.detach().clone()))
        by_name = bind_arguments(func, args, kwargs)
        is_wide = int(by_name.get("high", _FEWEST_SEEDS)) - int(by_name.get("low", 0)) >= _FEWEST_SEEDS
        if "randint" in func._schema.name and is_wide:  # loaders of batches draw seeds by random_, which nothing may use
            keep_seeds(self.recording, answer.flatten()[:_MOST_SEEDS].tolist())
        elif not answer.dtype.is_floating_point and answer.numel() <= _MOST_SEEDS and is_wide:
            self.recording.drawn_seeds.update((repr(number), "") for number in answer.flatten().tolist())
        elif not answer.dtype.is_floating_point and answer.numel() <= _MOST_SEEDS:
            self._few_seeds.update(answer.flatten().tolist())
        if self._key(answer) in self._shadows:
            self.attach(answer, lift(self.recording, plain_numbers(answer)))
        return answer

    def _repeat(self, func: Any, answer: Tensor, terms: list[Tensor], recorded: Coins) -> None:
        before, coins = recorded
        if len(before) != len(terms) or not all(agree(first, second) for first, second in zip(before, terms, strict=True)):
            self.recording.gaps.append(f"{func._schema.name} with probabilities that depend on the data")
        elif coins.shape == answer.shape:
            answer.copy_(coins)
        elif answer.ndim and coins.ndim and coins.shape[1:] == answer.shape[1:] and "perm" not in func._schema.name:
            rows = min(len(coins), len(answer))
            answer[:rows].copy_(coins[:rows])

    @staticmethod
    def _key(item: Tensor) -> int:
        return int(item.untyped_storage()._cdata)

    def noise(self, item: Tensor) -> NoisyArray | None:
        """Return a tensor's values and noise, in its shape; None if it holds no noise."""
        shadow = self._shadows.get(self._key(item))
        if shadow is None:
            return None
        form = entries_in(shadow.flat, item)
        return form if form.weight.any() else None

    def attach(self, item: Tensor, form: NoisyArray) -> None:
        """Note that a tensor now holds these values and this noise."""
        if item.dtype in _COARSE and form.weight.any() and not form.value.any():
            self.recording.remark_early_read(f"in {item.dtype}, which has few values,")
        key, size = self._key(item), item.untyped_storage().nbytes() // item.element_size()
        if form.shape != tuple(item.shape):
            form = form._gather(np.broadcast_to, tuple(item.shape))
        if covers(item, size):
            if form.weight.any():
                self._shadows[key] = _Shadow(StorageWeakRef(item.untyped_storage()), form.ravel())
            else:
                self._shadows.pop(key, None)
            return
        if key not in self._shadows:
            whole = plain_numbers(torch.as_strided(item.detach(), (size,), (1,), 0))
            self._shadows[key] = _Shadow(StorageWeakRef(item.untyped_storage()), lift(self.recording, whole))
        self._shadows[key].flat[storage_places(item, size)] = form

    def release(self, item: Tensor) -> None:
        """Record that a tensor's numbers are read; in a replay, write the recorded ones into it."""
        form = self.noise(item)
        if form is None:
            return
        noisy, numbers = form.rows.noisy, plain_numbers(item).ravel()
        numbers[noisy] = self.recording.release(NUMBER, form.rows.take(noisy), numbers[noisy])
        with _disable_current_modes(), torch.no_grad():
            item.detach().copy_(torch.from_numpy(numbers.reshape(form.shape)))
        self.attach(item, lift(self.recording, numbers.reshape(form.shape)))


_COARSE = (torch.float16, torch.bfloat16)
_from_numpy = torch.from_numpy
_MAKERS = (torch.as_tensor, torch.tensor)


class _RawReads(TorchFunctionMode):
    """Releases a tensor before its memory is read without the dispatcher; takes numpy's noise over into tensors."""

    def __init__(self, noise: TorchNoise) -> None:
        super().__init__()
        self._noise = noise

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func is torch.Tensor.item and (form := self._noise.noise(args[0])) is not None and not form.value.any():
            return form.reshape(-1)[0].scalar()
        if func in _RAW_READERS and type(args[0]) in (Tensor, torch.nn.Parameter):
            form, recording = self._noise.noise(args[0]), self._noise.recording
            if form is not None and not form.value.any() and not recording.at_return:
                recording.remark_early_read(f"that {func.__name__} reads")
            self._noise.release(args[0])
        if func in _MAKERS and args and isinstance(args[0], NoisyArray):
            return self.take_over(func, *args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))

    def take_over_array(self, form: Any) -> Tensor:
        """Return what `torch.from_numpy` does, which asks no mode."""
        return self.take_over(_from_numpy, form)

    def take_over(self, func: Any, form: Any, *args: Any, **kwargs: Any) -> Tensor:
        """Return the tensor that a function makes of an array, with its noise."""
        if not isinstance(form, NoisyArray):
            return func(form, *args, **kwargs)  # type: ignore[no-any-return]
        numbers = form.recording.evaluate(form.rows).reshape(form.shape)
        answer: Tensor = func(numbers, *args, **kwargs)
        self._noise.attach(answer, form)
        return answer


@contextlib.contextmanager
def _families(noise: TorchNoise) -> Iterator[None]:
    """Follow distributions that torch makes of uniform numbers; the others draw by operations with a law."""
    with contextlib.ExitStack() as stack:
        for family, law in ((torch.distributions.Laplace, "laplace"), (torch.distributions.Gumbel, "gumbel")):
            plain = family.rsample

            def rsample(self: Any, shape: Any = (), law: str = law, plain: Any = plain) -> Tensor:
                return noise.sample(law, self, plain, shape)

            stack.enter_context(mock.patch.object(family, "rsample", rsample))
            stack.enter_context(mock.patch.object(family, "sample", torch.no_grad()(rsample)))
        yield


def _uncompiled() -> Any:
    """Return a context in which compiled functions run as written; the compiler is loaded on its first use."""
    if "torch._dynamo" in sys.modules:
        return torch.compiler.set_stance("force_eager")
    return mock.patch.object(
        torch, "compile", lambda model=None, **_: model if model is not None else (lambda function: function)
    )


@contextlib.contextmanager
def follow(recording: Recording) -> Iterator[TorchNoise]:
    """Follow torch's noise inside of the context, from its generator seeded anew; compiled functions run as written."""
    mode = TorchNoise(recording)
    with torch.random.fork_rng(devices=[]), _uncompiled():
        torch.default_generator.manual_seed(_SEED + recording.seed)
        reads = _RawReads(mode)
        with mode, reads, _families(mode), mock.patch.object(torch, "from_numpy", reads.take_over_array):
            yield mode


__all__ = ["TorchNoise", "follow", "operations"]
