"""The external edition says the same of two audits that differ only in members, drawn values and seeds.

A reader who holds the edition then learns nothing of them beyond the figures that both audits share, whatever the game was.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from audit.core.game_results import GameResult, GroupResult, GuessResult, RecordExposure, TriggerResult
from audit.core.results import AuditReport
from reports.editions.external import SMALLEST_GROUP, external
from reports.formats import html, json
from tests.marks import slow
from tests.reports import sample

GUESSES = GuessResult(
    secrets=400, right=129, baseline=0.1, lower=0.27, upper=0.37, allowed=0.35, imputed=35, exposure=1.97, null_exposure=1.14
)
TRIGGER = TriggerResult(
    records=40, hits_with=55, with_records=79, hits_without=12, without_records=81, accuracy=0.9, allowed=1.0
)
GAMES: dict[str, dict[str, Any]] = {
    "secrets": {"choices": 10, "secret": "attribute"},
    "property": {"choices": 2, "secret": "property", "copies": 60},
    "backdoor": {"aim": "backdoor", "copies": 4},
    "federated": {"canary": "canary clients whose whole update is a signed cosine"},
    "cohorts": {"canary": "canary clients", "copies": 3},
}


def audited(kind: str, draw: int) -> AuditReport:
    """An audit of that kind whose secrets, and nothing else, follow from `draw`."""
    generator = np.random.default_rng(draw)
    report = sample.run()
    mechanisms = tuple(
        replace(mechanism, games=tuple(_with_secrets(game, kind, generator) for game in mechanism.games))
        for mechanism in report.mechanisms
    )
    seed = int(generator.integers(2**31))
    text = f"seed: {seed}\ndata: {{path: /home/clinic/{draw}.csv}}\n"
    return replace(
        report,
        mechanisms=mechanisms,
        config=text,
        settings=(("seed", str(seed)), ("data.path", f"/home/clinic/{draw}.csv")),
        config_lines=(("seed", 1 + draw),),
        provenance=replace(
            report.provenance, seed=seed, command=f"audit run /home/clinic/{draw}.yaml", config_sha256=f"{seed:064x}"
        ),
    )


def _with_secrets(game: GameResult, kind: str, generator: np.random.Generator) -> GameResult:
    attacks = tuple(
        replace(
            attack,
            guesses=GUESSES if "choices" in GAMES[kind] else None,
            bounds=tuple(replace(bound, seed=int(generator.integers(2**31))) for bound in attack.bounds),
        )
        for attack in game.attacks
    )
    records = tuple(
        RecordExposure(
            record=f"{generator.integers(16**12):012x}",
            label=str(generator.integers(10)),
            score=float(generator.normal()),
            rank=rank + 1,
            fpr=float(generator.random()),
            member=bool(generator.random() < 0.5),
        )
        for rank in range(12)
    )
    few = [int(number) for number in generator.integers(1, SMALLEST_GROUP, 2)]
    small = GroupResult(
        group="ward 7", members=few[0], nonmembers=few[1], auc=float(generator.random()), accuracy=float(generator.random())
    )
    return replace(
        game,
        game=replace(game.game, **GAMES[kind]),
        attacks=attacks,
        records=records,
        groups=(*game.groups, small),
        trigger=TRIGGER if kind == "backdoor" else None,
    )


@pytest.mark.parametrize(
    ("field", "count", "shown"),
    [
        ("hits_with", 9, False),
        ("hits_with", 10, True),
        ("hits_without", 1, False),
        ("hits_without", 0, True),
        ("with_records", 9, False),
        ("without_records", 9, False),
        ("without_records", 14, False),
        ("without_records", 22, True),
        ("hits_with", 70, False),
        ("hits_with", 69, True),
        ("hits_with", 79, True),
    ],
)
def test_no_count_of_few_triggers_is_shown(field: str, count: int, shown: bool) -> None:
    """Which triggers were answered, where they are few, tells which records were planted, and so do few that were missed."""
    report = audited("backdoor", 0)
    rare = replace(TRIGGER, **{field: count})
    mechanisms = tuple(
        replace(result, games=tuple(replace(game, trigger=rare if game.trigger is not None else None) for game in result.games))
        for result in report.mechanisms
    )
    results = [game.trigger for result in external(replace(report, mechanisms=mechanisms)).mechanisms for game in result.games]
    assert (rare in results) is shown and all(result in (None, rare) for result in results)


@pytest.mark.parametrize("kind", GAMES)
def test_the_edition_depends_on_no_membership_no_value_and_no_seed(kind: str) -> None:
    """Ten audits that differ in all secrets give one edition, byte by byte."""
    editions = {json.to_json(external(audited(kind, draw))) for draw in range(10)}
    assert len(editions) == 1
    assert len({json.to_json(audited(kind, draw)) for draw in range(10)}) == 10


@pytest.mark.parametrize("kind", slow(GAMES, ["backdoor", "cohorts"]))
def test_a_reader_of_every_file_finds_no_name_and_no_place(kind: str) -> None:
    report = audited(kind, 3)
    public = external(report)
    text = json.to_json(public).decode() + html.document(public)
    names = {record.record for mechanism in report.mechanisms for game in mechanism.games for record in game.records}
    assert len(names) > 20 and not [name for name in names if name in text]
    assert "/home" not in text and "ward 7" not in text and str(report.provenance.seed) not in text
