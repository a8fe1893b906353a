"""SIGTERM and SIGHUP end a command like Ctrl-C: what is finished is stored, no process stays, the status tells."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from midway import cli
from midway.bench import read_records
from midway.cli import signals
from midway.comparison import run
from midway.data.manifest import Manifest

RUN = ["run", "--methods", "source", "--images", "100", "--batch-sizes", "50", "--seeds", "0-99"]
TUNE = ["tune", "tent", "--scenarios", "pure:spatter", "--images", "20", "--batch-size", "10", "--trials", "999"]
MAKE = ["data", "make", "cifar10-c", "--from", "cifar10-mini"]


TINY = Path(__file__).parents[1] / "chaos" / "network.py"
PATIENCE = 600.0
"""Seconds after which something hangs; a loaded machine takes long to start a process."""


def _listen() -> None:
    """Let a new process react to signals, also if the tests run in the background or under nohup."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


@contextmanager
def started(command: list[str], out: Path) -> Iterator[subprocess.Popen[str]]:
    """Start midway in a process group of its own, of which nothing is left if the block fails."""
    process = subprocess.Popen(
        [sys.executable, "-m", "midway", *command, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        preexec_fn=_listen,
    )
    try:
        with process:
            yield process
    except BaseException:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        raise


def wait_for(path: Path, process: subprocess.Popen[str], size: int = 1) -> None:
    ends = time.monotonic() + PATIENCE
    while not path.exists() or path.stat().st_size < size:
        assert process.poll() is None, f"the command ended with status {process.returncode} and no {path.name}"
        assert time.monotonic() < ends, f"{path} does not appear"
        time.sleep(0.05)


def living(session: int) -> list[str]:
    """Return the processes of a session that are still alive."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            name, _, rest = stat.read_text().rpartition(")")
        except OSError:
            continue
        if int(rest.split()[3]) == session and rest.split()[0] != "Z":
            found.append(name)
    return found


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize(
    ("command", "jobs", "number", "everybody"),
    [
        (RUN, 2, signal.SIGTERM, False),
        (MAKE, 1, signal.SIGHUP, True),
        pytest.param(RUN, 1, signal.SIGHUP, True, marks=pytest.mark.chaos),
        pytest.param(TUNE, 2, signal.SIGTERM, True, marks=pytest.mark.chaos),
        pytest.param(MAKE, 2, signal.SIGINT, False, marks=pytest.mark.chaos),
    ],
)
def test_signals_stop_in_order(
    tmp_path: Path, command: list[str], jobs: int, number: signal.Signals, everybody: bool
) -> None:
    with started([*command, "--jobs", str(jobs)], tmp_path) as process:
        if command is MAKE:
            wait_for(tmp_path / "gaussian_noise.npy", process)
        else:
            wait_for(tmp_path / ("results.jsonl" if command is RUN else "study.journal"), process, 6_000)
        if everybody:
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        output, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 128 + number, output
    assert "Traceback" not in output
    ends = time.monotonic() + PATIENCE  # the resource tracker of multiprocessing ends after its parent
    while living(process.pid) and time.monotonic() < ends:
        time.sleep(0.1)
    assert not living(process.pid)
    shown = output.replace("\n", " ")
    if command is RUN:
        finished = [record for record in read_records(tmp_path) if record.result is not None]
        said = re.search(r"Stopped: (\d+) of 100 cells are in", shown)
        assert said is not None, output
        assert 0 <= len(finished) - int(said[1]) <= jobs  # a worker may store its result while the run ends
    elif command is TUNE:
        assert "Stopped: " in shown
        assert "of 999 trials are stored" in shown
    else:
        manifest = Manifest.read(tmp_path)
        assert manifest is not None
        assert f"Stopped: {len(manifest.files) - 1} of 19 parts are in" in shown
        assert not [path for path in tmp_path.iterdir() if path.name.startswith(".")]


@pytest.fixture
def _restored() -> Iterator[None]:
    """Restore the handlers of this process after a test."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)
    signals._received.clear()


@pytest.mark.usefixtures("_restored")
def test_a_signal_that_is_ignored_stays_ignored() -> None:
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as nohup does
    signals.stop_on_signals()
    os.kill(os.getpid(), signal.SIGHUP)
    assert not signals.interrupted()


@pytest.mark.usefixtures("_restored")
def test_a_command_that_stores_nothing_ends_with_the_status_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli.listings.describe, "overview", lambda: os.kill(os.getpid(), signal.SIGTERM))
    monkeypatch.setattr(sys, "argv", ["midway", "methods"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 143
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.usefixtures("_restored")
@pytest.mark.parametrize("command", ["compare", "recommend"])
@pytest.mark.parametrize("stored", [True, False])
def test_comparisons_say_how_much_is_done(
    command: str, stored: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    first = run._run

    def stop_in_the_second(network: Any, cell: Any, *arguments: Any, **settings: Any) -> Any:
        if cell.method == "bn":
            os.kill(os.getpid(), signal.SIGTERM)
        return first(network, cell, *arguments, **settings)

    monkeypatch.setattr(run, "_run", stop_in_the_second)
    out = ["--out", str(tmp_path / "out")] if stored else []
    arguments = [f"{TINY}:tiny", "cifar10-mini", "--methods", "bn,tent", "--images", "20"]
    monkeypatch.setattr(sys, "argv", ["midway", command, *arguments, *out])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert ended.value.code == 143
    said = capsys.readouterr().err
    assert "Traceback" not in said
    kept = f"are in {tmp_path / 'out'}: run the same command" if stored else "are finished, and nothing is stored: give"
    assert f"Stopped: 1 of 3 methods {kept}" in said
    if stored:
        assert [record.cell.label for record in read_records(tmp_path / "out")] == ["source"]
