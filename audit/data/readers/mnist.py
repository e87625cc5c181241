"""MNIST in its published files."""

from __future__ import annotations

from dataclasses import dataclass

from audit.data import typed
from audit.data.readers._idx import read_idx
from audit.data.source import Source


@dataclass(frozen=True, slots=True, kw_only=True)
class Mnist:
    """The folder with the four idx files of MNIST, directly or under `raw`."""

    path: str = "MNIST"
    root: str = "."

    def __post_init__(self) -> None:
        typed.text(path=self.path, root=self.root)

    def read(self) -> Source:
        """Return both parts, pixels as uint8."""
        return read_idx(self.root, self.path, "MNIST")


PLUGIN = Mnist
