from __future__ import annotations

import json
import os
import re
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from midway.bench import Cell, Failure, Record, Result, Store, StoreError, load_predictions, read_records
from midway.bench.record import FORMAT
from midway.streams import Scenario


def record(seed: int, accuracy: float = 75.0, *, predictions: bool = False, code: str = "new") -> Record:
    cell = Cell(
        method="tent",
        label="TENT",
        settings={"betas": (0.9, 0.999), "lr": 1e-3, "loss": "entropy"},
        network="wrn16_2.cifar10",
        weights="0123456789abcdef",
        data="cifar10-mini",
        root=None,
        images=4,
        size=None,
        scenario=Scenario.parse("pure:fog"),
        seed=seed,
        batch_size=2,
        precision="float32",
        device="cpu",
        threads=1,
        module="midway.methods.tent",
        code=code,
    )
    metrics = {"accuracy": accuracy, "seconds_per_batch": 0.5}
    result = Result(metrics, {"fog": {"images": 4, "accuracy": accuracy}}, (50.0, 100.0))
    answers: dict[str, Any] = {"logits": np.full((4, 2), seed / 3, np.float32), "labels": np.arange(4)}
    kept = answers if predictions else {}
    return Record(cell, result, None, 1.5, {"torch": "2"}, arrays=kept)


def failed(seed: int) -> Record:
    return replace(record(seed), result=None, failure=Failure("ValueError: no", "Traceback: é\n  line"))


def filled(folder: Path, count: int = 3) -> bytes:
    with Store(folder) as store:
        for seed in range(count):
            store.add(record(seed), command="midway run é")
    return (folder / "results.jsonl").read_bytes()


def test_what_is_added_comes_back(tmp_path: Path) -> None:
    filled(tmp_path / "new" / "run")
    records = read_records(tmp_path / "new" / "run")
    assert [each.cell for each in records] == [record(seed).cell for seed in range(3)]
    assert [each.result for each in records] == [record(seed).result for seed in range(3)]
    assert records[0].cell.settings["betas"] == (0.9, 0.999)
    assert (records[0].command, records[0].seconds, records[0].environment) == ("midway run é", 1.5, {"torch": "2"})
    lines = (tmp_path / "new" / "run" / "results.jsonl").read_text().splitlines()
    assert [json.loads(line)["format"] for line in lines] == [FORMAT] * 3
    assert [json.loads(line)["key"] for line in lines] == [each.cell.key for each in records]


def test_failed_cells_are_not_finished_and_run_again(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add(failed(0), command="")
        assert not store.has(record(0).cell)
        store.add(record(0), command="")
        assert store.has(record(0).cell)
        store.add(failed(1), command="")
    with Store(tmp_path) as store:
        assert store.has(record(0).cell)
        assert not store.has(record(1).cell)
        assert store.find(record(1).cell).failure == failed(1).failure  # type: ignore[union-attr]
    assert len(read_records(tmp_path)) == 3  # nothing is ever rewritten


def test_a_repetition_that_fails_hides_no_result(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add(record(0), command="")
        store.add(failed(0), command="")
        assert store.has(record(0).cell)
    with Store(tmp_path) as store:
        assert store.has(record(0).cell)


def test_a_line_truncated_at_any_byte_is_recovered(tmp_path: Path) -> None:
    whole = filled(tmp_path)
    last = whole.rindex(b"\n", 0, -1) + 1
    for cut in [*range(last + 1, len(whole) - 1, 37), len(whole) - 2]:
        (tmp_path / "results.jsonl").write_bytes(whole[:cut])
        assert len(read_records(tmp_path)) == 2  # a reader leaves the file alone
        with Store(tmp_path) as store:
            assert store.truncated
            assert len(store) == 2
            assert not store.has(record(2).cell)
            store.add(record(2), command="midway run é")
        again = [replace(each, finished="") for each in read_records(tmp_path)]
        assert len(again) == 3
        assert again[2].result == record(2).result
    (tmp_path / "results.jsonl").write_bytes(whole)
    with Store(tmp_path) as store:
        assert not store.truncated
    (tmp_path / "results.jsonl").write_bytes(whole + b"\0" * 500)  # blocks that were allotted and never written
    with Store(tmp_path) as store:
        assert store.truncated
        assert len(store) == 3


def test_damaged_answers_are_named(tmp_path: Path) -> None:
    (tmp_path / "answers.npz").write_bytes(b"PK\x03\x04 and no more")
    filled(tmp_path)
    damaged = replace(read_records(tmp_path)[0], predictions="answers.npz")
    with pytest.raises(StoreError, match=r"answers.npz is damaged .*: remove it, then run the plan again"):
        load_predictions(tmp_path, damaged)


def test_a_last_line_without_its_end_is_kept(tmp_path: Path) -> None:
    whole = filled(tmp_path)
    (tmp_path / "results.jsonl").write_bytes(whole[:-1])  # as some editors leave a file
    assert len(read_records(tmp_path)) == 3
    with Store(tmp_path) as store:
        assert not store.truncated
        assert store.has(record(2).cell)
    assert (tmp_path / "results.jsonl").read_bytes() == whole


def test_nothing_is_cut_off_where_something_else_is_wrong(tmp_path: Path) -> None:
    lines = filled(tmp_path).splitlines()
    for content in (b"garbage\n" + lines[1][:-20], b"somebody else's notes"):
        (tmp_path / "results.jsonl").write_bytes(content)
        with pytest.raises(StoreError, match="Nothing was changed"):
            Store(tmp_path)
        assert (tmp_path / "results.jsonl").read_bytes() == content


@pytest.mark.parametrize(
    ("damage", "message"),
    [
        (b"garbage", "this line is not a result"),
        (b"\xff\xfe\x00", "this line is not a result"),
        (b"", "this line is not a result"),
        (b"[1, 2]", "this line is not a result"),
        (b"{}", "this line is not a result ('format')"),
        (b'{"format": 2, "key": "x"}', "this result is incomplete"),
        (b'{"format": 3}', "written by a newer version of midway (format 3, this one reads 2)"),
        (b'{"format": 0}', "written by another version of midway (format 0, this one reads 2)"),
    ],
)
def test_damage_within_the_file_is_reported_with_its_line(tmp_path: Path, damage: bytes, message: str) -> None:
    lines = filled(tmp_path).splitlines()
    content = b"\n".join([lines[0], damage, lines[2]]) + b"\n"
    (tmp_path / "results.jsonl").write_bytes(content)
    for read in (read_records, Store):
        with pytest.raises(StoreError, match=re.escape(f"{tmp_path / 'results.jsonl'}:2: {message}")):
            read(tmp_path)
    assert (tmp_path / "results.jsonl").read_bytes() == content


def test_two_runs_never_mix(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add(record(0), command="")
        with pytest.raises(StoreError, match=rf"another run \(process {os.getpid()}\) is writing to .*--wait"):
            Store(tmp_path)
        store.add(record(1), command="")
    with Store(tmp_path) as store:
        assert len(store) == 2


WAITER = """
import sys
from pathlib import Path
from midway.bench import Store
print("waiting", flush=True)
with Store(Path(sys.argv[1]), wait=True) as store:
    print(len(store), flush=True)
"""


def test_the_second_run_waits_if_told_to(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        waiter = subprocess.Popen([sys.executable, "-c", WAITER, str(tmp_path)], stdout=subprocess.PIPE, text=True)
        assert waiter.stdout is not None
        assert waiter.stdout.readline() == "waiting\n"
        store.add(record(0), command="")
        assert waiter.poll() is None
    with waiter:
        assert waiter.stdout.read() == "1\n"  # it saw what the first run wrote


@contextmanager
def room_for(size: int) -> Iterator[None]:
    """Let files grow to so many bytes: the system then writes a part, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("room", [0, 1, 300])
def test_a_full_disk_loses_nothing(tmp_path: Path, room: int) -> None:
    whole = filled(tmp_path)
    with Store(tmp_path) as store:
        message = "free some space, then run the same command again. The 3 results so far are safe"
        with room_for(len(whole) + room), pytest.raises(StoreError, match=message):
            store.add(record(3), command="")
        assert (tmp_path / "results.jsonl").read_bytes() == whole
        store.add(record(3), command="")
    assert len(read_records(tmp_path)) == 4


def test_predictions_are_kept_whole_or_not_at_all(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        with room_for(100), pytest.raises(StoreError, match="free some space"):
            store.add(record(0, predictions=True), command="")
        assert list((tmp_path / "predictions").iterdir()) == []
        assert store.records == []
        store.add(record(0), command="")
        assert store.has(record(0).cell)
        assert not store.has(record(0).cell, predictions=True)
        store.add(record(1, predictions=True), command="")
        assert store.has(record(1).cell, predictions=True)
    without, kept = read_records(tmp_path)
    arrays = load_predictions(tmp_path, kept)
    assert np.array_equal(arrays["logits"], record(1, predictions=True).arrays["logits"])
    with pytest.raises(FileNotFoundError, match="run it with --keep-predictions"):
        load_predictions(tmp_path, without)
    (tmp_path / "predictions" / f"{kept.cell.key}.npz").unlink()
    with Store(tmp_path) as store:
        assert not store.has(kept.cell, predictions=True)


@contextmanager
def as_a_plain_user() -> Iterator[None]:
    """Give up the rights of the administrator, to whom every folder is open."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(65534)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)


def test_a_folder_one_must_not_write_to(tmp_path: Path) -> None:
    (tmp_path / "closed").mkdir(mode=0o555)
    tmp_path.chmod(0o755)
    with as_a_plain_user(), pytest.raises(StoreError, match=r"cannot be written to .*: choose another --out"):
        Store(tmp_path / "closed")
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreError, match=r"cannot be written to \(File exists\)|\(Not a directory\)"):
        Store(tmp_path / "file")
    with pytest.raises(FileNotFoundError, match=r"holds no results: there is no results\.jsonl in it"):
        read_records(tmp_path)


def test_labels_are_the_plans(tmp_path: Path) -> None:
    filled(tmp_path, 1)
    with Store(tmp_path) as store:
        renamed = store.find(replace(record(0).cell, label="Tent!"))
        assert renamed is not None
        assert renamed.cell.label == "Tent!"
        assert renamed.result == record(0).result
        assert store.find(record(9).cell) is None
        store.add(failed(1), command="")
        failure = store.find(replace(record(1).cell, label="Tent!"))
        assert failure is not None
        assert (failure.cell.label, failure.result) == ("Tent!", None)


def test_results_of_other_code_are_found_only_on_request(tmp_path: Path) -> None:
    new = record(0).cell
    with Store(tmp_path) as store:
        store.add(record(0, 70.0, code="old"), command="")
        store.add(record(1), command="")
        assert not store.has(new)
        assert store.has(new, keep_old=True)
        assert store.out_of_date([new, record(1).cell, record(2).cell]) == [new]
        old = store.find(new, keep_old=True)
        assert old is not None
        assert (old.result, old.cell.code) == (record(0, 70.0).result, "old")
        store.add(replace(failed(0), cell=new), command="")
        assert store.has(new, keep_old=True)  # a failure of the new code hides no result
        store.add(record(0, 80.0), command="")
        assert store.has(new)
        assert store.out_of_date([new]) == []
        for keep_old in (False, True):  # the result of this code comes first
            found = store.find(new, keep_old=keep_old)
            assert found is not None
            assert found.result == record(0, 80.0).result
        previous = store.find(replace(new, code="old"))  # a checkout of the old code still has its results
        assert previous is not None
        assert previous.result == record(0, 70.0).result


def test_repeatable_numbers_leave_times_and_memory_out() -> None:
    one = record(0).result
    assert one is not None
    two = replace(one, metrics=one.metrics | {"seconds_per_batch": 9.0, "peak_memory_mb": 3.0})
    assert one.repeatable() == two.repeatable()
    assert one.repeatable() != replace(one, metrics=one.metrics | {"accuracy": one.accuracy + 1e-13}).repeatable()
    nan = replace(one, metrics=one.metrics | {"calibration_error": float("nan")})
    assert nan.repeatable() == replace(nan).repeatable()


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        (b'"environment": {"torch": "2"}', b'"environment": null', "environment is None, expected dict"),
        (b'"images": 4, "size"', b'"images": "four", "size"', "images is 'four', expected int | None"),
        (b'{"images": 4, "accuracy"', b'{"images": "four", "accuracy"', "fog is not a table of numbers"),
        (b'"accuracy": 75.0, "seconds', b'"accuracy": [], "seconds', "metrics is not a table of numbers"),
        (b"[50.0, 100.0]", b'["a"]', "batch_accuracies are not numbers"),
        (b'"label": "TENT"', b'"label": "\\ud800"', "half of a character (a lone surrogate)"),
        (b'"threads": 1', b'"threads": ' + b"[" * 100_000 + b"]" * 100_000, "it is nested too deeply"),
        (b'"seconds": 1.5', b'"seconds": "long"', "seconds is 'long', expected float"),
    ],
)
def test_a_line_with_other_values_is_named(tmp_path: Path, old: bytes, new: bytes, reason: str) -> None:
    content = filled(tmp_path)
    assert old in content
    damaged = content.replace(old, new, 1)
    (tmp_path / "results.jsonl").write_bytes(damaged)
    with pytest.raises(StoreError, match=rf"results\.jsonl:1: .*{re.escape(reason)}"):
        read_records(tmp_path)
    with pytest.raises(StoreError, match=r"results\.jsonl:1"):
        Store(tmp_path)
    assert (tmp_path / "results.jsonl").read_bytes() == damaged


def test_partial_predictions_of_a_killed_run_are_removed(tmp_path: Path) -> None:
    with Store(tmp_path) as store:
        store.add(record(0, predictions=True), command="")
    (tmp_path / "predictions" / ".x.npz.0123abcd.partial").write_bytes(b"left")
    Store(tmp_path).close()
    assert [path.suffix for path in (tmp_path / "predictions").iterdir()] == [".npz"]
