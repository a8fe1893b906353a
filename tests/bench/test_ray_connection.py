"""Connections to a Ray cluster that nobody answers, that refuses, or whose head dies, end in one sentence soon."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from midway.bench import read_records
from midway.bench.engines import _ray_connection as connections
from midway.bench.engines._ray_connection import HeadLostError, HeadWatch, connect


def stand_in(init: Any, gcs_address: str = "") -> Any:
    """Return an object with the parts of Ray that a connection uses."""
    return SimpleNamespace(
        init=init,
        exceptions=SimpleNamespace(AuthenticationError=PermissionError),
        _private=SimpleNamespace(ray_constants=SimpleNamespace(ENABLE_RAY_CLUSTER=True)),
        get_runtime_context=lambda: SimpleNamespace(gcs_address=gcs_address),
    )


@pytest.fixture
def port() -> int:
    """Return a port at which nobody listens."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


def test_nobody_at_the_address_is_said_at_once(port: int) -> None:
    started = time.monotonic()
    with pytest.raises(ValueError, match=rf"no Ray cluster answers at '127\.0\.0\.1:{port}' \(Connection refused\)"):
        connect(stand_in(None), f"127.0.0.1:{port}")
    with pytest.raises(ValueError, match="no Ray cluster answers at 'ray://127"):
        connect(stand_in(None), f"ray://127.0.0.1:{port}")
    with pytest.raises(ValueError, match="'nonsense' is not an address of a Ray cluster: write HOST:PORT, or auto"):
        connect(stand_in(None), "nonsense")
    assert time.monotonic() - started < 10


@pytest.mark.parametrize("address", ["ray://me:hunter2@127.0.0.1:9", "me:hunter2@127.0.0.1:9", "hunter2@host"])
def test_a_password_in_an_address_is_refused_and_not_shown(address: str) -> None:
    with pytest.raises(ValueError, match="has a login, which Ray does not use") as refused:
        connect(stand_in(None), address)
    assert "hunter2" not in str(refused.value)


@pytest.mark.parametrize("error", [PermissionError("token is missing"), ConnectionError("Failed to connect")])
def test_a_missing_token_is_named(error: Exception) -> None:
    def refuse(**arguments: Any) -> None:
        raise error

    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(ValueError, match=r"does not accept this one .* set RAY_AUTH_MODE=token and RAY_AUTH_TOKEN"):
            connect(stand_in(refuse), address)
    with pytest.raises(ValueError, match=r"no Ray cluster answers .*: start one"):
        connect(stand_in(refuse), "auto")


def test_a_new_cluster_is_for_this_machine_and_keeps_the_handler_of_signals(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: dict[str, Any] = {}

    def init(**arguments: Any) -> None:
        seen.update(arguments, loopback=not ray._private.ray_constants.ENABLE_RAY_CLUSTER)
        signal.signal(signal.SIGTERM, signal.SIG_IGN)  # Ray sets a handler of its own

    ray, before = stand_in(init), signal.getsignal(signal.SIGTERM)
    connect(ray, None)
    assert (seen["address"], seen["loopback"]) == ("local", True)
    assert ray._private.ray_constants.ENABLE_RAY_CLUSTER
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_head_that_answers_no_longer_is_lost(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "CHECK_SECONDS", 0.05)
    with socket.create_server(("127.0.0.1", port)):
        watch = HeadWatch(stand_in(None, f"127.0.0.1:{port}"))
        assert watch.answers()
    assert not watch.answers()
    time.sleep(0.06)
    assert not watch.answers()
    time.sleep(0.06)
    with pytest.raises(HeadLostError, match=rf"127\.0\.0\.1:{port} no longer answers\. What is finished is stored"):
        watch.answers()


@pytest.mark.cluster
def test_a_cluster_of_this_machine_listens_on_the_loopback_interface_alone(tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'midway[cluster]'")
    code = (
        "import json, os, pathlib, ray\n"
        "from midway.bench.engines._ray_connection import connect\n"
        "connect(ray, None)\n"
        "texts = [pathlib.Path(f'/proc/net/{name}').read_text() for name in ('tcp', 'tcp6')]\n"
        "lines = [line.split() for text in texts for line in text.splitlines()]\n"
        "mine = set()\n"
        "for link in pathlib.Path('/proc').glob('[0-9]*/fd/*'):\n"
        "    try:\n"
        "        stat = (link.parents[1] / 'stat').read_text().rpartition(')')[2].split()\n"
        "        if int(stat[2]) == os.getpgrp() or int(stat[3]) == os.getsid(0):\n"
        "            mine.add(os.readlink(link)[8:-1])\n"
        "    except OSError: pass\n"
        "print(json.dumps(sorted({l[1].split(':')[0] for l in lines if l[3] == '0A' and l[9] in mine})))\n"
        "ray.shutdown()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=True,
                          start_new_session=True)  # fmt: skip
    loopback = {"0100007F", "0000000000000000FFFF00000100007F"}
    addresses = set(json.loads(done.stdout.strip().splitlines()[-1]))
    assert addresses
    assert addresses <= loopback


@pytest.mark.cluster
def test_a_head_killed_in_the_middle_of_a_run_is_one_sentence_and_nothing_is_lost(port: int, tmp_path: Path) -> None:
    pytest.importorskip("ray", reason="Ray is not installed: pip install 'midway[cluster]'")
    programs = str(Path(sys.executable).parent)
    token = os.environ | {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "a-token-of-more-than-16-characters"}
    # Separate sessions: `ray stop` would stop every cluster of this machine.
    start = [
        f"{programs}/ray",
        "start",
        "--head",
        "--block",
        f"--port={port}",
        "--num-cpus=1",
        "--include-dashboard=false",
    ]
    head = subprocess.Popen(
        start, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True, env=token
    )
    try:
        wait_for(lambda: listens(port))
        plan = ["--methods", "tent", "--scenarios", "pure:all", "--images", "400", "--out", str(tmp_path)]
        command = [f"{programs}/midway", "run", *plan, "--engine", "ray", "--address", f"127.0.0.1:{port}"]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=token)
        results = tmp_path / "results.jsonl"
        wait_for(lambda: run.poll() is not None or (results.exists() and results.read_bytes().count(b"\n") > 0))
        os.killpg(head.pid, signal.SIGKILL)
        killed = time.monotonic()
        said, _ = run.communicate(timeout=120)
        seconds = time.monotonic() - killed
    finally:
        with suppress(ProcessLookupError):
            os.killpg(head.pid, signal.SIGKILL)
        head.wait()
    assert run.returncode == 1, said
    assert seconds < 30, said
    assert "error: the head of the Ray cluster" in said
    assert "no longer answers. What is finished is stored" in " ".join(said.split())
    assert "Traceback" not in said
    assert 0 < len(read_records(tmp_path)) < 15


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def wait_for(condition: Callable[[], bool]) -> None:
    ends = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < ends
        time.sleep(0.1)
