"""`midway tune`: search the hyper-parameters of a method on corruptions that no result is reported on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from midway._files import write_atomically
from midway.bench import Engine, LocalEngine, Store, load_plan, run
from midway.bench.budget import read_duration
from midway.bench.entries import READERS, import_plugins, parse_entries
from midway.bench.resources import ResourceCache, check_data
from midway.cli.options import ENGINE_HELP, Address, Classes, EngineOption, Import, Size, create_engine, split_commas
from midway.cli.run import check_device, command_line, find_records
from midway.cli.signals import create_exit
from midway.cli.terminal import ProgressLine, RunProgress, show_duration, terminal
from midway.report import search_run, write_report
from midway.report.figures import draw_figures, save
from midway.significance import PairedComparison, compare_paired
from midway.streams import Scenario
from midway.tune import SCENARIOS, Search, StudyResult, TrialRecord, held_out_plan
from midway.tune import tune as run_search
from midway.tune.result import HELD_OUT, STUDY
from midway.tune.run import finished_trials
from midway.tune.search import check_labels


def tune(
    method: Annotated[
        str, typer.Argument(help='A name that `midway methods` lists, optionally with fixed settings: "tea(steps=2)".')
    ],
    trials: Annotated[int, typer.Option(min=1, help="Number of trials of the study in all.")] = 50,
    timeout: Annotated[str, typer.Option(help="Begin no trial after this time, such as 30m (default: none).")] = "",
    storage: Annotated[
        str, typer.Option(help="A file, or a URL: sqlite:///tune.db, postgresql://user@host/name (default: in --out).")
    ] = "",
    data: Annotated[
        str, typer.Option(help="Data set, see `midway data ls`; folder is a folder of your own images.")
    ] = "cifar10-mini",
    root: Annotated[Path | None, typer.Option(help="Folder of the data set (default: in the data home).")] = None,
    network: Annotated[
        str,
        typer.Option(
            help="A name, a checkpoint, architecture@checkpoint, file.py:function for your own network, or an "
            "untrained architecture."
        ),
    ] = "wrn16_2.cifar10",
    scenarios: Annotated[
        str,
        typer.Option(
            help="Streams of the tuning corruptions, separated by commas (default: eight of three kinds); pure:clean "
            "is the images as they are."
        ),
    ] = "",
    images: Annotated[int | None, typer.Option(min=1, help="Number of images of the set (default: all).")] = None,
    size: Size = None,
    classes: Classes = None,
    batch_size: Annotated[int, typer.Option(min=1, max=500, help="Images per batch.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Seed of streams, method and search.")] = 0,
    precision: Annotated[str, typer.Option(help="float32, bf16 or auto.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Threads per trial.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at a time.")] = 1,
    engine: Annotated[str, typer.Option(help=f"{ENGINE_HELP} All machines must reach the storage.")] = "local",
    address: Address = None,
    cpus_per_task: Annotated[float | None, typer.Option(help="CPUs per trial with Ray (default: threads).")] = None,
    gpus_per_task: Annotated[float | None, typer.Option(help="GPUs per trial with Ray (default: 1 on cuda).")] = None,
    engine_option: EngineOption = None,
    gain: Annotated[bool, typer.Option(help="Measure the gain on corruptions outside the search.")] = True,
    import_: Import = None,
    out: Annotated[Path | None, typer.Option(help="Folder for the result (default: runs/tune/METHOD).")] = None,
) -> None:
    """Search the hyper-parameters of a method. The same command continues the search, also on other machines."""
    console = terminal()
    import_plugins(split_commas(import_) or [])
    entries = parse_entries(method)
    if len(entries) != 1:
        raise ValueError(f"'{method}' has {len(entries)} methods: search one at a time.")
    entry = entries[0]
    folder = out or Path("runs/tune") / entry.name
    streams = tuple(str(Scenario.parse(text)) for text in split_commas(scenarios) or ())
    search = Search(
        method=entry.name,
        held=entry.settings,
        scenarios=streams or SCENARIOS,
        network=network,
        data=data,
        root=None if root is None else str(root.resolve()),
        images=images,
        size=size,
        classes=None if classes is None else READERS["classes"]("classes", classes),
        batch_size=batch_size,
        seed=seed,
        precision=precision,
        device=device,
        threads=threads,
    )
    options = {"address": address, "cpus_per_task": cpus_per_task, "gpus_per_task": gpus_per_task}
    chosen = create_engine(engine, options, engine_option, jobs=jobs)
    _check(console, search, chosen, folder)
    seconds = read_duration(timeout) if timeout else float("inf")
    try:
        with ProgressLine(console) as progress:
            result = run_search(
                search,
                storage=storage or str(folder / "study.journal"),
                trials=trials,
                seconds=seconds,
                jobs=jobs,
                engine=chosen,
                on_trial=_TrialPrinter(console, progress, trials),
            )
    except KeyboardInterrupt:
        done = finished_trials(search, storage or str(folder / "study.journal"))
        console.print(f"Stopped: {done} of {trials} trials are stored. Run the same command to continue.")
        raise create_exit() from None
    result = replace(result, command=command_line())
    _show(console, result)
    plan = _save(console, folder, search, result)
    _finish(console, folder, result, plan if gain else None, jobs)


def _check(console: Console, search: Search, engine: Engine, folder: Path) -> None:
    """Raise before a search begins if it cannot run, or if the folder has the result of another search."""
    cells = search.cells({})
    check_device(cells, engine)
    check_data(cells, engine.resources)
    check_labels(cells, engine.resources or ResourceCache())
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / STUDY
    if not path.is_file():
        return
    try:
        other = StudyResult.load(path).study
    except ValueError:  # the storage has every trial, so the file is only a copy
        aside = path.replace(path.with_name(f"{STUDY}.damaged"))
        console.print(f"{path} was damaged: it is now {aside.name}, and is written again.", soft_wrap=True)
        return
    if other != search.name:
        raise ValueError(
            f"{folder} has the result of another search ({other}; this one is {search.name}): choose another --out, or "
            f"remove {path}."
        )


def _save(console: Console, folder: Path, search: Search, result: StudyResult) -> Path:
    """Write the result, the best settings as a plan, and the figures; return the plan."""
    result.save(folder / STUDY)
    plan = write_atomically(folder / "best.toml", held_out_plan(search, result))
    for name, figure in draw_figures(result):
        save(figure, folder / name)
    console.print(f"Best settings: {plan} (for `midway run`), every trial: {folder / STUDY}", soft_wrap=True)
    return plan


def _finish(console: Console, folder: Path, result: StudyResult, plan: Path | None, jobs: int) -> None:
    """Measure the gain, if there is a plan for it, and write the report."""
    ending: Exception | None = None
    if running := result.count("running"):
        console.print(f"{running} trials still run elsewhere. Run the same command again for the final result.")
    elif result.best.settings == result.defaults:
        console.print("The defaults are the best so far: there is no gain to measure.")
    elif plan is not None:
        try:
            measured = measure_gain(console, plan, jobs, command=result.command)
            console.print(f"On corruptions outside the search: {measured}", highlight=False, soft_wrap=True)
        except ValueError as error:  # the result deserves a report in any case
            ending = error
        except KeyboardInterrupt:
            console.print("Stopped while measuring the gain. Run the same command to continue.")
            ending = create_exit()
    if failed := result.count("failed"):
        console.print(f"{failed} trials failed; {STUDY} has the reasons.")
    page = write_report(search_run(folder, result), folder / "report.html")
    console.print(f"Report: {page}", highlight=False, soft_wrap=True, markup=False)
    if ending is not None:
        raise ending


def measure_gain(console: Console, plan: Path, jobs: int = 1, *, command: str = "") -> PairedComparison:
    """Run the plan of a search, defaults and tuned on held-out streams, and compare them stream by stream."""
    cells = load_plan(plan).cells()
    with Store(plan.parent / HELD_OUT) as store:
        with RunProgress(console, jobs) as progress:
            run(cells, store, LocalEngine(jobs=jobs), command=command, watcher=progress)
        records = find_records(store, cells)
    accuracy: dict[str, list[float]] = {}
    for record in records:
        if record.result is None:
            raise ValueError(f"the gain cannot be measured: cells failed, see {store.path}.")
        accuracy.setdefault(record.cell.label, []).append(record.result.accuracy)
    defaults, tuned = accuracy.values()
    return compare_paired(tuned, defaults, rival="the defaults")


class _TrialPrinter:
    """Prints trials as they end."""

    def __init__(self, console: Console, progress: ProgressLine, trials: int) -> None:
        self.console, self.progress, self.trials = console, progress, trials
        self.best: TrialRecord | None = None

    def __call__(self, trial: TrialRecord) -> None:
        if trial.state == "complete" and (self.best is None or (trial.accuracy or 0) > (self.best.accuracy or 0)):
            self.best = trial
        duration = "" if trial.seconds is None else f", {show_duration(trial.seconds)}"
        value = "" if trial.accuracy is None else f" {trial.accuracy:.2f} %"
        line = f"trial {trial.number} {trial.state}{value}{duration}  {_settings(trial)} {trial.failure}".rstrip()
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)
        status = "searching" if self.best is None else f"best so far {self.best.accuracy:.2f} %"
        self.progress(status, min(trial.number + 1, self.trials), self.trials)


def _settings(trial: TrialRecord) -> str:
    return " ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in trial.settings.items()
    )


def _show(console: Console, result: StudyResult) -> None:
    best = result.best
    gain = "" if result.gain is None else f", {result.gain:+.2f} points against the defaults"
    states = ", ".join(f"{n} {state}" for state in ("complete", "pruned", "failed") if (n := result.count(state)))
    console.print(
        f"{result.method}, {states}. Best, trial {best.number}: {best.accuracy:.2f} %{gain}.", highlight=False
    )
    console.print(_settings(best), highlight=False, soft_wrap=True)
    if result.importance:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in result.importance.items())
        console.print(f"Importance: {shares}", highlight=False, soft_wrap=True)
