"""`midway tune`: search a method's hyper-parameters on corruptions that no result is reported on."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from midway.bench import LocalEngine, Store, load_plan, run
from midway.bench.budget import read_duration
from midway.bench.engines.ray import RayEngine
from midway.bench.entries import Entry, parse_entries
from midway.bench.plan import import_methods
from midway.cli.progress import ProgressLine, RunProgress, in_words
from midway.cli.run import EngineName, check_data, check_device, listed
from midway.cli.terminal import terminal
from midway.report import write_report
from midway.report.figures import draw_figures, save
from midway.report.stored_run import HELD_OUT, STUDY, search_run
from midway.significance import PairedComparison, compare_paired
from midway.streams import Scenario
from midway.tune import SCENARIOS, Findings, Search, TrialRecord, held_out_plan
from midway.tune import tune as search_for
from midway.tune.passwords import without_password


def tune(
    method: Annotated[
        str,
        typer.Argument(help='A name that `midway methods` lists, or such as "tea(langevin_steps=1)": that is held.'),
    ],
    trials: Annotated[int, typer.Option(min=1, help="Trials the study shall have in all.")] = 50,
    timeout: Annotated[str, typer.Option(help="Begin no trial after this time, such as 30m (default: none).")] = "",
    storage: Annotated[
        str,
        typer.Option(help="A file, or a URL: sqlite:///tune.db, postgresql://user@host/name (default: in --out)."),
    ] = "",
    data: Annotated[str, typer.Option(help="Data set, see `midway data ls`.")] = "cifar10-mini",
    root: Annotated[Path | None, typer.Option(help="Folder of the data set (default: the usual place).")] = None,
    network: Annotated[
        str, typer.Option(help="A name, a checkpoint, architecture@checkpoint, or an untrained architecture.")
    ] = "wrn16_2.cifar10",
    scenarios: Annotated[
        str,
        typer.Option(help="Streams of the tuning corruptions, by commas (default: eight, the paper's three kinds)."),
    ] = "",
    images: Annotated[int | None, typer.Option(min=1, help="How many images of the set (default: all).")] = None,
    batch_size: Annotated[int, typer.Option(min=1, max=500, help="Images a batch.")] = 200,
    seed: Annotated[int, typer.Option(min=0, help="Of streams, of the method, and of what is tried.")] = 0,
    precision: Annotated[str, typer.Option(help="float32, bf16 or auto.")] = "float32",
    device: Annotated[str, typer.Option(help="cpu, cuda or auto.")] = "auto",
    threads: Annotated[int, typer.Option(min=1, help="Threads a trial uses.")] = 1,
    jobs: Annotated[int, typer.Option(min=1, help="Trials at a time.")] = 1,
    engine: Annotated[
        EngineName, typer.Option(help="This machine, or a Ray cluster whose nodes all reach the storage.")
    ] = EngineName.local,
    address: Annotated[
        str | None, typer.Option(help="Of a running Ray cluster, or auto (default: one is started here).")
    ] = None,
    gpus_per_trial: Annotated[float | None, typer.Option(help="With Ray (default: 1 on cuda).")] = None,
    gain: Annotated[bool, typer.Option(help="Measure the gain on corruptions the search never saw.")] = True,
    import_: Annotated[str | None, typer.Option("--import", help="Modules with methods of your own.")] = None,
    out: Annotated[Path | None, typer.Option(help="Folder for what is found (default: runs/tune/METHOD).")] = None,
) -> None:
    """Search a method's hyper-parameters; the same command goes on where it was stopped, here or on other machines."""
    console = terminal()
    import_methods(listed(import_) or [])
    entry = _one_entry(method)
    folder = out or Path("runs/tune") / entry.name
    streams = tuple(str(Scenario.parse(text.strip())) for text in scenarios.split(",") if text.strip())
    search = Search(
        method=entry.name,
        held=entry.settings,
        scenarios=streams or SCENARIOS,
        network=network,
        data=data,
        root=None if root is None else str(root.resolve()),
        images=images,
        batch_size=batch_size,
        seed=seed,
        precision=precision,
        device=device,
        threads=threads,
    )
    on_cluster = {"--address": address, "--gpus-per-trial": gpus_per_trial}
    if engine is EngineName.local:
        if given := [flag for flag, value in on_cluster.items() if value is not None]:
            raise ValueError(f"{given[0]} is for clusters: add --engine ray.")
        check_device(search.cells({}))
        check_data(search.cells({}))
    folder.mkdir(parents=True, exist_ok=True)
    if (folder / STUDY).is_file() and (other := Findings.load(folder / STUDY).study) != search.name:
        raise ValueError(
            f"{folder} has what another search found ({other}; this one is {search.name}): choose another --out, "
            f"or remove {folder / STUDY}."
        )
    seconds = read_duration(timeout) if timeout else float("inf")
    cluster = RayEngine(address=address, gpus_per_cell=gpus_per_trial) if engine is EngineName.ray else None
    where = storage or str(folder / "study.journal")
    try:
        with ProgressLine(console) as progress:
            teller = _Teller(console, progress, trials)
            found = search_for(
                search, storage=where, trials=trials, seconds=seconds, jobs=jobs, cluster=cluster, on_trial=teller
            )
    except KeyboardInterrupt:
        console.print("Stopped. Every finished trial is kept; the same command goes on from there.")
        raise typer.Exit(130) from None
    command = shlex.join(["midway", *map(without_password, sys.argv[1:])])
    found = replace(found, command=command)
    found.save(folder / STUDY)
    _show(console, found)
    plan = folder / "best.toml"
    plan.write_text(held_out_plan(search, found), encoding="utf-8")
    for name, figure in draw_figures(found):
        save(figure, folder / name)
    console.print(f"Best settings: {plan} (for `midway run`), every trial: {folder / STUDY}", soft_wrap=True)
    problem: ValueError | None = None
    stopped = False
    if running := found.count("running"):
        console.print(f"Still running elsewhere: {running}. Run this again for the final word.")
    elif found.best.settings == found.defaults:
        console.print("The defaults are the best so far: there is no gain to measure.")
    elif gain:
        try:
            measured = measure_gain(console, plan, jobs, command=command)
            console.print(f"On corruptions the search never saw: {measured}", highlight=False, soft_wrap=True)
        except ValueError as error:  # what was found is worth a page all the same
            problem = error
        except KeyboardInterrupt:
            console.print("Stopped while the gain was measured; the same command goes on from there.")
            stopped = True
    if failed := found.count("failed"):
        console.print(f"{failed} trials failed; {STUDY} says why.")
    page = write_report(search_run(folder, found), folder / "report.html")
    console.print(f"Report: {page}", highlight=False, soft_wrap=True, markup=False)
    if problem is not None:
        raise problem
    if stopped:
        raise typer.Exit(130)


def _one_entry(text: str) -> Entry:
    """Read the method and what of it is held."""
    entries = parse_entries(text)
    if len(entries) != 1:
        raise ValueError(f"'{text}' are {len(entries)} methods: search one at a time.")
    return entries[0]


def measure_gain(console: Console, plan: Path, jobs: int = 1, *, command: str = "") -> PairedComparison:
    """Run the plan of a search, defaults and tuned on held-out streams, and compare them stream by stream."""
    cells = load_plan(plan).cells()
    with Store(plan.parent / HELD_OUT) as store:
        with RunProgress(console, jobs) as progress:
            run(cells, store, LocalEngine(jobs=jobs), command=command, watcher=progress)
        records = [store.labelled(cell) for cell in cells]
    accuracy: dict[str, list[float]] = {}
    for record in records:
        if record is None or record.result is None:
            raise ValueError(f"the gain cannot be measured: cells failed, see {store.path}.")
        accuracy.setdefault(record.cell.label, []).append(record.result.accuracy)
    defaults, tuned = accuracy.values()
    return compare_paired(tuned, defaults, rival="the defaults")


class _Teller:
    """Tells of trials as they end."""

    def __init__(self, console: Console, progress: ProgressLine, trials: int) -> None:
        self.console, self.progress, self.trials = console, progress, trials
        self.ended = 0
        self.best: TrialRecord | None = None

    def __call__(self, trial: TrialRecord) -> None:
        self.ended += 1
        if trial.state == "complete" and (self.best is None or (trial.accuracy or 0) > (self.best.accuracy or 0)):
            self.best = trial
        took = "" if trial.seconds is None else f", {in_words(trial.seconds)}"
        value = "" if trial.accuracy is None else f" {trial.accuracy:.2f} %"
        line = f"trial {trial.number} {trial.state}{value}{took}  {_settings(trial)} {trial.failure}".rstrip()
        self.console.print(line, highlight=False, markup=False, soft_wrap=True)
        doing = "searching" if self.best is None else f"best so far {self.best.accuracy:.2f} %"
        self.progress(doing, min(trial.number + 1, self.trials), self.trials)


def _settings(trial: TrialRecord) -> str:
    return " ".join(
        f"{name}={value:.3g}" if isinstance(value, float) else f"{name}={value}"
        for name, value in trial.settings.items()
    )


def _show(console: Console, found: Findings) -> None:
    best = found.best
    against = "" if found.gain is None else f", {found.gain:+.2f} points against the defaults"
    states = ", ".join(f"{n} {state}" for state in ("complete", "pruned", "failed") if (n := found.count(state)))
    console.print(
        f"{found.method}, {states}. Best, trial {best.number}: {best.accuracy:.2f} %{against}.", highlight=False
    )
    console.print(_settings(best), highlight=False, soft_wrap=True)
    if found.importance:
        shares = ", ".join(f"{name} {100 * share:.0f} %" for name, share in found.importance.items())
        console.print(f"What mattered: {shares}", highlight=False, soft_wrap=True)
