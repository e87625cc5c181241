"""Which seeds a run takes: of 64 bits at least, but for data that are public."""

from audit import plugins
from audit.config.read import Resolution
from audit.core.errors import ConfigError
from audit.core.seeds import SHORTEST_SEED, new_seed


def refuse_short_seed(resolution: Resolution) -> None:
    """Raise `ConfigError` for a seed that can be guessed, unless the data are those of a demonstration."""
    seed, location = resolution.config.seed, dict(resolution.origins).get("seed", "config")
    if seed is None or seed >= SHORTEST_SEED or resolution.is_shipped or _has_public_data(resolution):
        return
    raise ConfigError(
        f"{location}: seed is {seed}, which can be found by trying all numbers below 2**64, and who was a member follows from "
        f"it. Leave the line out (128 bits are then drawn from the system and kept in the run's folder, private/seed), or use "
        f"this one and keep it secret: seed: {new_seed()}"
    )


def _has_public_data(resolution: Resolution) -> bool:
    """Return True for records that a package brings or makes up: who was a member of them is no person's secret."""
    reader = plugins.find(plugins.FOLDERS["readers"], resolution.config.data["kind"], "readers")
    return bool(getattr(reader, "is_public", False))
