"""Random streams that a model's forward pass moves: torch's (its draws can be repeated), and those of Python and numpy."""

import pickle
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import torch
from torch import Tensor, nn

from audit.core.errors import ConfigError
from audit.core.seeds import Seed
from audit.engine.gradients.trials import CODE_ERRORS, failure, model_name, try_forward
from audit.engine.layers.modes import Modes
from audit.models.build import kept_host_streams, seeded_stream


def refuse_foreign_draws(module: nn.Module, records: Tensor) -> None:
    """Raise `ConfigError` if a forward pass, in training or evaluation mode, draws from Python's or numpy's global stream.

    A draw is seen by the state of its stream, so that one which decides something rare is seen too.
    """
    modes = Modes(module)
    try:
        for mode in ("training", "evaluation"):
            with foreign_streams() as streams_moved:
                try_forward(module, records)
                names = streams_moved()
            if names:
                raise ConfigError(
                    f"{model_name(module)} draws random numbers from the stream of {' and '.join(names)} in {mode} mode, which "
                    "no seed of an audit sets, so that results could not be repeated; draw by torch (torch.rand), which is "
                    "seeded for each model"
                )
            modes.evaluate()
    finally:
        modes.train()


def draws_in_evaluation(module: nn.Module, records: Tensor) -> bool:
    """True if `module`, left in its modes of training, draws from torch's stream in evaluation; raises as `try_forward`."""
    modes = Modes(module)
    modes.evaluate()
    try:
        with torch.no_grad(), seeded_stream(Seed(0)):
            before = torch.get_rng_state()
            module(records)
            return not torch.equal(before, torch.get_rng_state())
    except CODE_ERRORS as error:
        raise ConfigError(failure(module, records, error)) from error
    finally:
        modes.train()


def _states() -> dict[str, bytes]:
    numbers = np.random.get_state()  # noqa: NPY002
    return {"Python's random": pickle.dumps(random.getstate()), "numpy.random": pickle.dumps(numbers)}


@contextmanager
def foreign_streams() -> Iterator[Callable[[], list[str]]]:
    """A scope after which both streams are where they were; yields a function that names those moved since its beginning."""
    before = _states()
    with kept_host_streams():
        yield lambda: [name for name, state in _states().items() if state != before[name]]
