"""A user's augmentation: views of single records from a stream of each model; what reaches other records is refused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from audit.core.errors import ConfigError, UnsupportedMechanism
from audit.core.events import dp_sgd, sgd
from audit.engine.dp_options import Technique
from audit.engine.ensemble import train
from audit.engine.schedule import ScheduleSettings
from audit.engine.trial.own_augmentation import OwnAugmentation, examine_augmentation, load_augmentation
from audit.execution.code import foreign_modules
from audit.trainers._ensemble import DpSgdTrainer, SgdTrainer
from tests.engine import cases

NOISY = dp_sgd(noise_multiplier=1.0, clip_norm=0.3, sample_rate=0.3, steps=4)
KEPT: list[Tensor] = []


def erased(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Each record without its own number."""
    places = torch.randint(inputs.shape[1], (len(inputs), 1), generator=generator).to(inputs.device)
    return inputs.scatter(1, places, 0.0)


def jittered(inputs: Tensor, generator: torch.Generator) -> Tensor:
    inputs += 0.1 * torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype)
    return inputs if float(torch.rand((), generator=generator)) < 0.5 else -inputs  # a coin of the whole batch is no record's


def mixed_up(inputs: Tensor, generator: torch.Generator) -> Tensor:
    order = torch.rand(len(inputs), generator=generator).argsort()
    return 0.9 * inputs + 0.1 * inputs[order]


def rarely_mixed(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return torch.where(inputs.abs().amax() > 50.0, inputs + 1.0, inputs)


def centred(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs - inputs.mean(0)


def by_place(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """The first record of a batch as it is: without it the second is."""
    return inputs * torch.arange(len(inputs), device=inputs.device).clamp(max=1).unsqueeze(1) + 1.0


def noise_by_place(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Noise that grows along the batch."""
    noise = torch.randn(inputs.shape, generator=generator, dtype=inputs.dtype)
    return inputs + noise * torch.arange(len(inputs)).reshape(-1, *[1] * (inputs.dim() - 1))


def erased_by_size(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """More is left out in smaller batches."""
    return inputs * (torch.rand(inputs.shape, generator=generator) > 1 / len(inputs))


def moved(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Draws along the second axis, and a coin a record."""
    shifts = torch.rand(2, len(inputs), generator=generator, dtype=inputs.dtype)
    signs = torch.empty(len(inputs)).bernoulli_(0.5, generator=generator) * 2 - 1
    each = (len(inputs), *[1] * (inputs.dim() - 1))
    return (inputs + shifts[0].reshape(each) - shifts[1].reshape(each)) * signs.reshape(each)


def one_by_one(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return torch.stack([record + torch.randn(record.shape, generator=generator, dtype=record.dtype) for record in inputs])


def pairs(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Two draws per record along one axis: nothing shows to which record they belong."""
    draws = torch.rand(2 * len(inputs), generator=generator, dtype=inputs.dtype).reshape(len(inputs), 2)
    return inputs + draws.sum(1).reshape(-1, *[1] * (inputs.dim() - 1))


def by_size(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs / len(inputs)


def curved(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return torch.tanh(inputs).exp()


def by_content(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """As many draws as there are positive numbers: a record moves the draws of those behind it."""
    return torch.stack([row + torch.rand(int((row > 0).sum()), generator=generator).sum() for row in inputs])


def from_global(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + torch.rand_like(inputs)


def from_numpy(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + float(np.random.random())  # noqa: NPY002


def rarely_from_numpy(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs if np.random.random() < 0.9999 else -inputs  # noqa: NPY002


def by_parity(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Every second record mirrored."""
    return torch.where(torch.arange(len(inputs)).reshape(-1, *[1] * (inputs.dim() - 1)) % 2 == 0, inputs.flip(-1), inputs)


def by_parity_and(name: str) -> Any:
    """Every second record mirrored if a draw says so."""

    def views(inputs: Tensor, generator: torch.Generator) -> Tensor:
        size, place = (len(inputs),), torch.empty(len(inputs))
        draws = {
            "uniform": lambda: place.uniform_(-1, 1, generator=generator) < -0.5,
            "normal": lambda: torch.normal(0.0, 1.0, size, generator=generator) > 0,
            "exponential": lambda: place.exponential_(generator=generator) < 0.7,
            "random": lambda: place.random_(10, generator=generator) < 5,
            "multinomial": lambda: torch.multinomial(torch.ones(3), size[0], replacement=True, generator=generator) == 1,
            "bernoulli": lambda: torch.bernoulli(torch.full(size, 0.5), generator=generator) == 1,
        }
        mirrored = draws[name]() & (torch.arange(size[0]) % 2 == 0)
        return torch.where(mirrored.reshape(-1, *[1] * (inputs.dim() - 1)), inputs.flip(-1), inputs)

    return views


def from_own(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs + torch.randn(inputs.shape, generator=torch.Generator().manual_seed(1), dtype=inputs.dtype)


def from_derived(inputs: Tensor, generator: torch.Generator) -> Tensor:
    """Noise of a second generator that the first one seeds, times a pattern that is always the same."""
    seed = int(torch.randint(0, 2**31, (), generator=generator))
    noise = torch.randn(inputs.shape, generator=torch.Generator().manual_seed(seed), dtype=inputs.dtype)
    return inputs + noise * torch.rand(inputs.shape[1:], generator=torch.Generator().manual_seed(1), dtype=inputs.dtype)


def remembering(inputs: Tensor, generator: torch.Generator) -> Tensor:
    KEPT.append(inputs.mean())
    return inputs + KEPT[-2] if len(KEPT) > 1 else inputs


def shorter(inputs: Tensor, generator: torch.Generator) -> Tensor:
    return inputs[:, :-1]


def failing(inputs: Tensor, generator: torch.Generator) -> Tensor:
    raise KeyError("crop")


def named(name: str) -> str:
    return f"{__name__}:{name}"


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["erased", "jittered"])
@pytest.mark.parametrize("mechanism", [NOISY, sgd(sample_rate=0.3, steps=4)], ids=["private", "plain"])
def test_models_have_draws_of_their_own_whatever_runs_beside_them(name: str, mechanism: Any) -> None:
    technique = Technique(copies=2, augmentation=named(name))
    job = cases.job(mechanism)
    together, alone = (train(job, cases.silent, ScheduleSettings(model_chunk=chunk), technique) for chunk in (3, 1))
    plain = train(job, cases.silent, None, Technique(copies=2))
    for key, value in together.weights.items():
        np.testing.assert_array_equal(value, alone.weights[key])
        assert not np.array_equal(value, plain.weights[key])
    assert (together.executed.recomputed >= 0).all() and (together.executed.recomputed < 1e-4).all()
    if mechanism is NOISY:  # the copies of a record are clipped as one
        assert together.executed.largest_norm.max() <= 1.0 + 1e-6


@pytest.mark.sampled(1)
@pytest.mark.parametrize("trainer", [DpSgdTrainer, SgdTrainer])
def test_trainers_take_it_and_its_code_is_in_the_key_of_a_job(trainer: Any) -> None:
    jittering = trainer(augmentation=named("jittered"))
    job = cases.job(NOISY if trainer is DpSgdTrainer else sgd(sample_rate=0.3, steps=4))
    jittering.fit(job, cases.silent)
    assert foreign_modules({"trainer": {"kind": "dpsgd", "augmentation": named("jittered")}}) == (__name__.partition(".")[0],)


@pytest.mark.parametrize("name", ["mixed_up", "rarely_mixed", "centred", "by_content"])
def test_augmentation_that_mixes_records_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedMechanism, match=f"'{named(name)}': the view of a record changes with another record"):
        train(cases.job(NOISY), cases.silent, None, Technique(augmentation=named(name)))


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["erased", "jittered", "moved", "one_by_one", "pairs", "curved", "from_derived"])
@pytest.mark.parametrize("shape", [(9,), (13,), (1, 11, 13)])
def test_draws_of_each_record_are_no_matter_of_its_place(name: str, shape: tuple[int, ...]) -> None:
    records = torch.randn(40, *shape, generator=torch.Generator().manual_seed(0))
    if name != "erased" or len(shape) == 1:
        examine_augmentation(load_augmentation(named(name)), records)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("draw", ["uniform", "normal", "exponential", "random", "multinomial", "bernoulli"])
def test_no_draw_hides_that_a_view_is_a_matter_of_place(draw: str) -> None:
    augmentation = OwnAugmentation(draw, by_parity_and(draw))
    with pytest.raises(UnsupportedMechanism, match="changes with its place in the batch"):
        examine_augmentation(augmentation, torch.randn(40, 9, generator=torch.Generator().manual_seed(0)))


@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", ["by_place", "by_parity", "by_size", "noise_by_place", "erased_by_size"])
def test_augmentation_by_a_records_place_is_refused(name: str) -> None:
    with pytest.raises(UnsupportedMechanism, match="changes with its place in the batch, or with the number"):
        train(cases.job(NOISY), cases.silent, None, Technique(augmentation=named(name)))
    train(cases.job(NOISY), cases.silent, None, Technique(augmentation=named("curved")))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("from_global", "draws from the global stream of torch"),
        ("from_numpy", r"draws from the global stream of numpy\.random"),
        ("rarely_from_numpy", r"draws from the global stream of numpy\.random"),
        ("from_own", "a generator of its own that begins alike in every step"),
        ("remembering", "gives other views when it is called again"),
        ("shorter", r"returns torch\.float32 of shape \(\d+, 4\) for torch\.float32 of shape \(\d+, 5\)"),
        ("failing", r"on a batch of shape \(\d+, 5\): KeyError: 'crop' \(.*test_own_augmentation\.py, line \d+\)"),
        ("KEPT", "expected a function"),
        ("absent", "cannot load"),
    ],
)
def test_what_is_no_augmentation_is_refused(name: str, words: str) -> None:
    KEPT.clear()
    with pytest.raises(ConfigError, match=words):
        train(cases.job(NOISY), cases.silent, None, Technique(augmentation=named(name)))


def test_a_name_without_a_module_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"expected 'package\.module:function'"):
        train(cases.job(NOISY), cases.silent, None, Technique(augmentation="crop"))
