"""Tests; not installed."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "benchmarks"))  # a folder of commands, some of which tests import
