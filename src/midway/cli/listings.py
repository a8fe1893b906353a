"""`midway list`, `midway methods` and `midway models`: what is registered."""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from midway import methods, models
from midway._files import file_digest
from midway._suggest import unknown
from midway.adaptation import describe
from midway.adaptation.wrappers import WRAPPERS
from midway.bench.entries import import_plugins
from midway.cli.options import Import, Json, split_commas
from midway.cli.terminal import print_json, terminal
from midway.models.checkpoints import digest_file, write_digest

WHAT_THEY_ARE = ("name", "paper", "paradigm", "uses other images", "aligns each image", "predicts")
HOW_THEY_WORK = ("name", "adapts", "passes per batch", "needs")

REGISTRIES = {
    "methods": "midway.adaptation.registry:METHODS",
    "wrappers": "midway.adaptation.wrappers:WRAPPERS",
    "scenarios": "midway.streams.registry:REGISTRY",
    "corruptions": "midway.data.corruptions:REGISTRY",
    "datasets": "midway.data.datasets:REGISTRY",
    "engines": "midway.bench.engines:ENGINES",
    "metrics": "midway.metrics:METRICS",
    "figures": "midway.report.figures:FIGURES",
}
"""Name of a registry on the command line -> module and attribute."""

QUALITIES = ("noisy_psnr", "psnr")
"""What the card of a denoiser says of each noise level: PSNR with the noise and after its removal."""

WIDE = 110
"""Columns of a terminal from which on the hyper-parameters of a method are a table."""

models_app = typer.Typer(help="List networks and denoisers, or add a checksum to a file.", invoke_without_command=True)
methods_app = typer.Typer(help="List the methods, or show one.", invoke_without_command=True)


def list_registry(
    kind: Annotated[
        str | None, typer.Argument(help=f"One of {', '.join(REGISTRIES)}; without it, the names of all.")
    ] = None,
    as_json: Json = False,
    import_: Import = None,
) -> None:
    """List everything that is registered of one kind, with the module that defines it; also from other packages."""
    import_plugins(split_commas(import_) or [])
    if kind is not None and kind not in REGISTRIES:
        raise ValueError(unknown("kind", kind, REGISTRIES))
    if kind is None:
        names = {each: list(_registry(each)) for each in REGISTRIES}
        if as_json:
            print_json(names)
        else:
            terminal().print(_table(("kind", "names"), [(each, ", ".join(names[each])) for each in names]))
        return
    rows = [(name, *_described(value)) for name, value in _registry(kind).items()]
    columns = ("name", "description", "module")
    if as_json:
        print_json([dict(zip(columns, row, strict=True)) for row in rows])
        return
    terminal().print(_table(columns, rows))


def _registry(kind: str) -> Mapping[str, Any]:
    module, _, attribute = REGISTRIES[kind].partition(":")
    registry: Mapping[str, Any] = getattr(importlib.import_module(module), attribute)
    return registry


def _described(value: Any) -> tuple[str, str]:
    """Return the first line of the docstring of a registered object, or of the function it holds, and its module."""
    functions = filter(inspect.isfunction, getattr(value, "__dict__", {}).values())
    defined = value if inspect.isclass(value) or inspect.isfunction(value) else (*functions, type(value))[0]
    text = (inspect.getdoc(defined) or "").partition("\n")[0] if defined is not type(value) else ""
    return text.replace("``", ""), defined.__module__


@methods_app.callback()
def list_methods(
    context: typer.Context,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of docs/methods.md.")] = False,
    as_json: Json = False,
    import_: Import = None,
) -> None:
    """List the methods: paper, paradigm, what each uses and aligns, what it adapts, cost in passes, needs."""
    import_plugins(split_commas(import_) or [])
    if context.invoked_subcommand is not None:
        return
    if markdown:
        print(describe.overview_markdown(), end="")
        return
    rows = describe.overview()
    if as_json:
        print_json(rows)
        return
    console = terminal()
    for columns in (WHAT_THEY_ARE, HOW_THEY_WORK):
        console.print(_table(columns, [[row[column] for column in columns] for row in rows]))
    console.print("F, B: forward and backward passes. Details of a method: midway methods show NAME.", highlight=False)
    console.print("Wrappers of any method, wrap= in plans: " + ", ".join(WRAPPERS) + ".", highlight=False)


@methods_app.command("show")
def show_method(
    name: Annotated[str, typer.Argument(help="A name that `midway methods` lists.")],
    as_json: Json = False,
    import_: Import = None,
) -> None:
    """Show what a method does, its hyper-parameters, their defaults and the source of the defaults."""
    import_plugins(split_commas(import_) or [])
    method = methods.find(name)
    if as_json:
        print_json(_facts(name))
        return
    console = terminal()
    console.print(f"{method.about.title} ({method.about.paper})", style="bold", highlight=False, markup=False)
    for paragraph in describe.summary_of(method).split("\n\n"):
        console.print(Text(paragraph.replace("\n", " ")))
    row = next(row for row in describe.overview() if row["name"] == name)
    facts = [fact for fact in (*WHAT_THEY_ARE, *HOW_THEY_WORK) if fact not in ("name", "paper")]
    console.print(_table(("", ""), [(fact, row[fact]) for fact in facts], header=False))
    texts = describe.arguments_of(method)
    tuned = describe.tuned_of(name)
    settings = [
        (
            key,
            default.replace("), ", ")\n"),
            tuned.get(key, "-"),
            str(method.search_space.get(key, "-")),
            texts.get(key, ""),
        )
        for key, default in describe.defaults_of(name).items()
    ]
    if settings and console.width < WIDE:
        for key, default, best, searched, text in settings:
            written = default.replace("\n", " ")
            console.print(Text.assemble((key, "bold"), f"  default {written}, tuned {best}, searched {searched}"))
            console.print(Padding(Text(text), (0, 0, 0, 4)))
        console.print()
    elif settings:
        columns = ("hyper-parameter", "default", "tuned", "searched", "meaning, and source of the default")
        console.print(_table(columns, settings))
    console.print(
        'Every method takes wrap="episodic" (reset before every batch), "guarded" (rolled back when it collapses) and '
        'others (midway list wrappers), and views="mirror" (answers to image and mirror image averaged). Those with a '
        '"tuned" column take preset="tuned", the result of a search on short streams of CIFAR-10 (docs/tuning.md). '
        'Those on batch statistics take statistics="clustered": each image is normalised with the statistics of its '
        "kind (docs/clustered.md).",
        highlight=False,
    )


def _facts(name: str) -> dict[str, Any]:
    """Return what `midway methods show` prints of a method, as plain values."""
    method, texts = methods.find(name), describe.arguments_of(methods.find(name))
    hyperparameters = {
        key: {
            "default": default,
            "published": method.published.get(key, default),
            "tuned": methods.preset(name, "tuned").get(key) if describe.tuned_of(name) else None,
            "searched": str(method.search_space[key]) if key in method.search_space else None,
            "meaning": texts.get(key, ""),
        }
        for key, default in methods.hyperparameters(name).items()
    }
    row = next(row for row in describe.overview() if row["name"] == name)
    return {**row, "summary": describe.summary_of(method), "hyperparameters": hyperparameters}


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, header: bool = True) -> Table:
    table = Table(box=box.SIMPLE_HEAD if header else None, show_header=header, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        all_yes_or_no = {row[index] for row in rows} <= {"yes", "no"}
        table.add_column(column, no_wrap=index == 0, max_width=6 if all_yes_or_no else None, overflow="fold")
    for row in rows:
        table.add_row(*(Text(value) for value in row))
    return table


@models_app.callback()
def list_models(context: typer.Context, as_json: Json = False) -> None:
    """List the trained networks and denoisers of the package, and the architectures."""
    if context.invoked_subcommand is not None:
        return
    cards, denoisers = models.cards(), models.denoiser_cards()
    if as_json:
        listed = {"trained": list(map(asdict, cards)), "denoisers": list(map(asdict, denoisers))}
        print_json(listed | {"architectures": list(models.ARCHITECTURES)})
        return
    console = terminal()
    for card in cards:
        network = f"{card.architecture} {card.arguments.get('depth')}-{card.arguments.get('width')}"
        accuracy = f"{card.clean_accuracy:.2f} % on {card.evaluated_on}"
        console.print(card.name, style="bold", highlight=False)
        facts = {"network": network, "clean accuracy": accuracy, "data": card.data, "licence": card.licence}
        console.print(_table(("", ""), list(facts.items()), header=False))
    for denoiser in denoisers:
        levels = list(denoiser.quality["psnr"])
        noisy, clean = (", ".join(f"{denoiser.quality[key][level]:.0f}" for level in levels) for key in QUALITIES)
        psnr = f"{noisy} dB with noise of levels {', '.join(levels)}; {clean} dB without, on {denoiser.evaluated_on}"
        console.print(denoiser.name, style="bold", highlight=False)
        facts = {"network": "denoiser for DDA", "PSNR": psnr}
        facts |= {"data": denoiser.data, "licence": denoiser.licence}
        console.print(_table(("", ""), list(facts.items()), header=False))
    console.print(f"Untrained architectures: {', '.join(models.ARCHITECTURES)}", highlight=False)


@models_app.command("add")
def add_model(
    path: Annotated[Path, typer.Argument(help="A checkpoint file.")],
    architecture: Annotated[str | None, typer.Option(help="Its network (default: inferred from its tensors).")] = None,
) -> None:
    """Load a checkpoint once and write its checksum beside it; whenever it is loaded, the file is compared with it."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no checkpoint at {path}: give a file with weights, .safetensors or .pth.")
    network = models.load(path, architecture=architecture, sha256=file_digest(path))
    digest = write_digest(path)
    terminal().print(
        f"{path} is a {type(network).__name__} with SHA-256 {digest}, now in {digest_file(path).name}.",
        soft_wrap=True,
        highlight=False,
        markup=False,
    )
