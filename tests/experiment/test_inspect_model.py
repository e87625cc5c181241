"""Auditing a trained model: what is found, when an epsilon follows, and which input is refused."""

from __future__ import annotations

import zlib

import numpy as np
import pytest

from audit.checks import blind
from audit.core.adjacency import Adjacency
from audit.core.claims import Outcome
from audit.core.data import Records
from audit.core.errors import ConfigError, DataError, ObservationError
from audit.core.game import Inclusion
from audit.core.results import Status
from audit.core.seeds import Seed
from audit.core.views import View
from audit.experiment.external.inspection import Settings, draw_coins, examine_outputs, inspect, inspect_scores, record_name

CLASSES = 4


def records(count: int = 400, seed: int = 0):
    generator = np.random.default_rng(seed)
    return generator.normal(size=(count, 6)).astype(np.float32), generator.integers(0, CLASSES, count)


class Memory:
    """A model that is sure of its training records and guesses otherwise; `blur` is the noise on its logits."""

    def __init__(self, x, y, blur: float = 1.0) -> None:
        self.known = {row.tobytes(): label for row, label in zip(x, y, strict=True)}
        self.blur = blur

    def __call__(self, inputs):
        out = np.zeros((len(inputs), CLASSES), np.float32)
        for i, row in enumerate(inputs):
            noise = np.random.default_rng(zlib.crc32(row.tobytes())).normal(size=CLASSES)
            out[i] = self.blur * noise
            if row.tobytes() in self.known:
                out[i, self.known[row.tobytes()]] += 4
        return out


def sides(x, y, coins):
    return (x[coins], y[coins]), (x[~coins], y[~coins])


def attack(report, name="loss"):
    return next(item for item in report.mechanisms[0].games[0].attacks if item.scorer == name)


def check(report, code):
    return next(item for item in report.mechanisms[0].checks if item.code == code)


# ---- a plain split


@pytest.mark.slow
def test_a_split_of_the_training_records_after_the_training_is_remarked_on():
    """Both sides were trained on, so that an AUC of a half would read as safe."""
    x, y = records()
    model = Memory(x, y, blur=0.1)
    later = np.random.default_rng(3).random(len(x)) < 0.5
    split = inspect(model, *sides(x, y, later), Settings(certificates=0))
    assert any("both sides look trained on" in note for note in split.notes)
    assert abs(attack(split).auc - 0.5) < 0.1
    honest = inspect(Memory(x[later], y[later], blur=0.1), *sides(x, y, later), Settings(certificates=0))
    assert not any("both sides look trained on" in note for note in honest.notes)


@pytest.mark.slow
def test_a_leaking_model_is_found_and_no_epsilon_is_stated_for_a_split():
    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    report = inspect(Memory(*members), members, nonmembers)
    result = report.mechanisms[0]
    assert report.kind == "model"
    assert result.games[0].game.inclusion is Inclusion.SPLIT
    assert all(item.bounds == () and item.control is None for item in result.games[0].attacks)
    assert report.outcome is None
    assert any("no epsilon" in note for note in report.notes)
    actual = attack(report)
    assert actual.auc > 0.95
    assert actual.auc_lower > 0.8
    assert {point.target_fpr for point in actual.tpr_at} == {0.1, 0.01, 0.001}
    assert actual.tpr_at[0].tpr > 0.9
    assert actual.tpr_at[2].tpr is None, "FPR 0.1 % is below 1/200 and must not be stated"
    assert check(report, "blind").status is Status.CHECKED
    metrics = {metric.name: metric.value for metric in result.utility}
    assert metrics["accuracy on members"] > 0.95
    assert metrics["accuracy on nonmembers"] < 0.5


@pytest.mark.slow
def test_a_model_that_leaks_nothing_looks_like_chance():
    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    report = inspect(Memory(x[:0], y[:0]), members, nonmembers)
    assert attack(report).auc_lower < 0.5 < attack(report).auc_upper


@pytest.mark.slow
def test_a_model_that_fails_on_its_own_training_records_is_remarked():
    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    untrained = Memory(x[:0], y[:0])
    assert any("always naming the commonest class" in note for note in inspect(untrained, members, nonmembers).notes)
    assert not any("commonest class" in note for note in inspect(Memory(*members), members, nonmembers).notes)
    wrong = Memory(members[0], (members[1] + 1) % CLASSES)
    assert inspect(wrong, members, nonmembers).outcome is Outcome.INVALID


@pytest.mark.slow
def test_a_claim_on_a_split_is_out_of_reach_in_plain_words():
    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    report = inspect(Memory(*members), members, nonmembers, Settings(claim_epsilon=1.0))
    assert report.outcome is Outcome.OUT_OF_REACH
    assert "not by recorded coins" in report.mechanisms[0].verdicts[0].reason


@pytest.mark.slow
def test_records_groups_and_histogram():
    x, y = records()
    coins = np.arange(400) % 2 == 0
    (mx, my), (nx, ny) = sides(x, y, coins)
    group = np.where(x[:, 0] > 0, "a", "b")
    members = {"x": mx, "y": my, "group": group[coins]}
    nonmembers = {"x": nx, "y": ny, "group": group[~coins]}
    game = inspect(Memory(mx, my), members, nonmembers, Settings(seed=5, record_key=b"5" * 32)).mechanisms[0].games[0]
    names = [item.group for item in game.groups]
    assert names == [str(i) for i in range(CLASSES)] + ["group a", "group b"]
    assert sum(item.members for item in game.groups[:CLASSES]) == 200
    assert all(item.auc > 0.9 for item in game.groups)
    top = game.records[0]
    assert top.member
    assert top.rank == 1
    assert top.record in {record_name(b"5" * 32, row) for row in range(200)}, "the owner can find the record"
    assert top.record not in {record_name(b"6" * 32, row) for row in range(400)}, "nobody without the key can"
    assert sum(attack_histogram(game)) == 400


def attack_histogram(game):
    result = game.attacks[0].histogram
    return [*result.members, *result.nonmembers]


# ---- coins


def test_coins_prove_an_epsilon_and_refute_a_wrong_claim():
    x, y = records()
    coins = draw_coins(400, 2**64 + 3)
    members, nonmembers = sides(x, y, coins)
    report = inspect(Memory(*members, blur=0.1), members, nonmembers, Settings(coins=coins, claim_epsilon=1.0))
    bound = next(bound for bound in attack(report).bounds if bound.estimator == "one_run")
    assert 2 < bound.epsilon <= bound.ceiling
    assert attack(report).control.passed
    assert all(bound.family is None for bound in attack(report).bounds), "a bound inside a family cannot refute a bare claim"
    assert report.outcome is Outcome.VIOLATED
    assert report.mechanisms[0].games[0].game.inclusion is Inclusion.COINS
    assert check(report, "membership").status is Status.DECLARED
    honest = inspect(Memory(*members, blur=0.1), members, nonmembers, Settings(coins=coins, claim_epsilon=50.0))
    assert honest.outcome is Outcome.OUT_OF_REACH


@pytest.mark.slow
def test_coins_follow_from_their_seed_and_each_record_is_checked():
    x, y = records()
    coins = draw_coins(400, 2**64 + 3)
    (mx, my), (nx, ny) = sides(x, y, coins)
    members = {"x": mx, "y": my, "index": np.flatnonzero(coins)}
    nonmembers = {"x": nx, "y": ny, "index": np.flatnonzero(~coins)}
    report = inspect(Memory(mx, my), members, nonmembers, Settings(randomised_seed=2**64 + 3))
    assert check(report, "membership").status is Status.CHECKED
    assert attack(report).bounds[0].epsilon > 1
    with pytest.raises(DataError, match="records contradict the coins of the given seed"):
        inspect(Memory(mx, my), members, nonmembers, Settings(randomised_seed=2**64 + 4))


COINS = {
    "too few": (lambda c: c[:-1], "399 coins .* but 400 members and nonmembers"),
    "not these": (lambda c: ~c, "the coins of the recorded file make"),
    "not random": (np.sort, "not independent fair coins"),
    "not fair": (lambda c: np.arange(400) % 10 > 0, "not independent fair coins"),
    "alternating": (lambda c: np.arange(400) % 2 == 0, "not independent fair coins"),
    "one side": (lambda c: c | True, "needs at least one of each"),
    "no truth values": (lambda c: np.arange(400), "expected true or false per record"),
}


@pytest.mark.parametrize("name", COINS)
def test_coins_that_are_not_the_coins(name):
    x, y = records()
    coins = draw_coins(400, 2**64 + 3)
    members, nonmembers = sides(x, y, coins)
    change, message = COINS[name]
    with pytest.raises(DataError, match=message):
        inspect(Memory(*members), members, nonmembers, Settings(coins=change(coins)))


def test_an_index_that_is_no_permutation():
    x, y = records()
    coins = draw_coins(400, 2**64 + 3)
    (mx, my), (nx, ny) = sides(x, y, coins)
    members = {"x": mx, "y": my, "index": np.zeros(len(mx), int)}
    nonmembers = {"x": nx, "y": ny, "index": np.arange(len(nx))}
    with pytest.raises(DataError, match=r"'index' does not run over 0 \.\. 399 once each"):
        inspect(Memory(mx, my), members, nonmembers, Settings(coins=coins))
    with pytest.raises(DataError, match="one of members and nonmembers has 'index'"):
        inspect(Memory(mx, my), members, (nx, ny), Settings(coins=coins))


# ---- the first guard


@pytest.mark.slow
def test_a_biased_split_is_called_biased_and_not_leakage():
    x, y = records()
    coins = np.arange(400) % 2 == 0
    x[coins, 2] += 1.0
    members, nonmembers = sides(x, y, coins)
    report = inspect(Memory(x[:0], y[:0]), members, nonmembers, Settings(claim_epsilon=3.0))
    assert check(report, "blind").status is Status.FAILED
    assert report.notes[0].startswith("Members can be told from nonmembers without the model")
    assert report.outcome is Outcome.INVALID
    assert "without the model" in report.mechanisms[0].verdicts[0].reason


def test_labels_alone_can_bias_a_split():
    x, y = records()
    order = np.argsort(y, kind="stable")
    result = blind.guard(x, y, np.isin(np.arange(400), order[:200]), Seed(0))
    assert result.has_bias
    assert result.auc > 0.9


@pytest.mark.slow
def test_a_class_that_one_side_lacks_is_found():
    generator = np.random.default_rng(4)
    x, y = generator.normal(size=(1500, 8)), generator.integers(0, 10, 1500)
    x[np.arange(1500), y % 8] += 2
    member = np.arange(1500) < 750
    retained = member | (y != 1)
    assert blind.guard(x[retained], y[retained], member[retained], Seed(0)).has_bias


def test_half_of_a_class_missing_on_one_side_is_found():
    generator = np.random.default_rng(11)
    centres, y = generator.normal(size=(10, 20)), generator.integers(0, 10, 2800)
    x = centres[y] + generator.normal(size=(2800, 20))
    member = generator.permutation(np.arange(2800) < 1400)
    rows = np.flatnonzero(member & (y == 3))
    kept = np.delete(np.arange(2800), rows[: len(rows) // 2])
    assert blind.guard(x[kept], y[kept], member[kept], Seed(11)).has_bias


def test_a_few_wrong_labels_on_one_side_are_found():
    generator = np.random.default_rng(0)
    centres, y = generator.normal(size=(8, 10)), generator.integers(0, 8, 1600)
    x = 1.2 * centres[y] + generator.normal(size=(1600, 10))
    member = generator.permutation(np.arange(1600) < 800)
    assert not blind.guard(x, y, member, Seed(0)).has_bias
    wrong = np.flatnonzero(member)[:40]
    y[wrong] = (y[wrong] + 1) % 8
    assert blind.guard(x, y, member, Seed(0)).has_bias


def test_differences_that_no_line_separates_are_found_too():
    generator = np.random.default_rng(1)
    x = generator.normal(size=(800, 3))
    member = (x[:, 0] * x[:, 1] > 0) ^ (generator.random(800) < 0.1)
    assert blind.guard(x, None, member, Seed(0)).has_bias


@pytest.mark.parametrize(
    "digits", [lambda x: x.astype(np.float16), lambda x: np.round(x, 3)], ids=["half precision", "3 digits"]
)
def test_a_side_that_was_written_with_fewer_digits_is_noticed(digits):
    random, member = np.random.default_rng(0), np.arange(300) < 150
    x = random.normal(size=(300, 12)).astype(np.float32)
    assert not blind.guard(x, None, member, Seed(0)).has_bias
    x[~member] = digits(x[~member])
    assert blind.guard(x, None, member, Seed(0)).has_bias


def guard_alarms(repetitions: int) -> int:
    alarms = 0
    for i in range(repetitions):
        generator = np.random.default_rng([7, i])
        x = generator.normal(size=(120, 5))
        alarms += blind.guard(x, generator.integers(0, 3, 120), generator.permutation(np.arange(120) < 60), Seed(i)).has_bias
    return alarms


@pytest.mark.slow
def test_the_guard_rarely_cries_wolf():
    assert guard_alarms(6) <= 1  # at a rate of 1 % more have probability 1.5e-3


@pytest.mark.slow
def test_the_guard_rarely_cries_wolf_over_forty_splits():
    # at a rate of 1 % more than 3 of 40 have probability 7e-4
    assert guard_alarms(40) <= 3


@pytest.mark.calibration
def test_the_guard_cries_wolf_at_most_at_its_stated_rate():
    assert guard_alarms(1000) <= 23  # binomial(1000, 0.01) exceeds 23 with probability 1e-4


def test_too_few_records_for_the_guard_is_a_gap_not_a_pass():
    x, y = records(30)
    members, nonmembers = sides(x, y, np.arange(30) % 2 == 0)
    assert check(inspect(Memory(*members), members, nonmembers), "blind").status is Status.GAP


# ---- forms of targets and outputs


@pytest.mark.slow
def test_a_torch_module_a_function_and_probabilities_agree():
    import torch

    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    module = torch.nn.Sequential(torch.nn.Linear(6, CLASSES), torch.nn.Dropout(0.5)).train()
    weight, bias = (p.detach().numpy() for p in module.parameters())

    def logits(inputs):
        return inputs @ weight.T + bias

    def probabilities(inputs):
        odds = np.exp(logits(inputs))
        return odds / odds.sum(axis=1, keepdims=True)

    reports = [inspect(target, members, nonmembers) for target in (module, logits, probabilities)]
    areas = [attack(report).auc for report in reports]
    assert areas[0] == areas[1]
    assert abs(areas[0] - areas[2]) < 1e-3
    assert module.training
    assert any("gives probabilities" in note for note in reports[2].notes)
    assert not any("gives probabilities" in note for note in reports[0].notes)


@pytest.mark.slow
def test_a_model_that_changes_its_mind_is_remarked():
    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    generator = np.random.default_rng(0)
    report = inspect(lambda inputs: generator.normal(size=(len(inputs), CLASSES)), members, nonmembers)
    assert any("when asked again" in note for note in report.notes)


@pytest.mark.slow
def test_equal_rankings_are_shown_once_and_other_attacks_are_run():
    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    names = [item.scorer for item in inspect(Memory(*members), members, nonmembers).mechanisms[0].games[0].attacks]
    assert names[0] == "loss"
    assert "auto" not in names
    assert len(names) >= 4


def test_losses_alone_are_enough():
    included = np.arange(200) % 2 == 0
    losses = np.random.default_rng(0).exponential(size=200) + ~included
    report = examine_outputs(View.of(losses=losses), included, source=("p.csv", "ab")).report
    assert attack(report).auc > 0.7
    assert check(report, "blind").status is Status.GAP
    assert report.data.name == "p.csv"


@pytest.mark.slow
def test_the_report_is_the_same_twice_and_renders():
    import reports

    x, y = records()
    members, nonmembers = sides(x, y, np.arange(400) % 2 == 0)
    settings = Settings(created="2026-01-01T00:00:00Z")
    item, two = (inspect(Memory(*members), members, nonmembers, settings) for _ in range(2))
    assert item == two
    assert set(reports.render(item, ["json", "pdf"])) >= {"report.json", "report.pdf"}


# ---- bad input

X, Y = records(60, seed=9)
GOOD = (X[:30], Y[:30])
OTHER = (X[30:], Y[30:])


def bad(x=None, y=None):
    return (OTHER[0] if x is None else x, OTHER[1] if y is None else y)


BAD = {
    "overlap": (bad(np.concatenate([X[30:59], X[7:8]]), np.concatenate([Y[30:59], Y[7:8]])), "nonmember 29 is member 7"),
    "empty": (bad(X[:0], Y[:0]), "nonmembers: no record"),
    "NaN": (bad(np.where(X[30:] == X[33, 2], np.nan, X[30:])), "NaN or infinite, the first in record 4"),
    "label out of range": (bad(y=Y[30:] + 3), "is out of range: the target has 4 classes"),
    "label negative": (bad(y=Y[30:] - 9), "is out of range"),
    "label fractional": (bad(y=Y[30:] + 0.5), "for numbers y of shape .*for classes, give y as integers"),
    "unequal": (bad(y=Y[31:]), "30 records in x but 29 in y"),
    "one axis": (bad(x=X[30:, 0]), r"expected numbers, \(n, \.\.\.\)"),
    "other shape": (bad(x=X[30:, :5]), r"members have records of shape \(6,\), nonmembers of shape \(5,\)"),
    "no pair": ([1, 2], "given as list"),
    "missing file": ("absent.npz", "no file absent.npz"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_records(name):
    nonmembers, message = BAD[name]
    with pytest.raises(DataError, match=message) as caught:
        inspect(Memory(*GOOD), GOOD, nonmembers)
    assert caught.value.exit_code == 2


def test_one_class_only():
    with pytest.raises(DataError, match="all records have the label 1; expected at least two classes"):
        inspect(Memory(*GOOD), (X[:30], Y[:30] * 0 + 1), (X[30:], Y[30:] * 0 + 1))


def test_wrong_npz_keys(tmp_path):
    np.savez(tmp_path / "m.npz", images=X, labels=Y)
    with pytest.raises(DataError, match=r"m\.npz holds the arrays images, labels: it lacks x, y"):
        inspect(Memory(*GOOD), tmp_path / "m.npz", OTHER)


def test_overlap_can_be_dropped():
    x, y = np.concatenate([X[30:], X[5:8]]), np.concatenate([Y[30:], Y[5:8]])
    report = inspect(Memory(*GOOD), GOOD, (x, y), Settings(overlap="drop"))
    assert report.mechanisms[0].games[0].game.canaries == 60
    assert any("3 records were left out" in note for note in report.notes)
    with pytest.raises(DataError, match="overlap as a whole"):
        inspect(Memory(*GOOD), GOOD, GOOD, Settings(overlap="drop"))


def test_dropping_repeated_records_never_looks_at_their_coins():
    from audit.data.members import gather, without_overlap

    x, y = np.concatenate([X[:20], X[:20]]), np.concatenate([Y[:20], Y[:20]])
    extra = X[20:]
    coins = np.arange(80) % 3 == 0
    whole_x, whole_y = np.concatenate([x, extra]), np.concatenate([y, Y[20:]])
    evidence = gather((whole_x[coins], whole_y[coins]), (whole_x[~coins], whole_y[~coins]))
    retained = without_overlap(evidence, "drop", by_coins=True)
    assert {row.tobytes() for row in retained.inputs} == {row.tobytes() for row in extra}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"delta": 0.0}, "delta is 0.0"),
        ({"delta": 1.0}, "delta is 1.0"),
        ({"confidence": 1.0}, "confidence is 1.0"),
        ({"claim_epsilon": -1.0}, "claim_epsilon is -1.0"),
        ({"coins": np.ones(3), "randomised_seed": 1}, "both coins and randomised_seed"),
        ({"randomised_seed": 2**64 - 1}, "below 2\\*\\*64 .*draw_coins\\(n\\).*--coins FILE"),
        ({"overlap": "keep"}, "overlap is 'keep'"),
        ({"scorers": ("entropy",)}, "proven_by names loss, and scorers only entropy"),
    ],
)
def test_bad_settings(options, message):
    with pytest.raises(ConfigError, match=message):
        Settings(**options)


@pytest.mark.parametrize("adjacency", [Adjacency.REPLACE_ONE, Adjacency.ZERO_OUT])
def test_presence_in_a_training_tests_claims_about_presence_alone(adjacency):
    values, coins = leaky(60, 1)
    with pytest.raises(ConfigError, match="was in or out of this model's training"):
        examine_outputs(View.of(losses=-values), coins, Settings(claim_epsilon=1.0, adjacency=adjacency, coins=coins))


def test_attacks_that_a_trained_model_cannot_serve():
    with pytest.raises(ConfigError, match="scorer 'lira' needs 2 reference models"):
        inspect(Memory(*GOOD), GOOD, OTHER, Settings(scorers=("loss", "lira")))
    with pytest.raises(ConfigError, match="the target is a int"):
        inspect(3, GOOD, OTHER)
    with pytest.raises(ObservationError, match="not finite"):
        inspect(lambda inputs: np.full((len(inputs), CLASSES), np.nan), GOOD, OTHER)
    with pytest.raises(
        DataError, match=r"shape \(60,\) for 60 records of classes 0 to 3; expected logits or probabilities, \(60, 4\)"
    ):
        inspect(lambda inputs: inputs[:, 0].astype(np.int64), GOOD, OTHER)
    with pytest.raises(DataError, match="out of range: the target has 2 classes"):
        inspect(lambda inputs: inputs[:, :2], GOOD, OTHER)
    report = inspect(lambda inputs: inputs[:, 0], GOOD, OTHER)
    assert report.mechanisms[0].preflight.reading == "outputs are numbers, y holds numbers"


def test_records_are_taken_as_a_type_of_the_house():
    report = inspect(Memory(*GOOD), Records(inputs=GOOD[0], labels=GOOD[1]), Records(inputs=OTHER[0], labels=OTHER[1]))
    assert report.data.train == 30


# ---- score tables


def leaky(count: int, seed: int, shift: float = 6.0):
    coins = draw_coins(count, seed)
    return np.random.default_rng(seed).normal(size=count) + shift * coins, coins


@pytest.mark.slow
def test_all_bounds_that_the_game_grants():
    values, coins = leaky(600, 1)
    item = inspect_scores(values, coins, Settings(claim_epsilon=1.0))
    names = {bound.estimator for bound in attack(item, "scores").bounds}
    assert "one_run" in names
    assert not names & {"clopper_pearson", "gaussian", "rank_exact"}, "they need independent trials"
    assert item.outcome is Outcome.VIOLATED
    more = inspect_scores(values, coins, Settings(claim_epsilon=1.0, certificates=0), game="independent_trials")
    names = {bound.estimator for bound in attack(more, "scores").bounds}
    assert names == {"both_ends"}, "one estimator with the whole error rate"
    chosen = inspect_scores(values, coins, Settings(estimators=("gaussian",), certificates=0), game="independent_trials")
    assert [bound.family for bound in attack(chosen, "scores").bounds] == ["gdp"]
    assert chosen.mechanisms[0].games[0].certificates == ()
    game = item.mechanisms[0].games[0]
    assert [certificate.epsilon for certificate in game.certificates] == [0.0, 1.0]
    assert all(certificate.kept and certificate.repetitions >= 20 for certificate in game.certificates)
    (caught,) = game.detectable
    assert (caught.estimator, caught.claim) == ("one_run", 1.0) and 1.0 < caught.epsilon < 8.0
    assert more.comparisons == len(attack(more, "scores").bounds)
    assert [bound.confidence for bound in attack(more, "scores").bounds] == [item.confidence], "the budget is not split"


@pytest.mark.slow
def test_scores_without_information_prove_nothing():
    values, coins = leaky(600, 2, shift=0.0)
    report = inspect_scores(values, coins, Settings(claim_epsilon=1.0))
    assert report.outcome is Outcome.CONSISTENT
    assert attack(report, "scores").bounds[0].epsilon == 0


@pytest.mark.slow
def test_inverted_scores_make_the_audit_invalid():
    values, coins = leaky(600, 1)
    report = inspect_scores(-values, coins, Settings(claim_epsilon=1.0))
    assert report.outcome is Outcome.INVALID
    assert "members do worse than nonmembers" in str(report.mechanisms[0].preflight)


def test_bad_scores():
    values, coins = leaky(60, 1)
    with pytest.raises(DataError, match="NaN"):
        inspect_scores(np.where(coins, np.nan, values), coins, Settings())
    with pytest.raises(DataError, match="at least one of each"):
        inspect_scores(values, coins | True, Settings())
    with pytest.raises(DataError, match="expected two equal lengths"):
        inspect_scores(values, coins[:5], Settings())
    with pytest.raises(ConfigError, match="expected one of one_run, independent_trials"):
        inspect_scores(values, coins, Settings(), game="onerun")
    with pytest.raises(ConfigError, match="has no 'one_rum'"):
        inspect_scores(values, coins, Settings(estimators=("one_rum",)))
