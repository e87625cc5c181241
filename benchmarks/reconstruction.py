"""Reconstruction from gradients with and without noise, beside what the noise allows: writes docs/evidence/reconstruction.md.

    OMP_NUM_THREADS=1 python benchmarks/reconstruction.py [--images FILE.npz] [--iterations 1000] [--peers SOURCES]

Without a file the digits inside scikit-learn are used. A file holds `x` `(n, channels, rows, columns)` uint8 and `y` `(n,)`,
such as CIFAR-10's test records. SOURCES holds checkouts of LeakPro and breaching, which then attack the same gradients
(`gradient_peers.py` names their packages). Gradients are of one record each, clipped to norm 1; noise is normal with the given
standard deviation on each coordinate, so a release is Gaussian DP with mu = 1 / noise.
"""

from __future__ import annotations

import argparse
import platform
import time
from dataclasses import dataclass, replace
from pathlib import Path

import gradient_peers
import image_distances as images
import kkt
import matplotlib
import numpy as np
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor, nn

from attacks.reconstruction import closed_form, matching
from attacks.reconstruction.closed_form import SoftmaxRegression, missing_record
from attacks.reconstruction.inversion import ModelInversion
from attacks.reconstruction.matching import DeepLeakage, InvertingGradients, LocalSteps, Released
from audit.core.data import Records
from audit.core.seeds import Seed
from audit.data import load
from audit.stats.bounds import reconstruction as bounds
from audit.stats.curves import tradeoff

matplotlib.use("Agg")

NOISES = (0.0, 0.001, 0.01, 0.1, 0.5, 1.0)
SHOWN = (0.0, 0.001, 0.01, 0.1)
CANDIDATES, DRAWS, PUBLIC = 64, 4000, 400
BATCHED = 32  # records that are attacked in batches
FEWER = 4  # times fewer iterations if there is noise, which ends convergence early


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """Images in [0, 1] with their labels: the first `targets` are attacked, `CANDIDATES` of them may be named."""

    name: str
    inputs: Tensor
    labels: Tensor
    targets: int
    mean: tuple[float, ...] = (0.0,)
    deviation: tuple[float, ...] = (1.0,)

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.inputs.shape[1:])


def problem(path: Path | None, targets: int) -> Problem:
    if path is None:
        data = load.load({"kind": "digits", "train": 1200, "pool": 100}, Seed(1)).train
        return Problem(
            name="digits (1 x 8 x 8)", inputs=torch.tensor(data.inputs), labels=torch.tensor(data.labels), targets=targets
        )
    with np.load(path, allow_pickle=False) as content:
        rows = max(1200, CANDIDATES)
        inputs = torch.tensor(content["x"][:rows]).float() / 255
        classes = torch.tensor(content["y"][:rows].astype(np.int64))
    name = f"{path.stem} ({' x '.join(map(str, inputs.shape[1:]))})"
    mean, deviation = (tuple(part.tolist()) for part in (inputs.mean(dim=(0, 2, 3)), inputs.std(dim=(0, 2, 3))))
    return Problem(name=name, inputs=inputs, labels=classes, targets=targets, mean=mean, deviation=deviation)


class Standardised(nn.Module):
    """Pixels less the mean of their channel over its standard deviation, which the attacker knows."""

    def __init__(self, mean: tuple[float, ...], deviation: tuple[float, ...]) -> None:
        super().__init__()
        self.mean, self.deviation = (torch.tensor(part)[:, None, None] for part in (mean, deviation))

    def forward(self, pixels: Tensor) -> Tensor:
        return (pixels - self.mean) / self.deviation


def convolutional(data: Problem, seed: int) -> nn.Module:
    """Three convolutions with ReLU and a linear layer on standardised pixels; 97,290 parameters for 3 x 32 x 32."""
    torch.manual_seed(seed)
    shape = data.shape
    side = (shape[1] + 3) // 4
    return nn.Sequential(
        Standardised(data.mean, data.deviation),
        nn.Conv2d(shape[0], 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Conv2d(64, 64, 3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(64 * side * side, 10),
    )


def perceptron(shape: tuple[int, ...], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Flatten(), nn.Linear(int(np.prod(shape)), 128), nn.ReLU(), nn.Linear(128, 10))


def smooth(shape: tuple[int, ...], seed: int) -> nn.Module:
    torch.manual_seed(seed)
    side = (shape[1] + 1) // 2
    return nn.Sequential(
        nn.Conv2d(shape[0], 12, 5, padding=2, stride=2),
        nn.Sigmoid(),
        nn.Conv2d(12, 12, 5, padding=2),
        nn.Sigmoid(),
        nn.Flatten(),
        nn.Linear(12 * side * side, 10),
    )


def name_weights(model: nn.Module) -> dict[str, Tensor]:
    return {name: value.detach() for name, value in model.named_parameters()}


def parts(flat: Tensor, weights: dict[str, Tensor]) -> dict[str, np.ndarray]:
    pieces = flat.split([value.numel() for value in weights.values()], dim=1)
    return {
        name: piece.reshape(len(flat), *value.shape).numpy()
        for (name, value), piece in zip(weights.items(), pieces, strict=True)
    }


def candidate_guesses(gradients: Tensor, noise: float, generator: torch.Generator) -> float:
    """How often the likeliest of the candidates given a noisy gradient is the true one: `<g(z), y> - |g(z)|^2 / 2`."""
    products = (gradients @ gradients.T).double()
    if noise == 0:
        return float((products - products.diagonal() / 2).argmax(dim=1).eq(torch.arange(len(products))).double().mean())
    root = torch.linalg.cholesky(products + 1e-9 * torch.eye(len(products)))
    drawn = torch.randint(len(products), (DRAWS,), generator=generator)
    observed = products[drawn] + noise * torch.randn((DRAWS, len(products)), generator=generator).double() @ root.T
    return float((observed - products.diagonal() / 2).argmax(dim=1).eq(drawn).double().mean())


def noise_table(data: Problem, iterations: int) -> tuple[list[str], dict[float, Tensor]]:
    model = convolutional(data, 0)
    weights, chosen = name_weights(model), slice(0, data.targets)
    everyone = matching.model_gradients(model, weights, data.inputs[:CANDIDATES, None], data.labels[:CANDIDATES, None])
    clipped = matching.clip_and_noise(everyone, 1.0, 0.0, torch.Generator())
    candidates, truth = data.inputs[:CANDIDATES].numpy(), data.inputs[chosen].numpy()
    grey = images.psnr(np.full_like(truth, 0.5), truth, 1.0).mean()
    rows, pictures = [], {}
    for noise in NOISES:
        generator = torch.Generator().manual_seed(7)
        observed = matching.clip_and_noise(everyone[chosen], 1.0, noise, generator)
        released = Released(
            model=model, weights=weights, gradients=observed, labels=data.labels[chosen, None], shape=data.shape
        )
        start = time.perf_counter()
        attack = InvertingGradients(iterations=iterations if noise == 0 else max(1, iterations // FEWER))
        records = attack.reconstruct(released, generator)[:, 0]
        seconds = time.perf_counter() - start
        pictures[noise], result = records, records.numpy()
        quality = images.psnr(result, truth, 1.0)
        named = float((images.nearest(result, candidates) == np.arange(data.targets)).mean())
        aware = candidate_guesses(clipped, noise, generator)
        allowed = 1.0 if noise == 0 else float(tradeoff.gdp_tpr(1 / noise, 1 / CANDIDATES))
        success = bounds.success_lower(round(aware * DRAWS), DRAWS, 0.05) if noise else 0.0
        proved = bounds.success_mu(success, 1 / CANDIDATES, replace=False) if noise else float("inf")
        rows.append(
            f"| {noise:g} | {quality.mean():.1f} ({quality.min():.1f} to {quality.max():.1f}) | "
            f"{images.ssim(result, truth, 1.0).mean():.3f} | {named:.2f} | {aware:.4f} | {allowed:.4f} | "
            f"{'-' if noise == 0 else f'{1 / noise:g}'} | {'-' if noise == 0 else f'{proved:.3f}'} |"
        )
        print(rows[-1], f"{seconds:.0f} s", flush=True)
    rows.append(
        f"\nA grey image has {grey:.1f} dB. PSNR and SSIM with data range 1, over {data.targets} targets attacked together."
    )
    return rows, pictures


def closed_forms(data: Problem) -> list[str]:
    rows = []
    model = perceptron(data.shape, 1)
    weights, count = name_weights(model), 512
    flat = matching.model_gradients(model, weights, data.inputs[:count, None], data.labels[:count, None])
    layers = parts(flat, weights)
    result = closed_form.inputs(layers["1.weight"], layers["1.bias"]).reshape(count, *data.shape)
    error = np.abs(result - data.inputs[:count].numpy()).max()
    rows.append(f"| analytic first layer, {count} single records, MLP | largest absolute error {error:.1e} |")
    right = (closed_form.single(layers["3.bias"]) == data.labels[:count].numpy()).mean()
    rows.append(f"| label of a single record (iDLG) | {right:.3f} right |")
    for steps in (0, 300):
        train(model, data, steps)
        rows += [label_counts(model, data, batch, steps) for batch in (8, 32)]
    matched = [matched_batches(data, batch) for batch in (8, 32)]
    return [*rows, *imprinted(data), smooth_leakage(data), *matched, *from_trained_models(data)]


def from_trained_models(data: Problem) -> list[str]:
    """Rows of what a trained model gives to who knows all other records, and to anyone; and of updates of local steps."""
    return [*(informed_adversary(data, noise) for noise in (0.0, 0.01, 0.1)), class_level(data), *local_updates(data)]


def informed_adversary(data: Problem, noise: float) -> str:
    count, targets = 100, 20
    inputs = data.inputs[:count].flatten(1).double().numpy()
    classes, draw = data.labels[:count].numpy(), np.random.default_rng(0)
    constant = np.concatenate([inputs, np.ones((count, 1))], axis=1)
    fitted = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000).fit(constant, classes).coef_
    weights = fitted + noise * draw.normal(size=fitted.shape)
    model = SoftmaxRegression(weights=weights[:, :-1], biases=weights[:, -1], ridge=1.0)
    result = []
    for target in range(targets):
        alternatives = np.arange(count) != target
        record, _ = missing_record(model, Records(inputs=inputs[alternatives], labels=classes[alternatives]))
        result.append(record)
    quality = images.psnr(np.stack(result).reshape(targets, *data.shape), data.inputs[:targets].numpy(), 1.0)
    state = f"noise {noise:g} on the weights" if noise else "no noise"
    return (
        f"| informed adversary, softmax regression on {count} records, {state}, {targets} targets | "
        f"{np.median(quality):.1f} dB ({quality.min():.1f} to {quality.max():.1f}) |"
    )


def class_level(data: Problem) -> str:
    model, half = perceptron(data.shape, 1), len(data.inputs) // 2
    members = replace(data, inputs=data.inputs[:half], labels=data.labels[:half])
    train(model, members, 600)
    result = ModelInversion().class_inputs(model, data.shape)
    distances = []
    for inputs, classes in ((members.inputs, members.labels), (data.inputs[half:], data.labels[half:])):
        near = [float((inputs[classes == label] - result[label]).flatten(1).norm(dim=1).min()) for label in range(len(result))]
        distances.append(float(np.mean(near)))
    return (
        "| model inversion of an MLP (class-level, not about a record): distance to the nearest record of the class | "
        f"{distances[0]:.2f} of members, {distances[1]:.2f} of others |"
    )


def local_updates(data: Problem) -> list[str]:
    model, local = perceptron(data.shape, 1), LocalSteps(learning_rate=2.0, steps=4, batch=1)
    weights, rows = name_weights(model), []
    inputs, classes = data.inputs[:8].reshape(4, 2, *data.shape), data.labels[:8].reshape(4, 2)
    observed = matching.model_gradients(model, weights, inputs, classes, local)
    for name, plan in (("steps simulated", local), ("taken for a gradient", LocalSteps())):
        released = Released(model=model, weights=weights, gradients=observed, labels=classes, shape=data.shape, local=plan)
        result = InvertingGradients(iterations=300).reconstruct(released, torch.Generator().manual_seed(0))
        quality = images.psnr(result.reshape(8, *data.shape).numpy(), data.inputs[:8].numpy(), 1.0)
        rows.append(
            f"| update of 4 local steps on 2 records in turn, MLP, 4 clients, {name} | "
            f"{quality.mean():.1f} dB ({quality.min():.1f} to {quality.max():.1f}) |"
        )
    return rows


def train(model: nn.Module, data: Problem, steps: int) -> None:
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    generator = torch.Generator().manual_seed(3)
    for _ in range(steps):
        rows = torch.randint(len(data.inputs), (64,), generator=generator)
        optimiser.zero_grad()
        nn.functional.cross_entropy(model(data.inputs[rows]), data.labels[rows]).backward()
        optimiser.step()


def label_counts(model: nn.Module, data: Problem, batch: int, steps: int) -> str:
    weights, batches = name_weights(model), (len(data.inputs) - PUBLIC) // batch
    with torch.no_grad():
        public = model(data.inputs[-PUBLIC:]).softmax(dim=1).numpy()
    inputs = data.inputs[: batches * batch].reshape(batches, batch, *data.shape)
    classes = data.labels[: batches * batch].reshape(batches, batch)
    layers = parts(matching.model_gradients(model, weights, inputs, classes), weights)
    result = closed_form.counts(layers["3.bias"], public, batch)
    true = np.stack([np.bincount(row, minlength=10) for row in classes.numpy()])
    full = (result == true).all(axis=1).mean()
    wrong = np.abs(result - true).sum(axis=1).mean() / 2 / batch
    state = "fresh model" if steps == 0 else f"after {steps} steps of SGD"
    return f"| label counts, batches of {batch}, {state} | {full:.2f} of batches right, {wrong:.0%} of labels wrong |"


def imprinted(data: Problem) -> list[str]:
    rows, bins = [], 200
    flat = data.inputs.reshape(len(data.inputs), -1).double().numpy()
    weights, biases = closed_form.imprint_layer(flat[-PUBLIC:], bins)
    draw = np.random.default_rng(5)
    for batch in (8, 32):
        recovered = total = 0
        for start in range(0, len(flat) - PUBLIC - batch, batch):
            records = flat[start : start + batch]
            active = records @ weights.T + biases > 0
            signals = draw.normal(size=batch)  # what the rest of the model sends back to all units of the layer
            weight_gradients = (active * signals[:, None]).T @ records
            result = closed_form.imprinted_inputs(weight_gradients, (active * signals[:, None]).sum(axis=0))
            if len(result):
                errors = np.sqrt(((records[:, None] - result[None]) ** 2).mean(axis=2)).min(axis=1)
                recovered += int((errors < 1e-3).sum())
            total += batch
        layer = f"imprint layer of {bins} brightness bins (malicious server)"
        rows.append(f"| {layer}, batches of {batch} | {recovered} of {total} records |")
    return rows


def smooth_leakage(data: Problem) -> str:
    model, chosen = smooth(data.shape, 2), slice(0, 4)
    weights = name_weights(model)
    observed = matching.model_gradients(model, weights, data.inputs[chosen, None], data.labels[chosen, None])
    released = Released(model=model, weights=weights, gradients=observed, labels=data.labels[chosen, None], shape=data.shape)
    result = DeepLeakage().reconstruct(released, torch.Generator().manual_seed(0))[:, 0].numpy()
    quality = images.psnr(result, data.inputs[chosen].numpy(), 1.0)
    return f"| DLG by L-BFGS (300 iterations), sigmoid network, 4 targets | {', '.join(f'{q:.1f}' for q in quality)} dB |"


def peers(data: Problem, iterations: int, sources: Path, store: Path) -> list[str]:
    """The project's attack and those of other packages on the same gradients of single records."""
    model, chosen = convolutional(data, 0), slice(0, data.targets)
    weights = name_weights(model)
    observed = matching.model_gradients(model, weights, data.inputs[chosen, None], data.labels[chosen, None])
    released = Released(model=model, weights=weights, gradients=observed, labels=data.labels[chosen, None], shape=data.shape)
    return gradient_peers.section(released, data.inputs[chosen], iterations, sources, store)


def matched_batches(data: Problem, batch: int) -> str:
    """Mean gradients of whole batches, each reconstruction compared with the record that it is matched with."""
    model, batches = convolutional(data, 0), BATCHED // batch
    weights = name_weights(model)
    inputs = data.inputs[:BATCHED].reshape(batches, batch, *data.shape)
    classes = data.labels[:BATCHED].reshape(batches, batch)
    observed = matching.model_gradients(model, weights, inputs, classes)
    released = Released(model=model, weights=weights, gradients=observed, labels=classes, shape=data.shape)
    result = InvertingGradients(iterations=300).reconstruct(released, torch.Generator().manual_seed(0)).numpy()
    rows = [part[images.best_match(part, truth)] for part, truth in zip(result, inputs.numpy(), strict=True)]
    quality = images.psnr(np.concatenate(rows), data.inputs[:BATCHED].numpy(), 1.0)
    return (
        f"| matching (300 iterations), batches of {batch}, labels known, best match by assignment | "
        f"{quality.mean():.1f} dB ({quality.min():.1f} to {quality.max():.1f}) |"
    )


def gallery(data: Problem, pictures: dict[float, Tensor], path: Path) -> None:
    import matplotlib.pyplot as plt

    count = min(8, data.targets)
    lines = [
        ("original", data.inputs[:count]),
        *((f"noise {noise:g}" if noise else "no DP", pictures[noise]) for noise in SHOWN),
    ]
    figure, axes = plt.subplots(len(lines), count, figsize=(count, len(lines) * 1.05))
    for row, (name, records) in zip(axes, lines, strict=True):
        for axis, record in zip(row, records[:count], strict=True):
            picture = record.permute(1, 2, 0).numpy()
            axis.imshow(picture if picture.shape[2] == 3 else picture[..., 0], vmin=0, vmax=1, cmap="gray")
            axis.set(xticks=[], yticks=[])
        row[0].set_ylabel(name, fontsize=8)
    figure.tight_layout(pad=0.3)
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--images", type=Path)
    parser.add_argument("--targets", type=int, default=16)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--peers", type=Path)
    parser.add_argument("--store", type=Path, default=Path("runs") / "reconstruction", help="of the peers' results")
    parser.add_argument("--docs", type=Path, default=Path("docs"))
    options = parser.parse_args()
    sections, shown = [], {}
    for path in [None, *([options.images] if options.images is not None else [])]:
        data = problem(path, options.targets)
        closed = closed_forms(data)
        print("\n".join(closed), flush=True)
        rows, pictures = noise_table(data, options.iterations)
        shown[data.name] = data, pictures
        sections.append(SECTION.format(data=data.name, closed="\n".join(closed), rows="\n".join(rows)))
    sections.append(KKT.format(rows="\n".join(kkt.section())))
    if options.peers is not None:
        rows = peers(list(shown.values())[-1][0], options.iterations, options.peers, options.store)
        sections.append(PEERS.format(data=list(shown)[-1], iterations=options.iterations, rows="\n".join(rows)))
    gallery(*list(shown.values())[-1], options.docs / "images" / "reconstruction.png")
    page = PAGE.format(
        command=f"--iterations {options.iterations}"
        + ("" if options.images is None else f" --images {options.images.name}")
        + ("" if options.peers is None else " --peers SOURCES"),
        machine=platform.machine(),
        torch=torch.__version__,
        candidates=CANDIDATES,
        draws=DRAWS,
        iterations=options.iterations,
        fewer=FEWER,
        pictures=list(shown)[-1],
        sections="\n".join(sections),
    )
    (options.docs / "evidence" / "reconstruction.md").write_text(page)


SECTION = """## {data}

Without noise and in closed form, or by L-BFGS:

| attack | result |
|---|---|
{closed}

Gradient matching and noise:

| noise | matching, PSNR in dB | SSIM | nearest right | prior-aware right | bound | mu | mu proved |
|---|---|---|---|---|---|---|---|
{rows}
"""

KKT = """## From the weights of a ReLU network (KKT attack)

{rows}

Two layers, trained by full-batch gradient descent far beyond a loss of 0, five networks each. The attack knows the weights and
the range, no record. A record counts by its distance to the nearest candidate; "never seen" are records of the same law.
Half of the points of the plane come back to within 0.04. Of 20 digits about one does roughly: its candidate is nearer
to it than any is to 980 digits never seen, which by chance happens to one in a thousand; to the other digits candidates are
hardly nearer than to these. Weights that see few nearly orthogonal records tend to rank two, which leaves more unknowns
than equations, and other candidates explain them as well. Pixels are less the mean of public records: less the mean of the
training records, as the paper has them, an image of zeros alone is nearer to these than to others. The distances prove no
epsilon, and no report counts this attack as run.
"""

PEERS = """## Beside other packages, on the same gradients

{rows}

{data}, single records, labels known, no clipping and no noise, {iterations} iterations for each target; PSNR with data range 1,
computed here. The project moves all targets at once, the others one after the other, by their own code (LeakPro c47752f,
breaching 8bd99d5) in their own coordinates, which are standardised pixels. LeakPro would return the best by similarity to the
truth; the one of least distance of gradients is taken. Their default numbers of iterations, 8,000 and 24,000, were not run.
CPU seconds are of a busy machine, one thread. On this fresh network the project is far ahead of breaching (on trained
networks it is behind, below), and level with LeakPro within the standard
error, at a third of its processor time; on the first four targets it is a decibel ahead, which the others do not bear out.
"""

PAGE = """# Reconstruction from gradients

What attacks rebuild from one record's gradient, and what the noise on it allows any attack. Written by

    OMP_NUM_THREADS=1 python benchmarks/reconstruction.py {command}

with torch {torch} on {machine}. Labels are known to the attacker; the model is fresh unless said otherwise; the truth is never
looked at by an attack, neither to stop nor to choose.

Gradients are clipped to norm 1; noise is its standard deviation on each coordinate. `matching` inverts gradients (cosine
distance, total variation that decays, plain Adam, {iterations} iterations, with noise {fewer} times fewer); `nearest` names the
candidate of {candidates} that is nearest to the reconstruction; `prior-aware` names the candidate of largest likelihood given
the noisy gradient ({draws} draws). `bound` is `1 - f(1/{candidates})` of the Gaussian mechanism with mu = 1 / noise: no attack
names the record more often ([proof](../theory/secrets.md#reconstruction)). The last column is what the prior-aware successes
prove of mu at 95 %.

Attacks by optimisation fail where the bound still allows everything; naming among known candidates does not. At noise 0.5 and
above only the prior-aware attack proves anything. A picture that nobody can recognise is no evidence of privacy. Label counts
rest on one mean probability for all records, which training undoes: they hold for fresh models only. The imprint layer changes
the model; an honest server does not do that.

The informed adversary knows every other training record and the released weights of a convex model: what is missing in
the sum of gradients is the record's own gradient. A little noise on the weights ends it, since what it adds to the sum
is divided by the record's own small error. Model inversion shows what a class looks like to the model: its result is as
near to records that were never trained on as to members, so it is evidence about no record. Updates of several local
steps are inverted by simulating these steps; taken for a gradient they give nothing, and records that take turns at a
large learning rate are barely seen either (compare a grey image, below).

{sections}
![{pictures}: originals, reconstructions without noise and with three noise levels](../images/reconstruction.png)
"""


if __name__ == "__main__":
    main()
