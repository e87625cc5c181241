"""The problems of the ensemble benchmark, and the loops over single models that it is compared with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional as F

from audit.core.access import Access
from audit.core.canaries import Canaries, CanaryRecords
from audit.core.data import Dataset, Records
from audit.core.events import dp_sgd, sgd
from audit.core.seeds import Seed
from audit.core.training import TrainingJob
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.models.build import initialise_model


def small_cnn() -> nn.Module:
    """The 7 146-parameter network: 5x5 stride 2 (8), 3x3 stride 2 (16), linear; no pooling."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(8, 16, 3, stride=2, padding=0),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(16 * 36, 10),
    )


def digits(image: bool) -> Dataset:
    """scikit-learn's digits, as 64 features or enlarged to 1x28x28."""
    raw = load_digits()
    inputs = (raw.data / 16.0).astype(np.float32)
    if image:
        large = np.kron(inputs.reshape(-1, 8, 8), np.ones((1, 3, 3), np.float32))
        inputs = np.pad(large, ((0, 0), (2, 2), (2, 2)))[:, None]
    order = np.random.default_rng(0).permutation(len(inputs))
    inputs, labels = inputs[order], raw.target[order].astype(np.int64)

    def part(start: int, stop: int | None) -> Records:
        return Records(inputs=inputs[start:stop], labels=labels[start:stop])

    return Dataset(
        name="digits",
        source="scikit-learn",
        sha256="",
        classes=10,
        train=part(0, 1280),
        pool=part(1280, 1300),
        test=part(1300, None),
        pool_index=np.arange(20),
    )


def purchase_like(records: int = 8000) -> Dataset:
    """600 binary features around 100 class centres, as in the published comparisons of attack suites."""
    generator = np.random.default_rng(0)
    centres = generator.random((100, 600)) < 0.5
    labels = generator.integers(0, 100, records + 2000)
    flips = generator.random((records + 2000, 600)) < 0.38
    inputs = (centres[labels] ^ flips).astype(np.float32)

    def part(start: int, stop: int) -> Records:
        return Records(inputs=inputs[start:stop], labels=labels[start:stop])

    return Dataset(
        name="purchase-like",
        source="drawn",
        sha256="",
        classes=100,
        train=part(0, 0),
        pool=part(0, records),
        test=part(records, records + 2000),
        pool_index=np.arange(records),
    )


def job(
    dataset: Dataset, model: dict, *, models: int, batch: int, steps: int, optimizer: dict, private: bool = True
) -> TrainingJob:
    population = len(dataset.train) + len(dataset.pool)
    rate = batch / population
    mechanism = (
        dp_sgd(noise_multiplier=0.7, clip_norm=1.0, sample_rate=rate, steps=steps)
        if private
        else sgd(sample_rate=rate, steps=steps)
    )
    return TrainingJob(
        dataset=dataset,
        canaries=Canaries(kind="held_out", description="", payload=CanaryRecords(records=dataset.pool)),
        included=np.random.default_rng(1).random((models, len(dataset.pool))) < 0.5,
        seeds=tuple(Seed(0).child("model", index) for index in range(models)),
        mechanism=mechanism,
        model=model,
        optimizer=optimizer,
        access=Access.FINAL_MODEL,
    )


def batches(training: TrainingJob, model: int) -> Iterator[np.ndarray]:
    """The batches that our engine draws for one model."""
    law = Law(population=len(training.dataset.train) + len(training.canaries), rate=training.sample_rate)
    sampler = EnsembleSampler(
        law, (training.seeds[model].child("batches"),), training.included[model : model + 1], as_gradients=False
    )
    while True:
        block = sampler.block()
        for step in range(law.block_steps):
            yield block.index[step, 0, : block.counts[step, 0]]


def opacus_loop(training: TrainingJob, mode: str, models: int) -> list[nn.Module]:
    """Opacus over `models` models, one after another, in its fastest plain form: no loader, no engine, no records kept."""
    from opacus import GradSampleModule
    from opacus.grad_sample.grad_sample_module_fast_gradient_clipping import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizer
    from opacus.optimizers.optimizer_fast_gradient_clipping import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    inputs, labels = tensors(training)
    mechanism = training.noisy
    assert mechanism is not None
    done = []
    for index in range(models):
        plain = fresh(training, index)
        options = {
            "noise_multiplier": mechanism.noise_multiplier,
            "max_grad_norm": mechanism.clip_norm,
            "expected_batch_size": mechanism.sample_rate * len(inputs),
        }
        inner = torch.optim.SGD([p for p in plain.parameters() if p.requires_grad], lr=training.optimizer["learning_rate"])
        if mode == "ghost":
            module = GradSampleModuleFastGradientClipping(plain, max_grad_norm=mechanism.clip_norm, use_ghost_clipping=True)
            optimizer = DPOptimizerFastGradientClipping(inner, **options)
            criterion = DPLossFastGradientClipping(module, optimizer, nn.CrossEntropyLoss())
        else:
            module = GradSampleModule(plain, force_functorch=mode == "functorch")
            optimizer = DPOptimizer(inner, **options)
            criterion = nn.CrossEntropyLoss()
        drawn = batches(training, index)
        for _ in range(mechanism.steps):
            rows = torch.from_numpy(next(drawn)).to(training.device)
            optimizer.zero_grad(set_to_none=True)
            criterion(module(inputs[rows]), labels[rows]).backward()
            optimizer.step()
        done.append(plain)
    return done


def vmap_loop(training: TrainingJob, models: int) -> dict[str, Tensor]:
    """What a user would write for `models` models at once: per-example gradients by `vmap(vmap(grad))`, clipped and summed."""
    inputs, labels = tensors(training)
    mechanism = training.noisy
    assert mechanism is not None
    modules = [fresh(training, index) for index in range(models)]
    tables = [dict(module.named_parameters()) for module in modules]
    values = {name: torch.stack([table[name] for table in tables]).detach() for name in tables[0]}
    drawn = [batches(training, index) for index in range(models)]

    def loss(parameters: dict[str, Tensor], record: Tensor, label: Tensor) -> Tensor:
        outputs = torch.func.functional_call(modules[0], parameters, (record.unsqueeze(0),))
        return F.cross_entropy(outputs, label.unsqueeze(0))

    model_gradients = torch.func.vmap(torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0)))
    mean = mechanism.sample_rate * len(inputs)
    for _ in range(mechanism.steps):
        rows = [torch.from_numpy(next(stream)) for stream in drawn]
        index = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        real = torch.arange(index.shape[1]) < torch.tensor([len(row) for row in rows]).unsqueeze(1)
        index, real = index.to(training.device), real.to(training.device)
        gradients = model_gradients(values, inputs[index], labels[index])
        norms = torch.stack([g.flatten(2).square().sum(2) for g in gradients.values()]).sum(0).sqrt()
        factors = (mechanism.clip_norm / norms).clamp(max=1.0) * real
        for name, gradient in gradients.items():
            total = torch.einsum("nr,nr...->n...", factors, gradient)
            noise = mechanism.noise_multiplier * mechanism.clip_norm * torch.randn_like(total)
            values[name] = values[name] - training.optimizer["learning_rate"] * (total + noise) / mean
    return values


def plain_loop(training: TrainingJob, models: int) -> list[nn.Module]:
    """Non-private training, one model after another, with torch.optim."""
    inputs, labels = tensors(training)
    done = []
    for index in range(models):
        module = fresh(training, index)
        maker = torch.optim.Adam if training.optimizer["kind"] == "adam" else torch.optim.SGD
        optimizer = maker(module.parameters(), lr=training.optimizer["learning_rate"])
        drawn = batches(training, index)
        for _ in range(training.steps):
            rows = torch.from_numpy(next(drawn)).to(training.device)
            optimizer.zero_grad(set_to_none=True)
            F.cross_entropy(module(inputs[rows]), labels[rows]).backward()
            optimizer.step()
        done.append(module)
    return done


def fresh(training: TrainingJob, index: int) -> nn.Module:
    seed = training.seeds[index].child("init")
    return initialise_model(training.model, training.dataset.train.inputs.shape[1:], training.dataset.classes, seed).to(
        training.device
    )


def tensors(training: TrainingJob) -> tuple[Tensor, Tensor]:
    inputs = np.concatenate([training.dataset.train.inputs, training.canaries.records.inputs])
    labels = np.concatenate([training.dataset.train.labels, training.canaries.records.labels])
    return torch.from_numpy(inputs).to(training.device), torch.from_numpy(labels).to(training.device)
