from __future__ import annotations

import io
import json
import re
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
from rich.console import Console
from typer.testing import CliRunner

from midway.bench import ENGINES, Grid, LocalEngine, engine, read_records, run_cell
from midway.bench.record import Failure, Record
from midway.cli import app, main
from midway.cli.options import parse_integers
from midway.cli.terminal import RunProgress, show_duration
from midway.data.datasets import REGISTRY as DATA_SETS
from midway.methods import METHODS

runner = CliRunner()
FOG = "pure:fog#3"
SMALL = ["--images", "8", "--batch-sizes", "4", "--jobs", "1", "--device", "cpu"]


def invoke(folder: Path, *arguments: str, width: int = 200) -> Any:
    return runner.invoke(app, ["run", *SMALL, "--out", str(folder), *arguments], env={"COLUMNS": str(width)})


def test_a_run_fills_the_store_prints_the_table_and_resumes(tmp_path: Path) -> None:
    flags = ["--methods", "source,bn,tent(steps=2, label='TENT x2')", "--scenarios", "pure:fog#3,mixture:fog/snow"]
    first = invoke(tmp_path, *flags, "--seeds", "0-1")
    assert first.exit_code == 0, first.output
    records = read_records(tmp_path)
    assert len(records) == 3 * 2 * 2
    assert "[12/12] TENT x2 on mixture:fog/snow@0.5, seed 1: " in first.output
    means = {
        label: fmean(
            r.result.accuracy for r in records if r.result and (str(r.cell.scenario), r.cell.label) == (FOG, label)
        )
        for label in ("source", "bn", "TENT x2")
    }
    for label, mean in means.items():
        assert re.search(rf"^ *{label} +{mean:.2f} ± ", first.output, re.MULTILINE), first.output
    assert "mean ± standard deviation over 2 seeds" in first.output
    assert "12 cells finished now. Results: " in first.output
    again = invoke(tmp_path, *flags, "--seeds", "0-1")
    assert again.exit_code == 0
    assert "12 cells are already finished, 0 to go." in again.output
    more = invoke(tmp_path, *flags, "--seeds", "2")
    assert "12 results in the folder have other settings; they are not changed." in more.output
    assert len(read_records(tmp_path)) == 18


def test_a_plan_file_and_flags_that_go_before_it(tmp_path: Path) -> None:
    plan = tmp_path / "plan.toml"
    plan.write_text('methods = "source"\nimages = 9\nseeds = [0, 1]\nscenarios = "pure:fog"\n[[method]]\nname = "bn"\n')
    answer = invoke(tmp_path / "out", str(plan), "--seeds", "5")
    assert answer.exit_code == 0, answer.output
    ran = [(record.cell.label, record.cell.images, record.cell.seed) for record in read_records(tmp_path / "out")]
    assert ran == [("source", 8, 5), ("bn", 8, 5)]
    answer = invoke(tmp_path / "only", str(plan), "--methods", "source", "--seeds", "5")
    assert [record.cell.label for record in read_records(tmp_path / "only")] == ["source"]


@pytest.mark.parametrize("where", ["plan", "flag"])
def test_modules_beside_the_plan_are_imported(where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "plans").mkdir()
    (tmp_path / "plans" / f"beside_the_{where}.py").write_text(
        "import midway\nfrom midway.methods import About, register\n"
        "@register\nclass Mine(midway.Tent):\n"
        '    """Is TENT."""\n'
        f"    about = About('in_{where}', 'Mine', '-', 'batch', 'norm scales and shifts', 'before', '1 F + 1 B')\n"
    )
    plan = tmp_path / "plans" / "plan.toml"
    plan.write_text(f'methods = "in_{where}"\n' + (f'import = "beside_the_{where}"\n' if where == "plan" else ""))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.setattr(METHODS, "_objects", dict(METHODS))
    flags = ["--import", f"beside_the_{where}"] if where == "flag" else []
    answer = invoke(tmp_path / "out", "plans/plan.toml", *flags)
    assert answer.exit_code == 0, answer.output
    (record,) = read_records(tmp_path / "out")
    assert record.result is not None
    assert record.cell.module == f"beside_the_{where}"
    del sys.modules[f"beside_the_{where}"]


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--methods", "tnet"], "--methods: unknown method 'tnet': did you mean 'tent'?"),
        (["--scenarios", "pure:fgo"], "--scenarios: pure:fgo: unknown corruption 'fgo': did you mean 'fog'?"),
        (["--batch-sizes", "501"], "--batch-sizes: batch_sizes must be an integer from 1 to 500, got 501."),
        (["--seeds", "few"], "--seeds 'few' cannot be parsed: write integers, such as 1, 1-4 or 1,7."),
        (
            ["--data", "cifar10-c", "--root", "/no/where"],
            "--root: there is no folder /no/where for cifar10-c: make it with",
        ),
        ([], "plan.toml:3: unknown key 'sedes': did you mean 'seeds'?"),
    ],
)
def test_mistakes_become_one_line_before_anything_runs(
    flags: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "plan.toml").write_text('methods = "bn"\n\n' + ("" if flags else "sedes = 3\n"))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "argv", ["midway", "run", "plan.toml", *flags])
    with pytest.raises(SystemExit) as stop:
        main()
    assert stop.value.code == 1
    assert f"error: {message}" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def failing(cell: Any, *arguments: Any, **settings: Any) -> Record:
    if cell.method == "bn":
        return Record(cell, None, Failure("RuntimeError: [red]no", "trace"), 0.1, {})
    return run_cell(cell, *arguments, **settings)


def test_a_failure_is_told_the_rest_go_on_and_the_status_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = ["--methods", "source,bn", "--scenarios", "pure:fog"]
    with monkeypatch.context() as patch:
        patch.setattr("midway.bench.engines.base.run_cell", failing)
        answer = invoke(tmp_path, *flags)
    assert answer.exit_code == 1
    assert "failed: bn on pure:fog, seed 0: RuntimeError: [red]no" in answer.output
    assert "1 cells failed; the results have their tracebacks. Run again to retry them." in answer.output
    assert re.search(r"^ *source +\d", answer.output, re.MULTILINE)
    again = invoke(tmp_path, *flags)
    assert again.exit_code == 0
    assert "1 cells finished now, 1 before." in again.output


def test_ctrl_c_says_what_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(cell: Any, *arguments: Any, **settings: Any) -> Record:
        if cell.method == "bn":
            raise KeyboardInterrupt
        return run_cell(cell, *arguments, **settings)

    flags = ["--methods", "source,bn", "--scenarios", "pure:fog"]
    with monkeypatch.context() as patch:
        patch.setattr("midway.bench.engines.base.run_cell", interrupted)
        answer = invoke(tmp_path, *flags)
    assert answer.exit_code == 130
    assert "Stopped: 1 of 2 cells are in" in answer.output
    assert "Run the same command to continue." in answer.output
    assert invoke(tmp_path, *flags).exit_code == 0
    assert len(read_records(tmp_path)) == 2


def test_a_dry_run_shows_cells_and_time_and_writes_nothing(tmp_path: Path) -> None:
    flags = ["--methods", "source,bn", "--scenarios", "pure:fog"]
    answer = invoke(tmp_path / "out", *flags, "--dry-run")
    assert answer.exit_code == 0, answer.output
    assert re.search(r"2 cells, 2 to run: about [\d.]+ (s|min) .*with 1 at a time", answer.output)
    plan = {"methods": "source,bn", "scenarios": "pure:fog", "images": 8, "batch_sizes": 4, "device": "cpu"}
    keys = [cell.key for cell in Grid.from_dict(plan).cells()]
    assert all(key in answer.output for key in keys)
    assert not (tmp_path / "out").exists()
    invoke(tmp_path / "out", "--methods", "source", "--scenarios", "pure:fog")
    answer = invoke(tmp_path / "out", *flags, "--dry-run")
    assert "2 cells, 1 to run" in answer.output
    assert re.search(rf"{keys[0]} +done", answer.output)


def test_a_network_without_trained_weights_is_named(tmp_path: Path) -> None:
    answer = invoke(tmp_path, "--methods", "source", "--scenarios", "pure:fog", "--networks", "resnet20")
    assert "resnet20 has no trained weights: its answers are guesses. Write resnet20@FILE" in answer.output
    answer = invoke(tmp_path / "trained", "--methods", "source", "--scenarios", "pure:fog")
    assert "no trained weights" not in answer.output


def test_predictions_are_kept_on_request(tmp_path: Path) -> None:
    invoke(tmp_path, "--methods", "source", "--scenarios", "pure:fog", "--keep-predictions")
    (record,) = read_records(tmp_path)
    assert record.predictions == f"predictions/{record.cell.key}.npz"
    assert (tmp_path / record.predictions).is_file()
    assert json.loads((tmp_path / "results.jsonl").read_text())["command"].split()[0] == "midway"


def test_a_truncated_line_and_another_machine_are_told(tmp_path: Path) -> None:
    flags = ["--methods", "source,bn", "--scenarios", "pure:fog"]
    invoke(tmp_path, *flags)
    before = read_records(tmp_path)
    results = tmp_path / "results.jsonl"
    torch_version = before[0].environment["torch"]
    results.write_text(results.read_text().replace(f'"torch": "{torch_version}"', '"torch": "1.0"')[:-20])
    answer = invoke(tmp_path, *flags)
    assert "The last line of the store was truncated by a kill; its cell is run again." in answer.output
    assert f"Finished cells ran with torch 1.0, this is {torch_version}: last digits may differ." in answer.output
    after = read_records(tmp_path)
    assert [r.result.repeatable() for r in after if r.result] == [r.result.repeatable() for r in before if r.result]


def test_results_of_other_code_are_run_again_or_kept(tmp_path: Path) -> None:
    flags = ["--methods", "source,bn", "--scenarios", "pure:fog,pure:snow"]
    invoke(tmp_path, *flags)
    results = tmp_path / "results.jsonl"
    lines = results.read_text().splitlines()
    other = [re.sub('"code": "[0-9a-f]+"', '"code": "0"', line) if "methods.bn" in line else line for line in lines]
    results.write_text("\n".join(other) + "\n")
    kept = invoke(tmp_path, *flags, "--keep-old")
    assert kept.exit_code == 0, kept.output
    assert "2 of 4 results were made by other code and are kept." in kept.output
    assert "0 cells finished now, 4 before." in kept.output
    again = invoke(tmp_path, *flags)
    assert "2 of 4 results were made by other code and are run again." in again.output
    assert "2 cells finished now, 2 before." in again.output
    assert "other code" not in invoke(tmp_path, *flags).output
    assert len(read_records(tmp_path)) == 6


class Backwards(LocalEngine):
    """An engine of somebody else's: it runs the last task first."""

    def __init__(self, *, jobs: int = 1, stride: int = -1) -> None:
        super().__init__(jobs=jobs)
        self.stride = stride

    def map(self, tasks: Any, on_message: Any = None) -> Any:
        return super().map(tasks[:: self.stride], on_message)


def test_an_engine_is_one_class_and_one_decorator(tmp_path: Path) -> None:
    engine("backwards")(Backwards)
    try:
        flags = ["--methods", "source,bn", "--scenarios", "pure:fog", "--engine", "backwards"]
        answer = invoke(tmp_path / "a", *flags)
        assert answer.exit_code == 0, answer.output
        assert [record.cell.label for record in read_records(tmp_path / "a")] == ["bn", "source"]
        invoke(tmp_path / "b", *flags, "--engine-option", "stride=1")
        assert [record.cell.label for record in read_records(tmp_path / "b")] == ["source", "bn"]
        assert "backwards" in runner.invoke(app, ["list", "engines"]).output
        wrong = invoke(tmp_path / "c", *flags, "--address", "auto")
        assert str(wrong.exception) == "--address is not an option of the engine backwards; it is one of ray."
    finally:
        ENGINES.remove("backwards")
    unknown = invoke(tmp_path / "c", "--methods", "bn", "--engine", "rya")
    assert "unknown engine 'rya': did you mean 'ray'?" in str(unknown.exception)


def test_data_are_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded: list[str] = []
    mini = DATA_SETS["cifar10-mini"]
    load = mini.function

    def counted(root: Path, **which: Any) -> Any:
        loaded.append("mini")
        return load(root, **which)

    monkeypatch.setattr(mini, "function", counted)
    assert invoke(tmp_path, "--methods", "source,bn", "--scenarios", "pure:fog,pure:snow").exit_code == 0
    assert len(loaded) == 1


def test_numbers_as_people_write_them() -> None:
    assert parse_integers("seeds", "0-2, 7") == [0, 1, 2, 7]
    assert [show_duration(seconds) for seconds in (0.04, 59.4, 60, 3599.6)] == [
        "0.0 s",
        "59 s",
        "1 min 0 s",
        "1 h 0 min",
    ]


def test_the_bar_on_a_terminal_shows_batches_accuracies_and_the_time_left() -> None:
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=100)
    plan = {"methods": "source,bn", "images": 8, "batch_sizes": 4, "seeds": [0, 1], "device": "cpu"}
    cells = Grid.from_dict(plan).cells()
    record = next(LocalEngine().run(cells[:1]))
    with RunProgress(console) as progress:
        progress.begin(cells, 3)
        progress.end(record)
        progress.batch(cells[1], 1, 2, 62.5)
        assert progress._left() == f", {show_duration(2.5 * record.seconds)} left"
        shown = progress.bar.tasks[0]
        assert shown.completed == 1.5
        assert "bn on pure:gaussian_noise, seed 0: batch 1/2, 62.5 % so far" in shown.description
        assert record.result is not None
        assert f"source {record.result.accuracy:.1f}" in shown.description
    assert "3 cells are already finished, 4 to go." in out.getvalue()
