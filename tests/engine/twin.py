"""The slow twin of the engine: one model, plain modules, plain autograd, torch's optimisers."""

from __future__ import annotations

import numpy as np
import torch
from torch.nn import functional as F

from audit.core.training import TrainingJob
from audit.engine.random.sampling import EnsembleSampler, Law
from audit.models.build import initialise_model
from tests.engine import cases


def slow_training(job: TrainingJob, model: int, *, whole_batches: bool = False) -> dict[str, np.ndarray]:
    """One model of `job` without noise, trained with plain modules and torch.optim on the sampler's batches.

    If `whole_batches`, the loss is of the batch as it is, else the sum of its examples' one by one.
    """
    data = job.dataset
    clip_norm = None if job.noisy is None else job.noisy.clip_norm
    inputs = torch.from_numpy(np.concatenate([data.train.inputs, job.canaries.records.inputs])).double()
    labels = torch.from_numpy(np.concatenate([data.train.labels, job.canaries.records.labels]))
    module = initialise_model(job.model, data.train.inputs.shape[1:], data.classes, job.seeds[model].child("init")).double()
    options = dict(job.optimizer)
    kind, rate = options.pop("kind"), options.pop("learning_rate")
    trained = [parameter for parameter in module.parameters() if parameter.requires_grad]
    makers = {"sgd": torch.optim.SGD, "adam": torch.optim.Adam, "adamw": torch.optim.AdamW}
    optimizer = makers[kind](trained, lr=rate, **options)
    law = Law(population=len(inputs), rate=job.sample_rate)
    seeds = (job.seeds[model].child("batches"),)
    block = EnsembleSampler(law, seeds, job.included[model : model + 1], as_gradients=False).block()
    for step in range(job.steps):
        batch = block.index[step, 0, : block.counts[step, 0]]
        if whole_batches:
            loss = F.cross_entropy(module(inputs[batch]), labels[batch], reduction="sum")
            total = torch.autograd.grad(loss, trained, allow_unused=True, materialize_grads=True)
        else:
            total, _ = cases.slow_sum(module, inputs[batch], labels[batch], clip_norm)
        for parameter, part in zip(trained, total, strict=True):
            parameter.grad = part / (job.sample_rate * len(inputs))
        optimizer.step()
    return {name: parameter.detach().numpy() for name, parameter in module.named_parameters()}
