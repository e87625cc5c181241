"""A federated training, audited once and seen by several parties: each with its own claim, all from one training."""

from __future__ import annotations

from pathlib import Path

import pytest

from audit.config import parse
from audit.core.claims import Outcome
from audit.core.errors import ConfigError, ObservationError
from audit.core.event_reading import phases
from audit.core.events import dp_sgd
from audit.core.lower_bounds import read_epsilon
from audit.core.results import MechanismResult, Status
from audit.core.rounding import up
from audit.execution.store import Store
from audit.experiment.line import assemble, run
from audit.experiment.line.report import attack_classes, coverage
from audit.experiment.plan.plan import make_plan
from audit.stats.curves import tradeoff
from tests.marks import slow_rows

CONFIG = """
version: 1
name: federated
seed: 3
delta: 1e-5
data: {kind: digits, train: 200, pool: 20, test: 100}
model: {kind: logistic}
training: {optimizer: sgd, learning_rate: 1.0, sample_rate: 0.5, steps: 12}
mechanisms:
  - name: fed
    kind: federated
    clients: 20
    noise: central
    noise_multiplier: 3.0
    trainer: {kind: federated, local_steps: 1}
games:
  - name: clients
    access: each_update
    adjacency: zero_out
    canaries: signed_cosine
    count: 400
    scorers: [update_product, sum_product, model_product, round_spread, weight_difference]
    estimators: [one_run, fdp_rank]
accountants: [pld]
certificates: 0
"""
LOCAL = ("mechanisms.fed.noise=local", "training.sample_rate=1.0")
DISTRIBUTED = ("mechanisms.fed.noise=distributed", "training.sample_rate=1.0", "mechanisms.fed.noise_multiplier=8")


def audited(folder: Path, *overrides: str) -> dict[str, MechanismResult]:
    """The result of each party by its view."""
    resolved = parse(CONFIG, overrides)
    store = Store.start(folder / "run", resolved.sha256)
    results, _ = run.run(assemble.assemble(resolved.config), store)
    return {result.name.removeprefix("fed (").removesuffix(")"): result for result in results}


def claimed(result: MechanismResult) -> float | None:
    return result.claims[0].epsilon if result.claims else None


def proven(result: MechanismResult) -> float:
    return max(read_epsilon(bound) for game in result.games for bound in game.bounds)


def failed(results: dict[str, MechanismResult]) -> set[str]:
    return {check.code for result in results.values() for check in result.checks if check.status is Status.FAILED}


@pytest.mark.slow
def test_noise_at_the_server_protects_from_who_sees_released_models_alone(tmp_path: Path) -> None:
    results = audited(tmp_path)
    assert list(results) == ["each update", "secure sum", "released models", "final weights"]
    assert [claimed(result) is None for result in results.values()] == [True, True, False, False]
    assert all(proven(results[party]) > 3 for party in ("each update", "secure sum"))
    models = results["released models"]
    assert models.claims[0].unit == "client" and models.limit is not None
    assert models.outcome is Outcome.CONSISTENT and 1 < proven(models) < models.claims[0].epsilon
    assert [result.models for result in results.values()] == [1, 0, 0, 0]
    assert {result.training for result in results.values()} == {"fed"}
    (estimate,) = models.games[0].attacks[0].estimates
    assert estimate.estimator == "two_gaussians" and estimate.epsilon > proven(models)
    assert failed(results) == set()
    retained = [path for path in tmp_path.rglob("*") if path.is_dir() and path.name == "models"]
    assert len(retained) == 1 and len(list(retained[0].iterdir())) == 1, "one training serves all parties"
    white_box = next(row for row in coverage(list(results.values()), attack_classes()) if "white box" in row.attack_class)
    assert white_box.done.startswith("400 canaries over 1 training run, ")


@pytest.mark.slow
def test_a_federated_audit_can_be_planned() -> None:
    """Each party's ceilings are those of the estimators that can speak before it, not of all that the game names."""
    rows = make_plan(assemble.assemble(parse(CONFIG, ()).config)).ceilings
    estimators = {
        party: {row.estimator for row in rows if row.mechanism == f"fed ({party})"}
        for party in ("secure sum", "released models")
    }
    assert estimators == {"secure sum": {"one_run"}, "released models": {"one_run", "fdp_rank"}}


@pytest.mark.slow
def test_fixed_cohorts_take_turns(tmp_path: Path) -> None:
    """A client of one of four cohorts is in a quarter of the rounds, and pays for these without sampling."""
    overrides = ("training.sample_rate=1", "mechanisms.fed.cohorts=4", "training.steps=20")
    results = audited(tmp_path, *overrides)
    quarter = audited(tmp_path / "quarter", "training.sample_rate=1", "training.steps=5")
    assert claimed(results["released models"]) == pytest.approx(claimed(quarter["released models"]))
    assert proven(results["released models"]) < (claimed(results["released models"]) or 0)
    assert proven(results["secure sum"]) > 3 and failed(results) == set()


@pytest.mark.slow
def test_noise_at_the_clients_protects_from_the_server(tmp_path: Path) -> None:
    results = audited(tmp_path, *LOCAL)
    each, summed = results["each update"], results["secure sum"]
    assert claimed(each) == pytest.approx(5.2, abs=0.3)
    assert claimed(summed) == claimed(results["released models"]) == claimed(results["final weights"])
    assert (claimed(summed) or 0) < (claimed(each) or 0) / 4
    assert 2 < proven(each) < (claimed(each) or 0) and proven(summed) < 1
    assert failed(results) == set() and all(result.outcome is not Outcome.VIOLATED for result in results.values())
    assert "every client in every step with probability 1" in {check.value for check in each.checks}


@pytest.mark.slow
def test_shared_noise_protects_from_who_learns_the_sum(tmp_path: Path) -> None:
    results = audited(tmp_path, *DISTRIBUTED)
    each, summed = results["each update"], results["secure sum"]
    assert (claimed(each) or 0) > 9 > 3 * (claimed(summed) or 0)
    assert proven(each) > proven(summed) > 0
    dropped = audited(tmp_path / "dropped", *DISTRIBUTED, "mechanisms.fed.dropout=0.36")
    assert (claimed(dropped["secure sum"]) or 0) > 1.2 * (claimed(summed) or 0), "missing shares are noise that is not there"
    assert failed(results) | failed(dropped) == set()


@pytest.mark.slow
def test_clients_who_collude_know_their_shares_of_the_noise(tmp_path: Path) -> None:
    """Ten of 20 leave half of the variance, in what is claimed and in what their party sees; updates are as they were."""
    results = audited(tmp_path, *LOCAL, "mechanisms.fed.colluders=10", "games.clients.scorers=[update_product, sum_product]")
    event = results["secure sum"].mechanism
    assert event is not None and phases(event)[0][0] == pytest.approx(3 * 10**0.5)
    assert phases(results["each update"].mechanism or event)[0][0] == pytest.approx(3)
    seen = next(check.value for check in results["secure sum"].checks if check.code == "noise-seen")
    assert abs(float(seen.split()[0]) - 1) < 0.1 and failed(results) == set()


def test_cohorts_share_the_noise_of_their_own_rounds() -> None:
    """Of 20 clients in two cohorts, 10 share a sum's noise; one of them that drops out takes a tenth of its variance."""
    overrides = [*DISTRIBUTED, "mechanisms.fed.cohorts=2", "mechanisms.fed.dropout=0.1"]
    designs = assemble.assemble(parse(CONFIG, overrides).config).design.training_designs
    noise = {design.name: phases(design.mechanism)[0] for design in designs}
    assert noise["fed (secure sum)"] == pytest.approx((8 * 0.9**0.5, 1.0, 6))
    assert noise["fed (each update)"] == pytest.approx((8 / 10**0.5, 1.0, 6))


@pytest.mark.parametrize(("dropout", "missing"), [(0.29, 6), (0.05, 1), (0.15, 3)])
def test_a_share_of_clients_that_is_no_whole_number_is_rounded_up(dropout: float, missing: int) -> None:
    """Of 20 clients at least 29 % drop out if six do: with five the claim would be for more noise than is left."""
    designs = assemble.assemble(parse(CONFIG, [*DISTRIBUTED, f"mechanisms.fed.dropout={dropout}"]).config).design
    (summed,) = [design for design in designs.training_designs if design.name == "fed (secure sum)"]
    assert phases(summed.mechanism)[0][0] == pytest.approx(8 * (1 - missing / 20) ** 0.5)


@pytest.mark.slow
def test_without_noise_nobody_is_protected(tmp_path: Path) -> None:
    results = audited(tmp_path, "mechanisms.fed.noise=none", "mechanisms.fed.noise_multiplier=null")
    assert all(claimed(result) is None for result in results.values())
    assert all(proven(results[party]) > 3 for party in ("each update", "secure sum", "released models"))
    assert failed(results) == set()


EXAMPLES = (
    "mechanisms.fed.unit=example",
    "mechanisms.fed.trainer={kind: federated, local_steps: 5, local_batch: null, local_learning_rate: 0.5, hosts: 20}",
    "training.sample_rate=1",
    "games.clients.adjacency=add_remove",
    "games.clients.canaries=held_out",
    "games.clients.count=200",
    "data.pool=200",
    "games.clients.scorers=[update_product, update_loss_drop, sum_product, model_product, round_loss_drop, loss]",
    "games.clients.estimators=[one_run]",
)


@pytest.mark.slow
def test_examples_inside_clients_are_claimed_for_twice_the_distance(tmp_path: Path) -> None:
    """A record may turn its client's whole update, so its claim is that of half of the noise."""
    results = audited(tmp_path, *EXAMPLES, "mechanisms.fed.noise_multiplier=16")
    halved = audited(tmp_path / "clients", "training.sample_rate=1", "mechanisms.fed.noise_multiplier=8")
    assert list(results) == ["each update", "secure sum", "released models", "final model"]
    assert claimed(results["each update"]) is None and claimed(results["secure sum"]) is None
    assert claimed(results["released models"]) == pytest.approx(claimed(halved["released models"]))
    assert results["released models"].claims[0].unit == "example" and failed(results) == set()
    assert proven(results["each update"]) > 0.2 and refuted(results) == set()


@pytest.mark.slow
def test_updates_of_clients_give_examples_away_where_clients_add_no_noise(tmp_path: Path) -> None:
    bare = audited(tmp_path, *EXAMPLES, "mechanisms.fed.noise=none", "mechanisms.fed.noise_multiplier=null")
    local = audited(tmp_path / "local", *EXAMPLES, "mechanisms.fed.noise=local", "mechanisms.fed.noise_multiplier=16")
    assert claimed(bare["each update"]) is None and proven(bare["each update"]) > 0.2
    assert proven(local["each update"]) < (claimed(local["each update"]) or 0) and refuted(local) == set()


INSIDE = (
    *EXAMPLES,
    "mechanisms.fed.noise=records",
    "mechanisms.fed.local_steps=3",
    "mechanisms.fed.record_rate=0.5",
    "mechanisms.fed.noise_multiplier=4",
    "mechanisms.fed.trainer={kind: federated, local_learning_rate: 0.5, hosts: 20}",
    "games.clients.scorers=[update_product, update_loss_drop, loss]",
)


@pytest.mark.slow
def test_dp_sgd_inside_clients_is_claimed_for_one_record_before_everybody(tmp_path: Path) -> None:
    """Twelve rounds of three local steps each are 36 steps of DP-SGD, whoever looks on."""
    results = audited(tmp_path, *INSIDE)
    event = dp_sgd(noise_multiplier=4.0, clip_norm=1.0, sample_rate=0.5, steps=36)
    assert {str(result.mechanism) for result in results.values()} == {str(event)}
    assert {claimed(result) for result in results.values()} == {claimed(results["each update"])}
    assert proven(results["each update"]) < (claimed(results["each update"]) or 0)
    assert refuted(results) == set() and failed(results) == set()
    noise = 4 / 36**0.5  # of one release that is worth as much as all steps
    alike = [up(tradeoff.gdp_epsilon(size / noise, 1e-5)) for size in (2, 10)]
    (remark,) = assemble.assemble(parse(CONFIG, INSIDE).config).design.remarks
    assert f"a client's 2 records an epsilon of {alike[0]}, 10 records {alike[1]} and 100" in remark
    codes = {check.code for check in results["each update"].checks if check.status is Status.CHECKED}
    assert {"inner-noise", "inner-clipping"} <= codes


@pytest.mark.slow
def test_noise_that_clients_forget_in_their_own_steps_shows_in_an_honest_log(tmp_path: Path) -> None:
    broken = "mechanisms.fed.trainer.kind=tests.broken_federated:NoNoiseInside"
    assert failed(audited(tmp_path, *INSIDE, broken, "mechanisms.fed.trainer.admits=true")) == {"inner-noise"}


@pytest.mark.sampled(5)
@pytest.mark.parametrize(
    ("overrides", "words"),
    [
        ([*INSIDE, "mechanisms.fed.unit=client"], "needs unit 'example'"),
        ([*INSIDE, "mechanisms.fed.record_rate=0"], "record_rate above 0"),
        ([*INSIDE, "mechanisms.fed.trainer.example_cap=5"], "would release it without noise"),
        (["mechanisms.fed.local_steps=3"], "give them to the trainer"),
        ([*EXAMPLES, "games.clients.adjacency=replace_one"], "use 'add_remove'"),
        (["mechanisms.fed.unit=record"], "expected one of client, example"),
        (["training.sample_rate=null", "training.batch_size=32"], "batch_size counts records"),
        (["mechanisms.fed.noise=distributed"], "use sample_rate 1"),
        (["mechanisms.fed.noise=local"], "none in a round without a client; use sample_rate 1"),
        (["mechanisms.fed.noise=none"], "takes neither"),
        (["mechanisms.fed.noise=shared"], "expected one of none, central"),
        (["games.clients.estimators=[fdp_rank]"], "sees no single step"),
        (["games.clients.estimators=[fdp_rank]", "games.clients.scorers=[sum_product]"], "add one_run"),
        (["games.clients.access=released_models"], "does not release; each_update does"),
        (["mechanisms.fed.dropout=0.5"], "0 unless noise is 'distributed'"),
        ([*DISTRIBUTED, "mechanisms.fed.dropout=0.96"], "so that a client of a round is left"),
        (["mechanisms.fed.cohorts=4"], "use sample_rate 1, and rounds that the cohorts divide"),
        (["mechanisms.fed.cohorts=0"], "expected 1 to the number of clients"),
        ([*DISTRIBUTED, "mechanisms.fed.cohorts=3"], "a divisor of it where clients share the noise"),
        (["mechanisms.fed.colluders=1"], "of other noise no client knows a part"),
        ([*DISTRIBUTED, "mechanisms.fed.colluders=20"], "fewer than reply"),
    ],
)
def test_what_cannot_be_played_is_refused(overrides: list[str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        assemble.assemble(parse(CONFIG, overrides).config)


def refuted(results: dict[str, MechanismResult]) -> set[str]:
    return {party for party, result in results.items() if result.outcome is Outcome.VIOLATED}


MODELS = ("games.clients.scorers=[model_product, round_spread]", "games.clients.count=250")
NOT_FINITE = ("games.clients.scorers=[model_product]", "games.clients.count=250", "games.clients.canaries=non_finite")
SUMS = ("games.clients.scorers=[sum_product]", "games.clients.count=250")
UPDATES = ("games.clients.scorers=[update_product]", "games.clients.count=250")
RANKS = "games.clients.estimators=[{kind: fdp_rank, statistic: rank}]"
COORDINATES = (
    "games.clients.scorers=[round_exactness, round_extreme]",
    "games.clients.count=250",
    "games.clients.canaries=single_coordinate",
    RANKS,
)
TENSORS = (
    "games.clients.scorers=[model_product, round_exactness]",
    "games.clients.count=250",
    "games.clients.canaries=single_tensor",
    RANKS,
)
APART = (
    "games.clients.scorers=[model_product]",
    "games.clients.count=8",
    "games.clients.runs=50",
    "games.clients.canaries=every_tensor",
    "model={kind: mlp, hidden: [16]}",
    RANKS,
)
# of one client alone even a defect of one coordinate shows, in federation after federation
ALONE = ("games.clients.scorers=[model_product]", "games.clients.count=1", "games.clients.runs=100")
DIGITS = ("games.clients.scorers=[{kind: round_total, view: digits}]", "games.clients.count=250", RANKS)
LENGTHS = (
    "games.clients.scorers=[{kind: round_total, view: lengths}]",
    "games.clients.count=1",
    "games.clients.runs=60",
    "games.clients.canaries=non_finite",
    RANKS,
)
BESIDE = (
    "games.clients.scorers=[model_product]",
    "games.clients.count=1",
    "games.clients.runs=25",
    "games.clients.canaries={kind: non_finite, beside: 100}",
    RANKS,
)


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        MODELS,
        NOT_FINITE,
        BESIDE,
        ALONE,
        COORDINATES,
        TENSORS,
        APART,
        DIGITS,
        LENGTHS,
        (*LOCAL, *UPDATES),
        (*DISTRIBUTED, *SUMS),
    ],
)
def test_the_correct_twin_is_not_accused(overrides: tuple[str, ...], tmp_path: Path) -> None:
    results = audited(tmp_path, *overrides, "mechanisms.fed.trainer.kind=tests.broken_federated:Correct")
    assert refuted(results) == set() and failed(results) == set()


BUGS = [
    ("UnclippedScalar", ALONE),
    ("NotFinitePasses", NOT_FINITE),
    ("WeightedByRecords", MODELS),
    ("DividedByReplies", MODELS),
    ("NoNoise", MODELS),
    ("SameNoise", MODELS),
    ("DividedTwice", MODELS),
    ("SharesAsWhole", (*LOCAL, *UPDATES)),
    ("ClientNoiseAsCentral", MODELS),
    ("NoNoise", (*LOCAL, *SUMS)),
    ("NoNoise", (*DISTRIBUTED, *SUMS)),
    ("NoiseInTheLog", MODELS),
    ("QuietLastRound", COORDINATES),
    ("QuietTensor", COORDINATES),
    ("CoarseNoise", COORDINATES),
    ("UniformNoise", COORDINATES),
    ("CutNoise", COORDINATES),
    ("NarrowNoise", COORDINATES),
    ("FadingNoise", COORDINATES),
    ("OneNumberPerTensor", TENSORS),
    ("CancellingNoise", TENSORS),
    ("TwiceHeard", TENSORS),
    ("MomentumBeforeNoise", TENSORS),
    ("ClipByLargest", TENSORS),
    ("TensorsClippedApart", APART),
    ("NotFiniteAsMean", BESIDE),
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize(("bug", "overrides"), slow_rows(BUGS, BUGS[3:7] + BUGS[9:10] + BUGS[13:]))
def test_a_planted_bug_is_refuted_though_its_log_says_that_all_is_well(
    bug: str, overrides: tuple[str, ...], tmp_path: Path
) -> None:
    results = audited(tmp_path, *overrides, f"mechanisms.fed.trainer.kind=tests.broken_federated:{bug}")
    assert failed(results) == set()
    assert len(refuted(results)) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    ("bug", "overrides"),
    [("SharesMissing", (*DISTRIBUTED, *SUMS)), ("SharesMissing", COORDINATES), ("QuietBias", TENSORS)],
)
def test_noise_that_parties_miss_makes_an_audit_invalid_though_nothing_is_refuted(
    bug: str, overrides: tuple[str, ...], tmp_path: Path
) -> None:
    """A party sees it in canaries that sent nothing, whatever the log says."""
    results = audited(tmp_path, *overrides, f"mechanisms.fed.trainer.kind=tests.broken_federated:{bug}")
    assert failed(results) == {"noise-seen"}
    assert refuted(results) == set()
    assert Outcome.INVALID in {result.outcome for result in results.values()}


SHIPPED = (Path(__file__).resolve().parents[2] / "configs" / "quickstart-federated.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("trainer", ["Correct", *dict.fromkeys(bug for bug, _ in BUGS)])
def test_the_shipped_audit_refutes_each_planted_bug_and_not_its_twin(trainer: str, tmp_path: Path) -> None:
    """As users have it, with its own games and counts, and logs that say that all is well."""
    overrides = [f"mechanisms.{name}.trainer.kind=tests.broken_federated:{trainer}" for name in ("central", "local")]
    resolved = parse(SHIPPED, [*overrides, "certificates=0"])
    results, _ = run.run(assemble.assemble(resolved.config), Store.start(tmp_path / "run", resolved.sha256))
    outcomes = {result.name: result for result in results}
    assert failed(outcomes) <= (
        set() if trainer == "Correct" else {"noise-seen"}
    )  # a log that says that all is well hides no noise
    assert bool(refuted(outcomes)) == (trainer != "Correct")


@pytest.mark.slow
def test_a_coordinate_that_is_not_clipped_shows_in_an_honest_log(tmp_path: Path) -> None:
    """One coordinate cannot hold many canaries apart, so bounds do not prove it; the size of what entered the sum does."""
    broken = "mechanisms.fed.trainer={kind: 'tests.broken_federated:UnclippedScalar', admits: true}"
    results = audited(tmp_path, *MODELS, broken)
    assert "clipping" in failed(results)
    assert all(result.outcome in (Outcome.INVALID, Outcome.VIOLATED) for result in results.values())


@pytest.mark.slow
def test_an_owner_s_claim_is_about_who_sees_least(tmp_path: Path) -> None:
    results = audited(tmp_path, "mechanisms.fed.claim={epsilon: 0.5}", "games.clients.estimators=[one_run]")
    assert [party for party, result in results.items() if any(claim.epsilon == 0.5 for claim in result.claims)] == [
        "released models",
        "final weights",
    ]


ADAPTIVE = "mechanisms.fed.adaptive_clip={quantile: 0.5, rate: 0.2, share: 0.1}"
COUNTS = (
    *MODELS,
    ADAPTIVE,
    "games.clients.count=1",
    "games.clients.runs=60",
    "games.clients.scorers=[model_product, {kind: round_exactness, view: counts}]",
    "games.clients.estimators=[{kind: fdp_rank, statistic: rank}]",
)


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [(*MODELS, ADAPTIVE), COUNTS])
def test_a_clip_norm_that_follows_the_clients_is_claimed_like_one_that_stays(
    overrides: tuple[str, ...], tmp_path: Path
) -> None:
    results = audited(tmp_path, *overrides, "mechanisms.fed.trainer.kind=tests.broken_federated:Correct")
    fixed = assemble.assemble(parse(CONFIG, MODELS).config).design.training_designs[-1].mechanism
    assert results["released models"].mechanism == fixed
    assert refuted(results) == set() and failed(results) == set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("bug", "overrides"), [("QuietCount", COUNTS), ("NextClipNorm", (*MODELS, ADAPTIVE))])
def test_a_wrong_clip_norm_that_follows_the_clients_is_refuted(bug: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    assert refuted(audited(tmp_path, *overrides, f"mechanisms.fed.trainer.kind=tests.broken_federated:{bug}"))


SERVER = "mechanisms.fed.trainer={kind: federated, local_steps: 1, server: 'tests.federated_servers:%s'}"


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [MODELS, NOT_FINITE, BESIDE, COORDINATES, DIGITS, LENGTHS])
def test_a_server_of_somebody_else_s_is_audited_by_three_methods(overrides: tuple[str, ...], tmp_path: Path) -> None:
    results = audited(tmp_path, *overrides, SERVER % "Averaging")
    assert refuted(results) == set() and failed(results) == set()
    assert proven(results["released models"]) > 0.3 or overrides != MODELS


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("server", "overrides"),
    [
        ("NoNoise", MODELS),
        ("Unclipped", MODELS),
        ("QuietLastRound", COORDINATES),
        ("HalfNoise", TENSORS),
        ("FillsNotFinite", LENGTHS),
        ("LetsNotFiniteIn", LENGTHS),
        ("AddsMeanForNotFinite", BESIDE),
        ("AddsSumForNotFinite", (*LENGTHS, "mechanisms.fed.clip_norm=0.05", "games.clients.runs=200")),
        ("HidesSumInDigits", DIGITS),
    ],
)
def test_a_wrong_server_of_somebody_else_s_is_refuted(server: str, overrides: tuple[str, ...], tmp_path: Path) -> None:
    assert refuted(audited(tmp_path, *overrides, SERVER % server)) == {"released models"}


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("server", "codes"), [("Averaging", set()), ("NoiseByRound", {"noise-seen"}), ("NoiseTwice", {"noise-seen"})]
)
def test_noise_that_trainings_or_rounds_share_makes_an_audit_invalid(server: str, codes: set[str], tmp_path: Path) -> None:
    several = ("games.clients.scorers=[model_product]", "games.clients.count=60", "games.clients.runs=3")
    results = audited(tmp_path, *several, SERVER % server)
    assert failed(results) == codes and refuted(results) == set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(("server", "codes"), [("Averaging", set()), ("OppositeNoise", {"noise-seen"})])
def test_noise_that_coordinates_share_makes_an_audit_invalid(server: str, codes: set[str], tmp_path: Path) -> None:
    results = audited(tmp_path, *COORDINATES, "games.clients.scorers=[model_product]", SERVER % server)
    assert failed(results) == codes and refuted(results) == set()


@pytest.mark.sampled(1)
@pytest.mark.parametrize(
    ("server", "words"),
    [
        ("WrongShape", r"release\(\) has shape \(649,\) and type float64; expected \(650,\)"),
        ("Complex", "type complex128"),
        ("NotFinite", "650 of 650 numbers .* no client had sent such an update"),
        ("NoLicence", "as it is made and begins: OSError: no licence"),
        ("NeverReleases", "has no method release"),
    ],
)
def test_a_server_without_a_model_to_release_is_named(server: str, words: str, tmp_path: Path) -> None:
    with pytest.raises((ObservationError, ConfigError), match=words):
        audited(tmp_path / "named", *MODELS, SERVER % server)
