"""The figure of docs/evidence/zoo.md: the power of audits against their cost."""

from collections.abc import Sequence
from pathlib import Path


def draw(points: Sequence[tuple[str, float, float]], path: Path) -> None:
    """Write a figure with one point for each audit.

    Args:
        points: name, CPU seconds, and the share of wrong steps that the audit refutes.
        path: of the image; its folder is made.
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 3.4), layout="constrained")
    axes = figure.subplots()
    for name, seconds, share in points:
        axes.plot(seconds, 100 * share, "o", color="#1f4e79")
        axes.annotate(name.strip("`"), (seconds, 100 * share), xytext=(6, 6), textcoords="offset points", fontsize=8)
    axes.set(xscale="log", ylim=(-5, 112), xlabel="CPU seconds per entry (median)", ylabel="wrong steps refuted (%)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.margins(x=0.25)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150, metadata={"Software": None})
