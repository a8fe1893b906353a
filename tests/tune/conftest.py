from __future__ import annotations

import os
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import optuna
import pytest

from midway.bench.resources import ResourceCache
from midway.tune import Search
from midway.tune import study as studies
from midway.tune.storage import open_storage
from toy_search import toy


def programs() -> Path | None:
    """Return the folder of PostgreSQL's programs: on the path, or where Debian puts them."""
    found = shutil.which("initdb")
    places = [Path(found).resolve().parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places and (places[-1] / "pg_ctl").exists() else None


@pytest.fixture(scope="session")
def postgresql() -> Iterator[str]:
    """Start a PostgreSQL server of its own on the loopback interface, and return its URL."""
    folder = programs()
    if folder is None:
        pytest.skip("no PostgreSQL server here: there is no initdb (Debian: apt-get install postgresql)")
    user = "postgres" if os.getuid() == 0 else None  # the server refuses to run as root
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    place = Path(tempfile.mkdtemp(prefix="midway-postgresql-"))
    if user:
        shutil.chown(place, user)

    def call(program: str, *arguments: str) -> None:
        command = [str(folder / program), *arguments]
        subprocess.run(command, check=True, user=user, cwd=place, stdout=subprocess.DEVNULL, timeout=120)

    try:
        call("initdb", "-D", f"{place}/data", "-U", "midway", "-A", "trust", "--no-sync")
        options = f"-c listen_addresses=127.0.0.1 -p {port} -k {place} -c fsync=off"
        call("pg_ctl", "-D", f"{place}/data", "-l", f"{place}/log", "-w", "-t", "90", "-o", options, "start")
        try:
            yield f"postgresql://midway@127.0.0.1:{port}/postgres"
        finally:
            call("pg_ctl", "-D", f"{place}/data", "-m", "immediate", "stop")
    finally:
        shutil.rmtree(place, ignore_errors=True)


@pytest.fixture(params=["journal", "sqlite", "postgresql"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return a storage of each kind that users share."""
    if request.param == "postgresql":
        url: str = request.getfixturevalue("postgresql")
        return url
    return str(tmp_path / "study.journal") if request.param == "journal" else f"sqlite:///{tmp_path}/study.db"


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[[Search], optuna.Study]]:
    """Open the study of a search in the journal ``study`` of the test."""
    with open_storage(str(tmp_path / "study")) as storage:
        yield lambda search: studies.open_study(search, storage, ResourceCache())


@pytest.fixture
def by_formula(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(studies, "measure_accuracy", toy)
