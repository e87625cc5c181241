"""Logs of libraries, kept from the screen if this project says the same in its own results."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet_log(name: str, level: int = logging.ERROR) -> Iterator[None]:
    """A scope in which the logger of that name passes on nothing below `level`; afterwards it is as it was."""
    logger = logging.getLogger(name)
    before = logger.level
    logger.setLevel(level)
    try:
        yield
    finally:
        logger.setLevel(before)
