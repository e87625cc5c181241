"""Gradient inversion on trained networks with pooling, ReLU and BatchNorm in evaluation mode: docs/evidence/reconstruction.md.

    python benchmarks/reconstruction_trained.py --mnist FOLDER --fashion FOLDER --cifar cifar10_test.npz [--breaching SOURCES]

Eight single records of each data set, gradients without clip or noise, 300 iterations. SOURCES is that of
`gradient_peers.py`; breaching takes three channels, so grey images have three equal ones for all attacks. Each
problem is stored as soon as it is done; what is stored is not run again.
"""

from __future__ import annotations

import argparse
import itertools
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import gradient_peers
import image_distances as images
import numpy as np
import torch
from torch import Tensor, nn

from attacks.reconstruction.matching import InvertingGradients, Released, model_gradients
from audit.core.seeds import Seed
from audit.data import load

ITERATIONS, STEPS = 300, 600
TARGETS = slice(8, 16)  # records 16 to 23 served the choice of settings
STRONG = "the project, signed, public centre and deviation"
NETWORKS = {"LeNet": False, "LeNet with BatchNorm": True}


def read_images(spec: dict[str, object]) -> tuple[Tensor, Tensor]:
    """Return pixels in [0, 1] `(n, 3, rows, columns)` and labels."""
    data = load.load({**spec, "train": 4000, "pool": 100}, Seed(1)).train
    pixels = torch.from_numpy(np.array(data.inputs)).float()
    pixels = (pixels - pixels.min()) / (pixels.max() - pixels.min())
    # breaching's total variation is written for three channels
    return pixels.expand(-1, 3, -1, -1), torch.from_numpy(np.array(data.labels)).long()


def build_lenet(shape: tuple[int, ...], *, normalises: bool) -> nn.Module:
    torch.manual_seed(5)
    side = ((shape[1] - 4) // 2 - 4) // 2
    layers: list[nn.Module] = []
    for inputs, outputs in ((shape[0], 6), (6, 16)):
        layers += [nn.Conv2d(inputs, outputs, 5), *[nn.BatchNorm2d(outputs)] * normalises, nn.ReLU(), nn.MaxPool2d(2)]
    sizes = (16 * side * side, 120, 84)
    for inputs, outputs in itertools.pairwise(sizes):
        layers += [nn.Flatten(), nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(84, 10))


def train(model: nn.Module, pixels: Tensor, labels: Tensor) -> float:
    """Return the accuracy on other records after training; leave the model in evaluation mode."""
    optimiser, generator = torch.optim.Adam(model.parameters(), 1e-3), torch.Generator().manual_seed(3)
    for _ in range(STEPS):
        rows = torch.randint(1000, len(pixels), (64,), generator=generator)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(pixels[rows]), labels[rows]).backward()
        optimiser.step()
    # in training mode a gradient would depend on the other records of the batch
    model.eval()
    return float((model(pixels[:1000]).argmax(1) == labels[:1000]).float().mean())


def reconstruct(released: Released, attack: InvertingGradients) -> Tensor:
    return attack.reconstruct(released, torch.Generator().manual_seed(7))


def attack_all(name: str, pixels: Tensor, labels: Tensor, *, normalises: bool, sources: Path | None) -> dict[str, np.ndarray]:
    """Return the PSNR of each target by attack, with the accuracy and processor seconds under their own keys."""
    model = build_lenet(tuple(pixels.shape[1:]), normalises=normalises)
    accuracy = train(model, pixels, labels)
    truth, own_labels = pixels[TARGETS], labels[TARGETS, None]
    weights = {key: value.detach() for key, value in model.named_parameters()}
    gradients = model_gradients(model, weights, truth[:, None], own_labels)
    released = Released(model=model, weights=weights, gradients=gradients, labels=own_labels, shape=tuple(truth.shape[1:]))
    results = {"accuracy": np.array([accuracy])}
    # of each data set's records as a whole, which both attacks move in units of
    centre, deviation = (part[:, None, None] for part in (pixels.mean((0, 2, 3)), pixels.std((0, 2, 3))))
    signed = InvertingGradients(iterations=ITERATIONS, variation=0.2, variation_end=0.2, signed=True)
    settings: dict[str, Callable[[], Tensor]] = {
        "the project": lambda: reconstruct(released, InvertingGradients(iterations=ITERATIONS)),
        STRONG: lambda: reconstruct(replace(released, centre=centre, deviation=deviation), signed),
    }
    # who guesses the mean pixel has seen no gradient: an attack that is no better shows nothing of a record
    results["grey"] = images.psnr(np.full(truth.shape, float(truth.mean()), np.float32), truth.numpy(), 1.0)
    for key, attack in settings.items():
        began = time.process_time()
        records = attack()[:, 0]
        results[f"{key} seconds"] = np.array([time.process_time() - began])
        results[key] = images.psnr(records.numpy(), truth.numpy(), 1.0)
    if sources is not None:
        gradient_peers.MEAN, gradient_peers.DEVIATION = (tuple(part.ravel().tolist()) for part in (centre, deviation))
        run, began, rows = gradient_peers.breaching(0.2, sources), time.process_time(), []
        for index, target in enumerate(gradient_peers.list_targets(released, truth, ITERATIONS)):
            torch.manual_seed(index)
            rows.append(run(target).numpy())
        results["breaching seconds"] = np.array([time.process_time() - began])
        results["breaching"] = images.psnr(np.stack(rows), truth.numpy(), 1.0)
    print(name, {key: round(float(value.mean()), 2) for key, value in results.items()}, flush=True)
    return results


def write_row(name: str, results: dict[str, np.ndarray]) -> str:
    """Return a row of the table: mean and standard error of each attack, in dB, with its processor seconds, and of the gap."""
    cells = []
    for key in ("grey", "the project", STRONG, "breaching"):
        if key in results:
            values = results[key]
            seconds = f"; {results[f'{key} seconds'][0]:.0f} s" if f"{key} seconds" in results else ""
            cells.append(f"{values.mean():.1f} ({values.std(ddof=1) / len(values) ** 0.5:.1f}){seconds}")
    if "breaching" in results:
        gap = results[STRONG] - results["breaching"]
        cells.append(f"{gap.mean():+.1f} ({gap.std(ddof=1) / len(gap) ** 0.5:.1f})")
    return f"| {name} | {float(results['accuracy'][0]):.2f} | {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for option in ("--mnist", "--fashion", "--cifar", "--breaching"):
        parser.add_argument(option, type=Path)
    parser.add_argument("--store", type=Path, default=Path("reconstruction-trained"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.breaching is not None:
        gradient_peers.make_importable(options.breaching)
    specs = {
        "MNIST": {"kind": "mnist", "path": str(options.mnist)},
        "Fashion-MNIST": {"kind": "fashion_mnist", "path": str(options.fashion)},
        "CIFAR-10": {"kind": "npz", "path": str(options.cifar)},
    }
    rows = []
    for data, spec in specs.items():
        pixels, labels = read_images(spec)
        for network, normalises in NETWORKS.items():
            name, file = f"{data}, {network}", options.store / f"{data}-{network.replace(' ', '-')}.npz"
            if not file.exists():
                results = attack_all(name, pixels, labels, normalises=normalises, sources=options.breaching)
                file.parent.mkdir(parents=True, exist_ok=True)
                np.savez(file, **results)
            with np.load(file, allow_pickle=False) as content:
                rows.append(write_row(name, dict(content)))
    print("\n".join(rows))


if __name__ == "__main__":
    main()
