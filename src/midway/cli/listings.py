"""`midway methods` and `midway models`: what there is."""

from __future__ import annotations

import inspect
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from midway import methods, models

methods_app = typer.Typer(help="List the methods, or show one.", invoke_without_command=True)


@methods_app.callback()
def list_methods(context: typer.Context) -> None:
    """List the methods: paper, paradigm, what moves, cost in passes, needs."""
    if context.invoked_subcommand is not None:
        return
    table = Table("name", "method", "paper", "paradigm", "moves", "answer", "passes", "needs")
    for name in methods.names():
        about = methods.find(name).about
        row = (about.title, about.paper, about.paradigm, about.moves, about.answers, about.passes)
        table.add_row(name, *row, ", ".join(about.needs) or "-")
    Console().print(table)


@methods_app.command("show")
def show_method(name: Annotated[str, typer.Argument(help="A name that `midway methods` lists.")]) -> None:
    """Show what a method does, its hyper-parameters, their defaults and where they come from."""
    method = methods.find(name)
    console = Console()
    console.print(inspect.cleandoc(method.__doc__ or ""), highlight=False, markup=False)
    table = Table("hyper-parameter", "default", title=f"defaults of {name}", title_justify="left")
    for key, default in methods.hyperparameters(name).items():
        table.add_row(key, repr(default))
    console.print(table)


def list_models() -> None:
    """List the trained networks that come with the package."""
    table = Table("name", "network", "clean accuracy", "measured on", "data", "licence")
    for card in models.cards():
        network = f"{card.architecture} {card.arguments.get('depth')}-{card.arguments.get('width')}"
        accuracy = f"{card.clean_accuracy:.2f} %"
        table.add_row(card.name, network, accuracy, card.evaluated_on, card.data, card.licence)
    console = Console()
    console.print(table)
    console.print(f"Untrained architectures: {', '.join(models.ARCHITECTURES)}", highlight=False)
