"""`midway methods` and `midway models`: what there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import typer
from rich import box
from rich.table import Table
from rich.text import Text

from midway import methods, models
from midway.adaptation import describe
from midway.bench.plan import import_methods
from midway.cli.run import listed
from midway.cli.terminal import terminal

WHAT_THEY_ARE = ("name", "paper", "paradigm", "uses other images", "aligns each image", "predicts")
HOW_THEY_WORK = ("name", "adapts", "passes a batch", "needs")

methods_app = typer.Typer(help="List the methods, or show one.", invoke_without_command=True)


@methods_app.callback()
def list_methods(
    context: typer.Context,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the table of docs/methods.md.")] = False,
    import_: Annotated[str | None, typer.Option("--import", help="Modules with methods of your own.")] = None,
) -> None:
    """List the methods: paper, paradigm, what each uses and aligns, what adapts, cost in passes, needs."""
    import_methods(listed(import_) or [])
    if context.invoked_subcommand is not None:
        return
    if markdown:
        print(describe.overview_markdown(), end="")
        return
    console = terminal()
    rows = describe.overview()
    for columns in (WHAT_THEY_ARE, HOW_THEY_WORK):
        console.print(_table(columns, [[row[column] for column in columns] for row in rows]))
    console.print("F, B: forward and backward passes. More of one: midway methods show NAME.", highlight=False)
    console.print("Episodic(method) and Guarded(method) wrap any of them.", highlight=False)


@methods_app.command("show")
def show_method(
    name: Annotated[str, typer.Argument(help="A name that `midway methods` lists.")],
    import_: Annotated[str | None, typer.Option("--import", help="Modules with methods of your own.")] = None,
) -> None:
    """Show what a method does, its hyper-parameters, their defaults and where they come from."""
    import_methods(listed(import_) or [])
    method = methods.find(name)
    console = terminal()
    console.print(f"{method.about.title} ({method.about.paper})", style="bold", highlight=False, markup=False)
    for paragraph in describe.summary_of(method).split("\n\n"):
        console.print(Text(paragraph.replace("\n", " ")))
    row = next(row for row in describe.overview() if row["name"] == name)
    facts = ("paradigm", "uses other images", "aligns each image", "adapts", "predicts", "passes a batch", "needs")
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
    if settings:
        columns = ("hyper-parameter", "default", "tuned", "searched", "what it is, and where the default is from")
        console.print(_table(columns, settings))
    console.print(
        'Every method but memo, dua and bn with a prior also takes statistics="clustered": each image is normalised '
        "with those of similar images of its batch, in place of the method's own statistics; every method takes "
        'wrap="episodic" (reset before every batch) or "guarded" (rolled back when it collapses); all '
        'but memo take preset="tuned": what a search found on short streams of CIFAR-10 (docs/tuning.md).',
        highlight=False,
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], *, header: bool = True) -> Table:
    table = Table(box=box.SIMPLE_HEAD if header else None, show_header=header, padding=(0, 1, 0, 0))
    for index, column in enumerate(columns):
        all_yes_or_no = {row[index] for row in rows} <= {"yes", "no"}
        table.add_column(column, no_wrap=index == 0, max_width=6 if all_yes_or_no else None)  # the heading wraps
    for row in rows:
        table.add_row(*(Text(value) for value in row))
    return table


def list_models() -> None:
    """List the trained networks that come with the package."""
    table = Table("name", "network", "clean accuracy", "measured on", "data", "licence")
    for card in models.cards():
        network = f"{card.architecture} {card.arguments.get('depth')}-{card.arguments.get('width')}"
        accuracy = f"{card.clean_accuracy:.2f} %"
        table.add_row(card.name, network, accuracy, card.evaluated_on, card.data, card.licence)
    console = terminal()
    console.print(table)
    console.print(f"Untrained architectures: {', '.join(models.ARCHITECTURES)}", highlight=False)
