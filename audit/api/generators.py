"""A generator of synthetic tables against the epsilon that it claims: coins decide which canaries are in its table."""

from __future__ import annotations

import shlex
import subprocess
import tempfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from audit.api.training import CheckTerms, TrainingReport, check_system, check_training, make_claim
from audit.core.errors import ConfigError, DataError
from audit.core.seeds import Seed, new_seed

if TYPE_CHECKING:
    import pandas as pd

PLACES = ("{input}", "{output}")
TEXT_FORM = "generate(texts, seed) -> texts"
LINE_LIMIT = 5  # of what a command that failed wrote last


def check_generator(
    generate: Callable[..., Any] | str,
    training: str | Path | pd.DataFrame,
    *,
    epsilon: float,
    delta: float = 1e-5,
    canaries: int | pd.DataFrame = 200,
    kinds: tuple[str, ...] = ("rare", "extreme", "duplicated"),
    worst_case: str = "",
    categorical: tuple[str, ...] = (),
    runs: int = 1,
    references: int = 8,
    confidence: float = 0.95,
    seed: int | None = None,
    title: str = "",
    command: str = "audit.check_generator",
) -> TrainingReport:
    """Hold a generator of synthetic tables against its claim; a bound on epsilon, a verdict, a report.

    Args:
        generate: `generate(table, seed) -> table` of pandas frames; or a command with `{input}` and `{output}`, which are
            replaced by a CSV with the records and the CSV that it is to write, and `{seed}` if it takes one.
        training: records of every run: a frame, or a CSV or Parquet file.
        epsilon, delta: claimed for adding or removing one record.
        canaries: how many are made (`attacks.tables.canaries`), or a frame of your own. With a single one and many `runs` the
            game is the worst case of that record, such as one that alone moves the range of a column.
        kinds: of canaries that are made: "rare", "extreme", "duplicated", and "unseen", which have categories of their own.
        worst_case: "mixed", "repeated" or "domain" (`attacks.tables.canaries`): a table and one canary that are made of
            `training`, in many `runs`.
        categorical: columns of numbers that are names.
        references: shadow generators: further tables, by independent coins, from which the law of each canary's scores is
            learned. 0 adds up three of the scores (`attacks.tables.membership`).

    Guarantee: as of `audit.check_training`.

    Raises:
        ConfigError: a command without its places, or a worst case in fewer than two runs.
        DataError: the command failed, or its table has other columns; the message names which.
    """
    from attacks.tables.canaries import make_canaries
    from attacks.tables.canaries import worst_case as make_worst_case
    from attacks.tables.columns import require_records
    from attacks.tables.membership import membership_scores
    from audit.api.table_risks import read_side
    from audit.experiment.external.system_game import Rounds, SystemUnderTest

    table = read_side(training, "training")[0].reset_index(drop=True)
    require_records(table, "training")
    root = new_seed() if seed is None else seed
    records = canaries
    generator = Seed(root).child("table canaries").numpy()
    if worst_case:
        if runs < 2:
            raise ConfigError(f"runs is {runs} for the one canary of worst_case '{worst_case}'; a bound needs many, such as 60")
        table, records = make_worst_case(table, worst_case, generator)
    elif isinstance(canaries, int):
        records = make_canaries(table, canaries, generator, kinds)

    def score(synthetic: Any, candidates: Any) -> Any:
        if not hasattr(synthetic, "columns"):
            raise DataError(f"generate gave a {type(synthetic).__name__}; expected generate(table, seed) -> table, a frame")
        columns = membership_scores(synthetic, table, candidates, categorical)
        return columns if references else columns[:, [0, 1, 3]].sum(axis=1)

    system = SystemUnderTest(
        train=_Command(generate) if isinstance(generate, str) else generate,
        train_name="generate",
        score=score,
        data=table,
        canaries=records,
    )
    claim = make_claim(epsilon, delta)
    terms = CheckTerms(claim=claim, confidence=confidence, seed=root, title=title, command=command, log_odds=True)
    return check_system(system, Rounds(runs=runs, references=references), terms)


def check_text_generator(
    generate: Callable[[list[str], int], Any],
    texts: Sequence[str],
    *,
    epsilon: float,
    delta: float = 1e-5,
    canaries: int | Sequence[str] = 200,
    copies: int = 1,
    references: int = 8,
    confidence: float = 0.95,
    seed: int | None = None,
    title: str = "",
) -> TrainingReport:
    """Hold a generator of synthetic texts against its claim, by what its texts alone say of canaries.

    Args:
        generate: `generate(texts, seed) -> texts`: a list of them, or one text with a line for each.
        texts: of every run.
        epsilon, delta: claimed for adding or removing a text; `copies` of each canary are one text of the claim, which then has
            to cover all of them (a user's).
        canaries: how many are made (`attacks.tables.canaries`), or your own.
        references: shadow generators that teach how both scores go together; 0 takes the ratio of bigram models alone.

    Guarantee: as of `audit.check_training`.
    """
    from attacks.tables.canaries import make_text_canaries, text_scores
    from audit.data.row_containers import describe
    from audit.experiment.external.model_calls import call_argument

    root, public_texts = new_seed() if seed is None else seed, list(texts)
    if isinstance(canaries, int):
        canaries = make_text_canaries(public_texts, canaries, Seed(root).child("text canaries").numpy())

    def train(groups: list[list[str]], run_seed: int) -> list[str]:
        arguments = ([text for group in groups for text in group], run_seed)
        synthetic = call_argument(generate, arguments, "generate", TEXT_FORM)
        rows = synthetic.splitlines() if isinstance(synthetic, str) else synthetic
        rows = list(rows) if isinstance(rows, Iterable) else [rows]
        if not all(isinstance(text, str) for text in rows):
            raise DataError(f"generate gave {describe(synthetic)}; expected {TEXT_FORM}, a list of texts")
        return rows

    train.__module__ = str(getattr(generate, "__module__", train.__module__))  # a report names the function of the user
    train.__qualname__ = str(getattr(generate, "__qualname__", type(generate).__name__))

    def score(synthetic: list[str], groups: list[list[str]]) -> Any:
        columns = text_scores(synthetic, public_texts, [group[0] for group in groups])
        return columns if references else columns[:, 0]

    return check_training(
        train,
        [[text] for text in public_texts],
        [[text] * copies for text in canaries],
        epsilon=epsilon,
        delta=delta,
        references=references,
        confidence=confidence,
        seed=root,
        score=score,
        title=title or getattr(generate, "__name__", ""),
        command="audit.check_text_generator",
    )


class _Command:
    """A generator that is a command; called as a function of a table."""

    def __init__(self, text: str) -> None:
        missing = [place for place in PLACES if place not in text]
        if missing:
            raise ConfigError(f"generate is '{text}', without {' and '.join(missing)}; expected 'COMMAND {' '.join(PLACES)}'")
        try:
            self.words = shlex.split(text)
        except ValueError as error:
            raise ConfigError(f"generate is '{text}', which no shell reads: {error}; close each quotation mark") from error
        self.text, self.__name__ = text, self.words[0]

    def __str__(self) -> str:
        return self.text

    def __call__(self, table: pd.DataFrame, seed: int) -> pd.DataFrame:
        from audit.api.table_risks import read_side

        with tempfile.TemporaryDirectory() as folder:
            source, target = Path(folder) / "input.csv", Path(folder) / "output.csv"
            table.to_csv(source, index=False)
            places = {"{input}": str(source), "{output}": str(target), "{seed}": str(seed)}
            words = [_fill(word, places) for word in self.words]
            try:
                process = subprocess.run(words, capture_output=True, text=True, check=False)
            except OSError as error:
                raise ConfigError(f"generate: '{words[0]}' cannot be run: {error}") from error
            if process.returncode or not target.exists():
                end = " / ".join(process.stderr.strip().splitlines()[-LINE_LIMIT:]) or "it wrote nothing to stderr"
                raise DataError(
                    f"generate: '{words[0]}' ended with exit code {process.returncode} and no table at {{output}}: {end}"
                )
            frame: pd.DataFrame = read_side(target, "synthetic")[0]
            return frame


def _fill(word: str, places: dict[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(place, value)
    return word
