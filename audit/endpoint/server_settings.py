"""Where a server is and how it is asked; keys are named by environment variables, and neither written nor printed."""

import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from audit.core.errors import ConfigError

SECRET_QUERY = re.compile(r"key|token|secret|sig|password|auth", re.IGNORECASE)


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerSettings:
    """Where and how to ask.

    Attributes:
        url: of the server, with its version and, if it needs one, a query: `http://host:8000/v1?api-version=2024-10-21`.
        key_variable: environment variable that holds the key; "" sends none. A key is neither written nor printed.
        headers: further ones, each with the environment variable that holds its value.
        in_flight: requests under way at once.
        timeout: seconds for one answer, from connecting to its last byte.
        attempts: of one request with answers that are faults or broken, at most.
        pause: seconds before the second attempt; each further pause is twice as long, less up to a half by chance.
        patience: seconds that one request may wait in pauses, those included that a busy server asks for.
        most_tokens: that may be paid for, of prompts and answers together; None for no cap.
    """

    url: str
    key_variable: str = ""
    in_flight: int = 16
    timeout: float = 120.0
    headers: tuple[tuple[str, str], ...] = ()
    attempts: int = 8
    pause: float = 0.5
    patience: float = 300.0
    most_tokens: int | None = None

    def __post_init__(self) -> None:
        try:
            parts = urlsplit(self.url)
            _ = parts.port  # raises for a port that is none
        except ValueError as error:
            raise ConfigError(f"the server's URL has the form http://host:port/v1: {error}") from error
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigError(f"the server's URL has the form http://host:port/v1; got scheme '{parts.scheme}'")
        if parts.username or parts.password or SECRET_QUERY.search(parts.query):
            raise ConfigError("the server's URL holds a key; name the variable that holds it in --key-variable or --header")
        if self.in_flight < 1 or self.attempts < 1 or self.patience < 0:
            raise ConfigError(
                f"in_flight is {self.in_flight}, attempts {self.attempts} and patience {self.patience:g}; expected at least 1, "
                "1 and 0"
            )
        for variable in filter(None, [self.key_variable, *(variable for _, variable in self.headers)]):
            if not os.environ.get(variable):
                raise ConfigError(f"the environment has no variable {variable}, or it is empty; set it to the server's key")
            key = os.environ[variable]
            if not (key.isascii() and key.isprintable()):  # http.client would print the whole key if it refuses it
                raise ConfigError(
                    f"the key in {variable} holds a line end or another character that no key has; it is not sent"
                )
        for name, _ in self.headers:
            if not re.fullmatch(r"[A-Za-z0-9-]+", name):
                raise ConfigError(f"header {name!r} is not a name of letters, digits and dashes; expected NAME=VARIABLE")

    @property
    def secrets(self) -> list[str]:
        """Return the values that are never printed."""
        return [os.environ[name] for name in filter(None, [self.key_variable, *(variable for _, variable in self.headers)])]
