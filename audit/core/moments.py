"""The time that results carry: now, or what SOURCE_DATE_EPOCH states, so that a run can be repeated byte by byte."""

import os
from datetime import UTC, datetime

from audit.core.errors import ConfigError


def timestamp() -> str:
    """Return the time in ISO 8601, UTC, to the second; `ConfigError` if SOURCE_DATE_EPOCH is no number of seconds."""
    epoch = os.environ.get("SOURCE_DATE_EPOCH")
    try:
        time = datetime.now(UTC) if epoch is None else datetime.fromtimestamp(int(epoch), UTC)
    except (ValueError, OverflowError, OSError) as error:
        raise ConfigError(
            f"SOURCE_DATE_EPOCH is {str(epoch)[:40]!r}; expected a number of seconds since 1970, or no such variable"
        ) from error
    return f"{time:%Y-%m-%dT%H:%M:%SZ}"
