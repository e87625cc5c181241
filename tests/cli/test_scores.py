"""`audit scores`: tables of any tool in, bounds and a verdict out."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
import typer

from audit.cli.scores import scores
from audit.core.errors import AuditError
from audit.experiment.external.inspection import draw_coins

COINS = draw_coins(500, 2)
VALUES = np.random.default_rng(2).normal(size=500) + 5 * COINS


def audit(*arguments, expect: int = 0) -> None:
    """Runs the command as the command line does."""
    app = typer.Typer(pretty_exceptions_enable=False)
    app.command()(scores)
    try:
        code = app([str(argument) for argument in arguments], standalone_mode=False)
    except AuditError as error:
        assert error.exit_code == expect, error
        raise
    assert code == expect


def table(path, **columns):
    frame = pd.DataFrame(columns or {"score": VALUES, "member": COINS})
    if path.suffix == ".npz":
        np.savez(path, **{name: frame[name].to_numpy() for name in frame})
    elif path.suffix == ".parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False)
    return path


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["npz", "csv", "parquet"])
def test_the_same_bound_from_every_file(tmp_path, capsys, suffix):
    audit(table(tmp_path / f"s.{suffix}"), "--delta", "1e-5", "--claim-epsilon", "1", "--json", expect=1)
    printed = json.loads(capsys.readouterr().out)
    bound = next(bound for bound in printed["attacks"][0]["bounds"] if bound["estimator"] == "one_run")
    assert printed["outcome"] == "violated"
    assert 2 < bound["epsilon"] <= bound["ceiling"] < 6
    assert printed["attacks"][0]["negative_control"] is True
    assert printed["folder"] is None


@pytest.mark.slow
def test_independent_runs_have_one_default_with_the_whole_error_rate(tmp_path, capsys):
    path = table(tmp_path / "s.csv")
    audit(path, "--delta", "1e-5", "--game", "independent_trials", "--certificates", "0", "--json")
    (default,) = json.loads(capsys.readouterr().out)["attacks"][0]["bounds"]
    audit(path, "--delta", "1e-5", "--certificates", "0", "--json")
    (assuming_less,) = json.loads(capsys.readouterr().out)["attacks"][0]["bounds"]
    assert (default["estimator"], default["confidence"], assuming_less["estimator"]) == ("both_ends", 0.95, "one_run")
    assert default["epsilon"] > 0.99 * assuming_less["epsilon"], "a hundredth pays for a level that holds at each size"
    audit(
        path,
        "--delta",
        "1e-5",
        "--game",
        "independent_trials",
        "--estimator",
        "clopper_pearson",
        "--certificates",
        "0",
        "--json",
    )
    (alone,) = json.loads(capsys.readouterr().out)["attacks"][0]["bounds"]
    assert alone["confidence"] == 0.95


def test_out_of_reach_and_consistent_claims(tmp_path, capsys):
    path = table(tmp_path / "s.csv", score=np.random.default_rng(0).normal(size=500), member=COINS)
    audit(path, "--delta", "1e-5", "--claim-epsilon", "1", "--json")
    assert json.loads(capsys.readouterr().out)["outcome"] == "consistent"
    audit(path, "--delta", "1e-5", "--claim-epsilon", "9", expect=3)
    text = capsys.readouterr().out
    assert "could not have" in text
    assert "ceiling" in text


@pytest.mark.slow
def test_a_report_is_written_where_asked_for(tmp_path, capsys):
    audit(table(tmp_path / "s.csv"), "--delta", "1e-5", "-o", tmp_path / "out")
    names = {path.name for path in (tmp_path / "out").iterdir()}
    assert {"report.pdf", "report.json", "SHA256SUMS"} <= names
    assert capsys.readouterr().out.rstrip().endswith("report.pdf")


def test_tables_of_several_attacks_are_not_pooled(tmp_path, capsys):
    frame = pd.concat(
        [pd.DataFrame({"attack": name, "points": sign * VALUES, "was_in": COINS}) for name, sign in (("good", 1), ("bad", -1))]
    )
    frame.to_parquet(tmp_path / "s.parquet")
    names = ("--score", "points", "--member", "was_in", "--delta", "1e-5", "--json")
    with pytest.raises(AuditError, match=r"scores of several attacks .bad, good.; pick one with --where attack=bad"):
        audit(tmp_path / "s.parquet", *names, expect=2)
    audit(tmp_path / "s.parquet", *names, "--where", "attack=good", "--claim-epsilon", "1", expect=1)
    assert json.loads(capsys.readouterr().out)["attacks"][0]["auc"][1] > 0.99
    with pytest.raises(AuditError, match="no row with attack = best; there are bad, good"):
        audit(tmp_path / "s.parquet", *names, "--where", "attack=best", expect=2)


BAD = {
    "NaN": ({"score": np.where(VALUES[3] == VALUES, np.nan, VALUES), "member": COINS}, "scores 'score' has 1 NaN"),
    "text": ({"score": ["high"] * 500, "member": COINS}, "expected one number per record"),
    "no score": ({"points": VALUES, "member": COINS}, r"no column that could be the score"),
    "two scores": ({"score": VALUES, "value": VALUES, "member": COINS}, r"2 columns that could be the score \(score, value\)"),
    "no member": ({"score": VALUES}, "could be the membership"),
    "members only": ({"score": VALUES, "member": COINS | True}, "marks members only"),
    "no truth value": ({"score": VALUES, "member": np.arange(500)}, "expected true or false"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_tables_end_in_exit_code_two(tmp_path, name):
    columns, message = BAD[name]
    with pytest.raises(AuditError, match=message):
        audit(table(tmp_path / "s.parquet", **columns), "--delta", "1e-5", expect=2)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--delta", "0"), "delta is 0.0"),
        (("--delta", "1e-5", "--confidence", "1"), "confidence is 1.0"),
        (("--delta", "1e-5", "--game", "two_runs"), "expected one of one_run, independent_trials"),
        (("--delta", "1e-5", "--estimator", "one_ran"), "Did you mean 'one_run'"),
        (("--delta", "1e-5", "--estimator", "clopper_pearson"), "assumes independent_trials, which this game does not grant"),
        (("--delta", "1e-5", "--where", "attack"), "expected COLUMN=VALUE"),
        (("--delta", "1e-5", "--score", "points"), "no column 'points'"),
    ],
)
def test_bad_options_end_in_exit_code_two(tmp_path, options, message):
    with pytest.raises(AuditError, match=message):
        audit(table(tmp_path / "s.csv"), *options, expect=2)


def test_missing_and_hostile_files(tmp_path):
    with pytest.raises(AuditError, match="no file"):
        audit(tmp_path / "absent.csv", "--delta", "1e-5", expect=2)
    np.savez(tmp_path / "s.npz", score=VALUES.astype(object), member=COINS)
    with pytest.raises(AuditError, match="pickled Python objects"):
        audit(tmp_path / "s.npz", "--delta", "1e-5", expect=2)


def test_the_verb_is_registered_and_answers_with_its_code(tmp_path, capsys):
    from audit.cli.app import answer

    path = str(table(tmp_path / "s.csv"))
    assert answer(["scores", path, "--delta", "1e-5", "--claim-epsilon", "1", "--json"]) == 1
    assert json.loads(capsys.readouterr().out)["exit_code"] == 1
    assert answer(["scores", path, "--delta", "2"]) == 2
    assert "error: delta is 2.0" in capsys.readouterr().err
    assert answer(["model", "--target", str(tmp_path / "absent.pt2")]) == 2


# ---------------------------------------------------------------------------------------- simulated audits, delta at epsilon


@pytest.mark.slow
def test_what_simulation_says_of_the_bounds_is_printed(tmp_path, capsys):
    path = table(tmp_path / "s.csv")
    audit(path, "--delta", "1e-5", "--claim-epsilon", "0.5", "--certificates", "40", expect=1)
    message = capsys.readouterr().out
    assert "of 40 audits wrong, at most 5.0% promised; the true rate lies between " in message
    assert message.count("one in ten also searches for its largest bound") == 1
    assert "one_run would have caught, against a claim of 0.50, a true epsilon from" in message
    audit(path, "--delta", "1e-5", "--certificates", "20", "--json", expect=0)
    printed = json.loads(capsys.readouterr().out)
    assert [item["repetitions"] for item in printed["certificates"]] == [20, 20]
    assert all(item["kept"] for item in printed["certificates"])
    assert printed["detectable"][0]["estimator"] == "one_run" and printed["detectable"][0]["draws"] == 100
    audit(path, "--delta", "1e-5", "--certificates", "0", "--json")
    assert json.loads(capsys.readouterr().out)["certificates"] == []


def test_delta_at_an_epsilon(tmp_path, capsys):
    path = table(tmp_path / "s.csv")
    audit(
        path, "--epsilon", "1", "--game", "independent_trials", "--estimator", "rank_exact", "--estimator", "gaussian", "--json"
    )
    printed = json.loads(capsys.readouterr().out)
    free, inside = printed["bounds"]
    assert (free["estimator"], free["family"], inside["family"]) == ("rank_exact", None, "gdp")
    assert 0.5 < free["delta"] < inside["delta"] < 1
    assert free["confidence"] == pytest.approx(0.975)
    audit(path, "--epsilon", "1")
    message = capsys.readouterr().out
    assert "delta at epsilon 1" in message and "one_run: delta at least 0.0" in message


@pytest.mark.parametrize("extra", [("--delta", "1e-5", "--epsilon", "1"), ("--epsilon", "1", "--claim-epsilon", "2")])
def test_one_of_epsilon_and_delta_is_asked_for(tmp_path, extra):
    with pytest.raises(AuditError, match="leave out --delta"):
        audit(table(tmp_path / "s.csv"), *extra, expect=2)


def test_delta_has_the_default_of_audit_model(tmp_path, capsys):
    audit(table(tmp_path / "s.csv"), "--certificates", "0", "--json")
    assert json.loads(capsys.readouterr().out)["delta"] == 1e-5


@pytest.mark.slow
def test_several_columns_share_the_error_rate(tmp_path, capsys):
    peer = np.random.default_rng(8).normal(size=len(COINS))
    path = table(tmp_path / "s.csv", score=VALUES, other=peer, member=COINS)
    both = ("--score", "score", "--score", "other")
    audit(path, "--delta", "1e-5", *both, "--adjacency", "replace_one", "--certificates", "0", "--json")
    report = json.loads(capsys.readouterr().out)
    bounds = [attack["bounds"][0] for attack in report["attacks"]]
    assert [bound["confidence"] for bound in bounds] == [pytest.approx(0.975)] * 2
    assert bounds[0]["epsilon"] > 0 == bounds[1]["epsilon"]
    audit(path, "--delta", "1e-5", *both, "--adjacency", "replace_one", "--certificates", "0", "-o", tmp_path / "out")
    game = json.loads((tmp_path / "out" / "report.json").read_text())["mechanisms"][0]["games"][0]["game"]
    assert game["adjacency"] == "replace_one"


@pytest.mark.parametrize(
    ("header", "options", "message"),
    [
        ("score,member", ("--score", "member"), "'member' is the membership"),
        ("score,score,member", (), "more than one column 'score'"),
        ("score,member", ("--adjacency", "swap"), "--adjacency is 'swap'"),
    ],
)
def test_columns_that_cannot_be_meant_are_refused(tmp_path, header, options, message):
    width = header.count(",") + 1
    rows = "\n".join(",".join([str(row * 0.1)] * (width - 1) + [str(row % 2)]) for row in range(20))
    (tmp_path / "s.csv").write_text(f"{header}\n{rows}\n")
    with pytest.raises(AuditError, match=message):
        audit(tmp_path / "s.csv", "--delta", "1e-5", *options, expect=2)


def test_coins_that_cannot_be_fair_are_refused(tmp_path):
    path = table(tmp_path / "s.csv", score=np.random.default_rng(0).normal(size=1000), member=np.arange(1000) < 950)
    with pytest.raises(AuditError, match="950 of 1000 are members"):
        audit(path, "--delta", "1e-5", expect=2)
