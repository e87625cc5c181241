"""Gradient inversion by the project, LeakPro and breaching, from the same gradients: for docs/evidence/reconstruction.md.

`reconstruction.py --peers SOURCES` calls `section`. SOURCES holds checkouts of both repositories, `LeakPro` and `breaching`.
Their attacks run by their own code and their own defaults, apart from the number of iterations, and once more with the
total variation that served them best. torchvision, transformers and datasets, which the attacks do not use,
are replaced by empty modules; `pip install hydra-core torchmetrics pytorch-ignite optuna seaborn loguru` gives the rest.

Each target is stored as soon as it is done; what is stored is not run again.
"""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import logging
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any, ClassVar

import image_distances as images
import numpy as np
import torch
from torch import Tensor, nn

from attacks.reconstruction.matching import InvertingGradients, Released

MEAN, DEVIATION = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)  # of CIFAR-10: the peers move normalised pixels


class Empty(type):
    """Kind of classes that have every name, each an empty class again."""

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return Empty(name, (), {})


class Absent(ModuleType):
    """A module of which every name is an empty class."""

    __path__: ClassVar[list[str]] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(Empty("module", (), {}), name)


class AbsentFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Lets imports of packages that a peer names but does not use succeed."""

    packages = frozenset({"torchvision", "transformers", "datasets"})

    def find_spec(self, fullname: str, path: object = None, target: object = None) -> importlib.machinery.ModuleSpec | None:
        if fullname.partition(".")[0] not in self.packages:
            return None
        return importlib.machinery.ModuleSpec(fullname, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return Absent(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing to run."""


def make_importable(sources: Path) -> None:
    """Make both checkouts importable without what their top-level files import."""
    logging.disable(logging.INFO)
    sys.meta_path.insert(0, AbsentFinder())
    for folder, name in (("LeakPro", "leakpro"), ("breaching", "breaching")):
        path = sources / folder / name
        if not path.is_dir():
            raise SystemExit(f"{path} is not there; --peers names the folder of both checkouts")
        package = ModuleType(name)
        package.__path__ = [str(path)]
        sys.modules[name] = package


class Normalised(nn.Module):
    """A model on pixels in [0, 1] as one on normalised pixels: its gradients for the same image are the same."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.mean, self.deviation = (torch.tensor(part)[:, None, None] for part in (MEAN, DEVIATION))

    def forward(self, pixels: Tensor) -> Tensor:
        outputs: Tensor = self.model(pixels * self.deviation + self.mean)
        return outputs


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One record, its label and its gradient, with the model and the iterations that an attack has.

    Attributes:
        record: `(1, channels, rows, columns)` in [0, 1]. LeakPro computes the gradient from it alone; no attack
            reads it otherwise, but LeakPro chooses by its similarity and the other result is taken.
        label: `(1,)`.
        gradient: parameters' shapes.
    """

    model: nn.Module
    record: Tensor
    label: Tensor
    gradient: Sequence[Tensor]
    iterations: int


def breaching(variation: float, sources: Path) -> Callable[[Target], Tensor]:
    """Its `invertinggradients`: cosine distance, signed Adam, fixed total variation."""

    def attack(target: Target) -> Tensor:
        from breaching.attacks.optimization_based_attack import OptimizationBasedAttacker
        from omegaconf import OmegaConf

        folder = sources / "breaching" / "breaching" / "config" / "attack"
        parts = [OmegaConf.load(folder / f"{name}.yaml") for name in ("_default_optimization_attack", "invertinggradients")]
        settings: Any = OmegaConf.merge(*parts)
        settings.optim.max_iterations = target.iterations
        settings.regularization.total_variation.scale = variation
        model, shape = Normalised(target.model), tuple(target.record.shape[1:])
        attacker = OptimizationBasedAttacker(model, nn.CrossEntropyLoss(), settings)
        metadata = SimpleNamespace(shape=shape, mean=MEAN, std=DEVIATION, modality="vision")
        payload = [{"parameters": list(model.parameters()), "buffers": [], "metadata": metadata}]
        ours = {"num_data_points": 1, "labels": target.label, "local_hyperparams": None}
        shared = [{"gradients": list(target.gradient), "buffers": None, "metadata": ours}]
        result, _ = attacker.reconstruct(payload, shared, server_secrets={})
        return unnormalise(result["data"])

    return attack


def leakpro(variation: float) -> Callable[[Target], Tensor]:
    """Its `InvertingGradients`: cosine distance of the update of one step of SGD, Adam, fixed total variation."""

    def attack(target: Target) -> Tensor:
        from leakpro.attacks.gia_attacks.invertinggradients import InvertingConfig
        from leakpro.attacks.gia_attacks.invertinggradients import InvertingGradients as Inverting

        mean, deviation = (torch.tensor(part)[:, None, None] for part in (MEAN, DEVIATION))
        content = torch.utils.data.TensorDataset((target.record - mean) / deviation, target.label)
        settings = InvertingConfig(tv_reg=variation, at_iterations=target.iterations)
        loader: Any = torch.utils.data.DataLoader(content)
        attacker = Inverting(Normalised(target.model), loader, mean, deviation, configs=settings)
        attacker.prepare_attack()
        observed, ours = (
            torch.cat([part.flatten() for part in parts]) for parts in (target.gradient, attacker.client_gradient)
        )
        cosine = float(torch.cosine_similarity(-observed, ours, dim=0))
        if not cosine > 0.9999:
            raise SystemExit(f"LeakPro's own gradient has cosine {cosine} with the one of the others; expected the same")
        attacker.best_sim = -1.0  # its result exists from the first iteration on, else a bad start ends it raw
        reached = [step for step, _, _ in attacker.run_attack()][-1]
        if reached != target.iterations - 1:  # it catches whatever happens in its loop
            raise SystemExit(f"LeakPro's attack ended at iteration {reached} of {target.iterations}")
        return unnormalise(attacker.best_reconstruction.dataset.reconstruction)  # by least distance, not by the truth

    return attack


def unnormalise(normalised: Tensor) -> Tensor:
    """Pixels in [0, 1] of normalised ones `(1, channels, rows, columns)`, without the first axis."""
    mean, deviation = (torch.tensor(part)[:, None, None] for part in (MEAN, DEVIATION))
    return (normalised.detach()[0] * deviation + mean).clamp(0, 1)


def rivals(sources: Path) -> Mapping[str, Callable[[Target], Tensor]]:
    """Each peer at its default total variation and at the best of those tried before."""
    return {
        "breaching, total variation 0.2 (its default)": breaching(0.2, sources),
        "breaching, total variation 0.02": breaching(0.02, sources),
        "LeakPro, total variation 1e-6 (its default)": leakpro(1e-6),
        "LeakPro, total variation 0.001": leakpro(1e-3),
    }


def stored(path: Path, make: Callable[[], Tensor]) -> tuple[np.ndarray, float]:
    """Records and processor seconds of a file, which `make` fills if it does not exist."""
    if not path.exists():
        began = time.process_time()
        records = make().numpy()
        path.parent.mkdir(parents=True, exist_ok=True)
        scratch = path.with_suffix(".partial.npz")
        np.savez(scratch, records=records, seconds=time.process_time() - began)
        scratch.rename(path)
    with np.load(path, allow_pickle=False) as content:
        return content["records"], float(content["seconds"])


def section(released: Released, truth: Tensor, iterations: int, sources: Path, store: Path) -> list[str]:
    """Lines of the page: PSNR of each target, mean, standard error and processor seconds of each attack.

    Args:
        released: gradients of N single records, without noise.
        truth: those records, `(N, channels, rows, columns)` in [0, 1].
    """
    generator = torch.Generator().manual_seed(7)
    attack = InvertingGradients(iterations=iterations)
    name = f"the project, {len(truth)} at once"
    ours, seconds = stored(
        store / f"project-{len(truth)}-{iterations}.npz", lambda: attack.reconstruct(released, generator)[:, 0]
    )
    print(f"{name}: {images.psnr(ours, truth.numpy(), 1.0).mean():.1f} dB, {seconds:.1f} s", flush=True)
    quality = {name: images.psnr(ours, truth.numpy(), 1.0)}
    spent = {name: seconds}
    make_importable(sources)
    for rival in rivals(sources):
        quality[rival], spent[rival] = np.zeros(len(truth)), 0.0
    for index, target in enumerate(list_targets(released, truth, iterations)):
        for rival, (psnr, seconds) in rival_results(index, target, sources, store).items():
            quality[rival][index] = psnr
            spent[rival] += seconds
    return [
        "| attack | PSNR of each target | mean (standard error) | least | CPU seconds |",
        "|---|---|---|---|---|",
        *(row(rival, values, spent[rival]) for rival, values in quality.items()),
        "",
        *(difference(rival, quality[name] - values) for rival, values in quality.items() if rival != name),
    ]


def list_targets(released: Released, truth: Tensor, iterations: int) -> list[Target]:
    """The targets one by one, as the peers take them."""
    sizes = [weight.numel() for weight in released.weights.values()]
    rows = []
    for index, flat in enumerate(released.gradients):
        parts = zip(flat.split(sizes), released.weights.values(), strict=True)
        rows.append(
            Target(
                model=released.model,
                record=truth[index : index + 1],
                label=released.labels[index],
                gradient=[part.view_as(weight) for part, weight in parts],
                iterations=iterations,
            )
        )
    return rows


def rival_results(index: int, target: Target, sources: Path, store: Path) -> dict[str, tuple[float, float]]:
    """PSNR and processor seconds of each peer on one target."""
    result = {}
    for rival, run in rivals(sources).items():
        torch.manual_seed(index)
        file = "-".join(rival.partition(" (")[0].replace(",", "").split())
        path = store / f"{file}-{target.iterations}-{index}.npz"
        records, seconds = stored(path, lambda run=run: run(target))  # type: ignore[misc]
        result[rival] = float(images.psnr(records[None], target.record.numpy(), 1.0)[0]), seconds
        print(f"target {index}, {rival}: {result[rival][0]:.1f} dB, {seconds:.1f} s", flush=True)
    return result


def row(name: str, values: np.ndarray, seconds: float) -> str:
    cells = " ".join(f"{value:.1f}" for value in values)
    error = values.std(ddof=1) / len(values) ** 0.5
    return f"| {name} | {cells} | {values.mean():.1f} ({error:.1f}) | {values.min():.1f} | {seconds:.0f} |"


def difference(name: str, gaps: np.ndarray) -> str:
    error = gaps.std(ddof=1) / len(gaps) ** 0.5
    return (
        f"- ahead of {name} by {gaps.mean():.1f} dB (standard error {error:.1f}), on {(gaps > 0).sum()} of {len(gaps)} targets"
    )
