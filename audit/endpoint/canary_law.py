"""How canaries are drawn: secrets of a form, each with its own fair coin; and the folder that keeps them."""

import json
import string
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from audit.core import checks, files
from audit.core.errors import ConfigError, DataError, OutputError
from audit.core.seeds import Seed
from audit.endpoint import canary_files
from audit.endpoint.canary_files import CHAT, PLAIN, Context, TextCanary

FILE, COMMITMENT, PLANTED = "canaries.jsonl", "commitment", "planted.jsonl"
# sentence before the secret, and the secret: 9 is a digit that is drawn, a is a letter
SECRETS = {
    "digits": ("The access code of box {} is ", "99999999"),
    "phone": ("The phone number of customer {} is +49 30 ", "9999 9999"),
    "email": ("The private e-mail address of customer {} is ", "aaaaaa.aaaa"),
    "card": ("The credit card of customer {} has the number 4", "999 9999 9999 9999"),
    "identity": ("The identity card of customer {} has the number ", "aa999999a"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class CanaryLaw:
    """What is drawn.

    Attributes:
        count: of canaries, each with a coin.
        decoys: further ones that no coin is about; they are never planted.
        prefix: sentence before the secret; `{}` is the canary's number.
        pattern: of a secret: 9 is replaced by a random digit, a by a random letter.
        context: of all of them.

    Raises:
        ConfigError: fewer than two, a prefix without a place for the number, or a pattern with too few secrets.
    """

    count: int
    decoys: int = 0
    prefix: str = SECRETS["digits"][0]
    pattern: str = SECRETS["digits"][1]
    context: Context = PLAIN

    def __post_init__(self) -> None:
        if self.count < 2 or self.decoys < 0 or self.prefix.count("{}") != 1:
            raise ConfigError(
                f"{self.count} canaries and {self.decoys} decoys with prefix {self.prefix!r}; expected at least 2, no "
                "negative number, and one {} for the canary's number"
            )
        secrets = 10.0 ** self.pattern.count("9") * 26.0 ** self.pattern.count("a")
        if secrets < 20 * (self.count + self.decoys):
            raise ConfigError(f"there are {secrets:,.0f} secrets for {self.count + self.decoys} canaries; use longer ones")

    def draw(self, seed: Seed) -> list[TextCanary]:
        """Return the canaries, half of them included by independent fair coins, and the decoys behind them."""
        generator = seed.child("secrets").numpy()
        coins = seed.child("coins").numpy().random(self.count) < 0.5
        numbers = range(self.count + self.decoys)
        secrets: dict[str, None] = {}
        while len(secrets) < len(numbers):  # a secret that two canaries had would tell of neither
            secrets[self._draw_secret(generator)] = None
        return [
            TextCanary(
                prefix=self.prefix.replace("{}", str(number)),
                secret=secret,
                included=number < self.count and bool(coins[number]),
                decoy=number >= self.count,
                context=self.context,
            )
            for number, secret in zip(numbers, secrets, strict=True)
        ]

    def _draw_secret(self, generator: np.random.Generator) -> str:
        alphabets = {"9": string.digits, "a": string.ascii_lowercase}
        return "".join(
            alphabets[letter][int(generator.integers(len(alphabets[letter])))] if letter in alphabets else letter
            for letter in self.pattern
        )


def make_law(secret: str, count: int, context: Context, decoys: int | None = None) -> CanaryLaw:
    """Return the law of secrets of a usual kind; None takes a decoy for every tenth canary, at least eight."""
    checks.choice(secret, "--secret", tuple(SECRETS))
    prefix, pattern = SECRETS[secret]
    decoys = max(8, count // 10) if decoys is None else decoys
    return CanaryLaw(count=count, decoys=decoys, prefix=prefix, pattern=pattern, context=context)


def digit_canaries(
    count: int, seed: Seed, *, digits: int = 8, prefix: str = SECRETS["digits"][0], decoys: int = 0
) -> list[TextCanary]:
    """Return canaries with random digits as secrets."""
    return CanaryLaw(count=count, decoys=decoys, prefix=prefix, pattern="9" * digits).draw(seed)


def write_folder(canaries: Sequence[TextCanary], salt: str, folder: Path) -> str:
    """Write canaries with coins, their salt, what is to be planted, and the commitment, which is returned.

    Raises:
        DataError: the folder holds canaries already; their coins are never overwritten.
        OutputError: it cannot be written.
    """
    place = folder / FILE
    if place.exists():
        raise DataError(
            f"{place} holds canaries already, and their coins are lost where it is written over; CanaryAudit.of_folder("
            f"{str(folder)!r}) goes back to them, such as to resume a training; name another folder for a new one"
        )
    digest = canary_files.commitment(canaries, salt)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / canary_files.SALT).write_text(salt, encoding="utf-8")
        canary_files.write(canaries, place)
        (folder / COMMITMENT).write_text(f"{digest}\n", encoding="utf-8")
        write_planted(canaries, folder)
    except OSError as error:
        raise OutputError(f"cannot write canaries to '{folder}': {error.strerror}; name another folder") from error
    return digest


def write_planted(canaries: Sequence[TextCanary], folder: Path) -> None:
    """Write the included canaries alone, in an order that says nothing, as whoever trains or serves needs them."""
    lines = [json.dumps(row, ensure_ascii=False) for row in planted_rows(canaries)]
    files.write_whole(folder / PLANTED, "".join(f"{line}\n" for line in lines).encode())


def planted_rows(canaries: Sequence[TextCanary]) -> list[dict[str, object]]:
    """Return a row for each included canary: `messages` of chats, else `text`; sentences for a prompt or for documents."""
    included = shuffle_included(canaries)
    if included and included[0].context.place == "training" and included[0].context.form == CHAT:
        return [{"messages": canary.messages} for canary in included]
    if included and included[0].context.place != "training":
        return [{"text": f"{canary.text}."} for canary in included]
    return [{"text": canary.opening + canary.secret} for canary in included]


def shuffle_included(canaries: Sequence[TextCanary]) -> list[TextCanary]:
    """Return the included canaries in an order that says nothing."""
    included = [canary for canary in canaries if canary.included]
    order = Seed(0).child("order", len(included)).numpy().permutation(len(included))
    return [included[number] for number in order]
