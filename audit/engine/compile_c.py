"""C sources of this package, compiled on the machine that runs them."""

import ctypes
import functools
import logging
import os
import shlex
import shutil
import subprocess
import tempfile
from pathlib import Path

log = logging.getLogger(__name__)

_FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-math-errno", "-shared", "-fPIC")
COMPILERS = ("cc", "gcc", "clang", "g++")
_SECONDS = 60


@functools.cache
def library(source: str) -> ctypes.CDLL | None:
    """Return the functions of `source`, a C file in the folder `compiled`; None if it cannot be compiled, which is logged once.

    That there is no compiler is not logged: it is what most machines of users are like, and costs speed alone. It is compiled
    once a process, for its processor, into a folder that is gone when this returns: nothing is kept that another program could
    change. `CC` in the environment names the compiler.
    """
    compiler_command = compiler()
    if compiler_command is None:
        return None
    file = Path(__file__).parent / "compiled" / source
    with tempfile.TemporaryDirectory(prefix="epsilon-audit-") as folder:
        target = Path(folder) / (file.stem + ".so")
        command = [*compiler_command, *_FLAGS, "-o", str(target), "-x", "c", str(file), "-lm"]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True, timeout=_SECONDS)
            return ctypes.CDLL(str(target))
        except (OSError, subprocess.SubprocessError) as error:
            message = str(getattr(error, "stderr", None) or error).strip().splitlines()
            log.warning(
                "%s could not be compiled (%s); going on with torch's kernels", file.name, message[0] if message else error
            )
            return None


def compiler() -> list[str] | None:
    """The command of a C compiler, or None if there is none."""
    variable = os.environ.get("CC")
    if variable:
        return shlex.split(variable)
    path = next((path for path in map(shutil.which, COMPILERS) if path), None)
    return None if path is None else [path]
