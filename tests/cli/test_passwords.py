"""Passwords in URLs reach neither a terminal nor a report."""

from __future__ import annotations

import pytest

from audit.cli.app import answer
from audit.core.errors import OutputError
from audit.core.visible import without_passwords
from audit.experiment.line import provenance
from reports import tracking
from tests.reports import sample

WORD = "s3cretpw"
URLS = [
    f"postgresql://ann:{WORD}@127.0.0.1:1/db#people",
    f"postgresql://ann:{WORD}/{WORD}@127.0.0.1:1/db#people",
    f"postgresql://127.0.0.1:1/db?user=ann&password={WORD}#people",
    f"postgresql://ann:{WORD}@127.0.0.1:port/db#people",
    f"postgresql://ann:{WORD}@[::1/db",
    f"mysql://ann:{WORD}@host/db",
    f"://ann:{WORD}@host",
]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("url", URLS)
@pytest.mark.parametrize("verb", ["show", "create"])
def test_no_message_about_a_ledger_holds_one(url: str, verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    options = ["--budget", "3", "--delta", "1e-5"] if verb == "create" else []
    assert answer(["ledger", verb, url, *options]) == 2
    streams = capsys.readouterr()
    assert "a ledger is a file" in streams.err
    assert WORD not in streams.out + streams.err and "internal error" not in streams.err


@pytest.mark.parametrize("url", URLS)
def test_no_report_holds_one(url: str) -> None:
    command = provenance.command_line(["run", "quickstart", "--ledger", url, "--set", "title=a:b@c"])
    assert WORD not in command and command.startswith("audit run quickstart --ledger ") and command.endswith("title=a:b@c")


@pytest.mark.slow
def test_a_store_that_fails_is_named_without_one() -> None:
    pytest.importorskip("mlflow", reason="MLflow is an extra: pip install -e '.[mlflow]'")
    with pytest.raises(OutputError) as refusal:
        tracking.log(sample.run(), {}, f"nosuch://ann:{WORD}@host/store")
    assert WORD not in str(refusal.value)


@pytest.mark.parametrize("text", ["http://host:8000/v1", "postgresql://ann@host/db", "audit run a.yaml -o r", "a:b@c"])
def test_text_without_passwords_stays_as_it_is(text: str) -> None:
    assert without_passwords(text) == text
