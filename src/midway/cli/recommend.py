"""`midway recommend`: which method for a network and images of your own, without labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from midway.bench.entries import READERS, import_plugins
from midway.cli.compare import trained_network
from midway.cli.run import Import, split_commas
from midway.cli.terminal import Json, print_json
from midway.comparison import recommend as recommend_method
from midway.comparison.recommend import CANDIDATES


def recommend(
    network: Annotated[
        str,
        typer.Argument(help="A name, a checkpoint, architecture@checkpoint, or file.py:function for your own network."),
    ],
    data: Annotated[str, typer.Argument(help="A folder of images, or the name of a data set; labels are not used.")],
    methods: Annotated[str, typer.Option(help='Candidates, such as "tent,tea(steps=4),mita".')] = CANDIDATES,
    classes: Annotated[
        str | None, typer.Option(help="Which logit each class folder is, as for midway compare.")
    ] = None,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Images per batch (default: 200, large ones 64).")
    ] = None,
    images: Annotated[int, typer.Option(min=1, help="Use at most this many images.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Seed of the methods and of the order.")] = 0,
    out: Annotated[Path | None, typer.Option(help="Folder for the results; run it again to resume.")] = None,
    as_json: Json = False,
    import_: Import = None,
) -> None:
    """Rank methods on images without labels, with reasons; or advise to leave the network as it is."""
    import_plugins(split_commas(import_) or [])
    if not Path(data).expanduser().exists() and ("/" in data or data.startswith("~")):
        raise FileNotFoundError(f"there is no folder {data}.")
    advice = recommend_method(
        trained_network(network),
        data,
        methods,
        batch_size=batch_size,
        images=images,
        classes=None if classes is None else READERS["classes"]("classes", classes),
        seed=seed,
        out=out,
    )
    if as_json:
        print_json({"recommended": advice.best.label, "leave": advice.leave, "methods": advice.rows()})
    else:
        print(advice)
