"""Small texts that commands read and print."""

from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console

from midway.cli.options import create_engine, parse_integers, split_commas
from midway.cli.terminal import ProgressLine, show_duration, terminal


def test_options_of_engines_come_from_their_constructors() -> None:
    assert vars(create_engine("local", {"jobs": None, "address": None}, None, jobs=2))["jobs"] == 2
    assert vars(create_engine("local", {"jobs": 3}, [], jobs=2))["jobs"] == 3
    options = vars(create_engine("ray", {"address": "auto"}, ["retries=5"], jobs=2))
    assert (options["address"], options["retries"]) == ("auto", 5)
    with pytest.raises(ValueError, match="--address is not an option of the engine local; it is one of ray"):
        create_engine("local", {"address": "auto"}, None, jobs=2)
    with pytest.raises(ValueError, match="--partition is not an option of the engine local: it has jobs, resources"):
        create_engine("local", {}, ["partition=gpu"], jobs=2)
    with pytest.raises(ValueError, match="'partition' cannot be parsed: write NAME=VALUE"):
        create_engine("local", {}, ["partition"], jobs=2)


def test_lists_and_ranges() -> None:
    assert split_commas("bn, tent,") == ["bn", "tent"]
    assert split_commas(None) is None
    assert parse_integers("seeds", "0-2,7") == [0, 1, 2, 7]


def test_durations_and_progress_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert [show_duration(seconds) for seconds in (3.2, 45, 75, 7320)] == ["3.2 s", "45 s", "1 min 15 s", "2 h 2 min"]
    out = io.StringIO()
    with ProgressLine(Console(file=out)) as progress:
        progress("counting", 1.0, 4.0)
    assert out.getvalue().strip() == "25 %  counting"
    terminal(sys.stdout).print("pure:fog: no picture of fog")
    assert capsys.readouterr().out == "pure:fog: no picture of fog\n"
