"""A reader of the external edition who tries to learn who was in the training set, and how: replaying, guessing, counting."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import reports
from audit.checks.membership import draw_coins
from audit.core.game_results import AttackResult, GroupResult, GuessResult, Histogram
from audit.core.results import AuditReport, Check, GateResult, Status
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.external.inspection import Settings, inspect, inspect_outputs, record_name
from reports.editions import external as editions
from reports.editions import thresholds
from reports.editions.external import SMALLEST_GROUP, external
from reports.formats import pdf
from reports.formats.json import to_json
from reports.tables.game import rates
from tests.marks import slow
from tests.reports import sample

COUNT, SEED, OTHER_SEED = 400, 4711, 83_123
COINS = draw_coins(COUNT, SEED)
COMMAND = "audit model --target /home/somebody/net.pt2 --randomised-seed 4711 --seed 83123"


@cache
def audited(kind: str) -> tuple[AuditReport, Settings]:
    """A trained model that leaks, or its recorded outputs, audited by coins, with every secret in a place of its own."""
    generator = np.random.default_rng(5)
    x, y = generator.normal(size=(COUNT, 3)).astype(np.float32), generator.integers(0, 4, COUNT)
    logits = generator.normal(size=(COUNT, 4))
    logits[np.arange(COUNT), y] += 3 * COINS
    settings = Settings(
        randomised_seed=SEED,
        seed=OTHER_SEED,
        claim_epsilon=2.0,
        command=COMMAND,
        title="net-of-somebody.pt2",
        model="net-of-somebody.pt2 (torch_export, sha256 " + "ab" * 32 + ")",
        certificates=0,
        created="2026-01-15T12:00:00Z",
    )
    if kind == "outputs":
        view = View.of(labels=y, logits=logits)
        return inspect_outputs(view, COINS, settings, index=np.arange(COUNT), source=("who.csv", "cd" * 32)), settings
    answers = {row.tobytes(): out for row, out in zip(x, logits, strict=True)}
    sides = [{"x": x[side], "y": y[side], "index": np.flatnonzero(side)} for side in (COINS, ~COINS)]
    return inspect(lambda rows: np.stack([answers[row.tobytes()] for row in rows]), *sides, settings), settings


@cache
def files(kind: str, edition: str) -> dict[str, bytes]:
    report = audited(kind)[0]
    return reports.render(external(report) if edition == "external" else report, ("pdf", "json", "sarif", "junit"))


def text_of(content: dict[str, bytes]) -> str:
    """Everything that a reader sees or can take out of the files: pages, metadata, attachments, and the bytes themselves."""
    pypdf = pytest.importorskip("pypdf", reason="reading PDFs needs the extra 'dev'")
    import io

    document = pypdf.PdfReader(io.BytesIO(content["report.pdf"]))
    pages = [page.extract_text() for page in document.pages]
    metadata = [str(document.metadata), str(document.xmp_metadata and document.trailer["/Root"]["/Metadata"].get_data())]
    attached = [pdf.attachment(content["report.pdf"]).decode()]
    raw = [body.decode("latin-1") for body in content.values()]
    return "\n".join([*pages, *metadata, *attached, *raw])


def seeds_in(text: str) -> Iterator[int]:
    for found in set(re.findall(r"\d{1,3}(?:,\d{3})+|\d+", text)):
        number = int(found.replace(",", ""))
        if number < 2**63:
            yield number


def recovered(text: str) -> list[int]:
    """The seeds in the text from which the memberships follow, in one of the ways in which this package draws coins."""
    found = []
    for seed in seeds_in(text):
        streams = (draw_coins(COUNT, seed), Seed(seed).child("coins").numpy().random(COUNT) < 0.5)
        if any(np.mean(coins == COINS) > 0.65 for coins in streams):
            found.append(seed)
    return found


def values(node: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(node, dict):
        for name, inner in node.items():
            yield from values(inner, name)
    elif isinstance(node, list):
        for inner in node:
            yield from values(inner, key)
    else:
        yield key, node


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["model", "outputs"])
def test_no_seed_in_the_external_edition_draws_the_coins_again(kind: str) -> None:
    assert recovered(text_of(files(kind, "internal"))) == [SEED], "the reader is too weak: this test would prove nothing"
    assert recovered(text_of(files(kind, "external"))) == []


@pytest.mark.parametrize("kind", slow(["model", "outputs"], ["outputs"]))
def test_no_row_names_a_record_and_no_dictionary_opens_a_name(kind: str) -> None:
    report, settings = audited(kind)
    names = {record_name(settings.record_key or b"", row) for row in range(COUNT)}
    inside, outside = text_of(files(kind, "internal")), text_of(files(kind, "external"))
    shown = {record.record for record in report.mechanisms[0].games[0].records}
    assert shown <= names and shown and all(name in inside for name in shown)
    assert not any(name in outside for name in names)
    for text in (inside, outside):
        assert (settings.record_key or b"").decode() not in text
    guesses = {record_name(f"{seed:032x}".encode(), row) for seed in (0, SEED, OTHER_SEED) for row in range(COUNT)}
    plain = {
        hashlib.sha256(f"{seed}:{row}".encode()).hexdigest()[:10] for seed in (0, SEED, OTHER_SEED) for row in range(COUNT)
    }
    assert not shown & (guesses | plain)


@pytest.mark.parametrize("kind", ["model", "outputs"])
def test_no_hash_lets_a_guess_be_checked_and_no_name_points_at_somebody(kind: str) -> None:
    report = audited(kind)[0]
    text = text_of(files(kind, "external"))
    plain = json.loads(files(kind, "external")["report.json"])
    assert not re.search(r"\b[0-9a-f]{40,}\b", files(kind, "external")["report.json"].decode()), "a hash is a commitment"
    assert report.provenance.config_sha256[:8].upper() not in text
    assert plain["provenance"]["seed"] is None
    assert all(value is None for key, value in values(plain) if key == "seed")
    content = files(kind, "external")["report.json"].decode()
    for word in ("somebody", "who.csv", "--", "/home", "net.pt2"):
        assert word not in content, word
    for seed in (SEED, OTHER_SEED):  # as a number of its own, not among the digits of another
        assert not re.search(rf"(?<![\d.]){seed}(?!\d)", content), seed


def told_thresholds(attack: AttackResult) -> list[int]:
    """How many records lie above each threshold that a reader knows, from whichever table: their differences are groups."""
    curve, bins = attack.roc, attack.histogram
    counts = np.asarray(curve.tpr) * curve.members + np.asarray(curve.fpr) * curve.nonmembers
    above = np.cumsum(np.add(bins.members, bins.nonmembers)[::-1])
    rates = [(rate.true_positives or 0) + (rate.false_positives or 0) for rate in attack.tpr_at]
    return sorted({0, *counts.round().astype(int).tolist(), *above.tolist(), *rates})


def small_attack(draw: int) -> AttackResult:
    """An attack on 20 to 2,000 records, at thresholds of which many lie close together."""
    generator = np.random.default_rng(draw)
    size = int(generator.choice([10, 40, 200, 1000]))
    members, nonmembers = generator.normal(1, 1, size).round(1), generator.normal(0, 1, size).round(1)
    attack = sample.run().mechanisms[0].games[0].attacks[0]
    cuts = np.r_[np.inf, np.unique(np.r_[members, nonmembers])[::-1]]
    found, alarms = ((side[None] >= cuts[:, None]).sum(axis=1) for side in (members, nonmembers))
    shares = {"tpr": tuple((found / size).tolist()), "fpr": tuple((alarms / size).tolist())}
    last = [int(np.flatnonzero(alarms <= target * size)[-1]) for target in (0.1, 0.01, 0.001)]
    counts = [(int(found[index]), int(alarms[index])) for index in last]
    edges = np.linspace(-3, 4, 31)
    bins = [tuple(np.histogram(side.clip(-3, 4), edges)[0].tolist()) for side in (members, nonmembers)]
    return replace(
        attack,
        roc=replace(attack.roc, lower=shares["tpr"], upper=shares["tpr"], members=size, nonmembers=size, **shares),
        tpr_at=tuple(
            replace(rate, true_positives=hits, false_positives=misses, tpr=hits / size)
            for rate, (hits, misses) in zip(attack.tpr_at, counts, strict=True)
        ),
        histogram=Histogram(edges=tuple(edges.tolist()), members=bins[0], nonmembers=bins[1]),
    )


@pytest.mark.parametrize("kind", sample.ALL)
def test_nothing_speaks_of_fewer_than_ten_records(kind: str) -> None:
    for mechanism in external(sample.ALL[kind]()).mechanisms:
        for game in mechanism.games:
            assert game.records == ()
            assert all(min(group.members, group.nonmembers) >= SMALLEST_GROUP for group in game.groups)
            assert game.watched is None or game.watched.evidence == ()
            for attack in game.attacks:
                assert min(np.diff(told_thresholds(attack))) >= SMALLEST_GROUP


def test_no_two_tables_of_an_attack_differ_by_a_few_records() -> None:
    attacks = [small_attack(draw) for draw in range(60)]
    assert all(min(np.diff(told_thresholds(attack))) < SMALLEST_GROUP for attack in attacks), "the reader is too weak"
    editions = [thresholds.coarse(attack) for attack in attacks]
    for edition in editions:
        assert min(np.diff(told_thresholds(edition))) >= SMALLEST_GROUP
    assert sum(rate.tpr is not None for edition in editions for rate in edition.tpr_at) > len(editions) / 2
    assert sum(len(edition.roc.fpr) > 4 for edition in editions) > len(editions) / 2


@pytest.mark.parametrize("rate", [0.001, 0.01])
def test_no_gate_tells_a_rate_that_its_row_holds_back(rate: float) -> None:
    report = sample.run()
    mechanism = report.mechanisms[0]
    attack = mechanism.games[0].attacks[0]
    row = next(row for row in attack.tpr_at if row.target_fpr == rate)
    few = replace(row, true_positives=3, false_positives=1, tpr=3 / attack.roc.members)
    games = (replace(mechanism.games[0], attacks=(replace(attack, tpr_at=(few,)),)),)
    gate = GateResult(gate="max_tpr_at_1_percent_fpr", limit=0.05, found=few.tpr, met=True)
    changed = replace(report, mechanisms=(replace(mechanism, games=games),), policy=(gate, *report.policy))
    outside = external(changed)
    assert outside.policy == (replace(gate, found=None), *report.policy)
    game = outside.mechanisms[0].games[0]
    assert game.attacks[0].tpr_at[0].tpr is None
    assert [row[2] for row in rates(game, with_claim=False).rows] == ["withheld"]


def test_groups_that_are_left_tell_no_small_one_by_their_total() -> None:
    def group(name: str, members: int, nonmembers: int) -> GroupResult:
        return GroupResult(group=name, members=members, nonmembers=nonmembers, auc=0.5, accuracy=0.5)

    def kept(*groups: GroupResult) -> list[str]:
        return [row.group for row in editions._groups(groups)]

    classes = (group("0", 40, 40), group("1", 12, 30), group("2", 3, 50))
    assert kept(*classes) == ["0"], "class 2 would have 3 members, by the total"
    assert kept(*classes[:2]) == ["0", "1"]
    assert kept(*classes, group("3", 8, 60)) == ["0", "1"], "what is left out holds 11"
    assert kept(*classes, group("group a", 11, 12), group("group b", 44, 100)) == ["0", "group a", "group b"]
    assert kept(group("0", 40, 40), group("1", 1, 1)) == []


def test_values_of_secrets_do_not_follow_from_counts() -> None:
    def imputed(count: int) -> int | None:
        row = GuessResult(secrets=40, right=20, lower=0.3, upper=0.7, baseline=0.5, imputed=count)
        return editions._guesses(row).imputed

    assert [imputed(count) for count in (0, 3, 10, 30, 31, 40)] == [None, None, 10, 30, None, None]


@pytest.mark.parametrize("value", ["person-17", "Smith; Anna, so nothing is said of such records; born 1980"])
def test_remarks_name_no_group_no_path_and_no_host(value: str) -> None:
    report = sample.run()
    (mechanism, *others) = report.mechanisms
    absences = [f"no canary is of {values}, so nothing is said of such records" for values in ("class 7", f"group {value}")]
    note = "; ".join(["'auto' took rmia", *absences])
    games = (replace(mechanism.games[0], note=note), *mechanism.games[1:])
    places = r"/home/somebody/people.csv, C:\data\x.csv, ~/y.csv and http://host.example:80/v1"
    declared = f"Outside the claim: tuned on {places} by hand."
    check = Check(code="own", item="Own", value="read from /srv/people, TPR/FPR and 1/n stay", status=Status.DECLARED)
    changed = replace(mechanism, games=games, checks=(*mechanism.checks, check))
    outside = external(replace(report, mechanisms=(changed, *others), notes=(*report.notes, declared)))
    content = to_json(outside).decode()
    for word in (value.partition(",")[0], "Anna", "born", "somebody", "people", "x.csv", "y.csv", "host.example"):
        assert word not in content, word
    for text in ("'auto' took rmia; some groups have no canary", "TPR/FPR and 1/n stay", "by hand"):
        assert text in content, text


def test_bins_keep_their_counts_whatever_they_are_merged_into() -> None:
    generator = np.random.default_rng(0)
    for count in (5, 40, 400, 40_000):
        edges = tuple(np.linspace(-3, 3, 41).tolist())
        sides = [np.histogram(np.clip(generator.normal(shift, 1, count), -3, 3), edges)[0].tolist() for shift in (0, 1)]
        merged = thresholds._histogram(Histogram(edges=edges, members=tuple(sides[0]), nonmembers=tuple(sides[1])))
        assert (sum(merged.members), sum(merged.nonmembers)) == (count, count)
        assert len(merged.edges) == len(merged.members) + 1
        assert np.allclose(np.diff(merged.edges), merged.edges[1] - merged.edges[0])


def test_a_title_of_the_owner_makes_no_report_an_external_edition() -> None:
    for kind in (sample.run, sample.model, sample.scores):
        report = kind()
        assert external(replace(report, title=f"{report.title} (external edition)")) == external(report)


def test_the_external_edition_is_the_same_twice_and_its_name_follows_from_itself_alone() -> None:
    report = audited("model")[0]
    outside = external(report)
    assert external(report) == outside == external(outside)
    other = replace(
        report, id="PA-12345678", provenance=replace(report.provenance, seed=1, config_sha256="0" * 64), config="seed: 1"
    )
    assert external(other).id == outside.id != report.id
    assert external(report, "Model 7").title == "Model 7 (external edition)"


def test_the_edition_that_lists_records_says_so_on_its_cover() -> None:
    report = audited("model")[0]
    assert "INTERNAL" in text_of(files("model", "internal"))
    assert "INTERNAL" not in text_of(files("model", "external"))
    assert report.mechanisms[0].games[0].records
