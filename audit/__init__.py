"""Privacy auditing for PyTorch: what a training claims, what attacks prove, and how far they could have seen."""

__version__ = "0.1.0"
