"""`midway recommend`: which method for a network and images of your own, without labels."""

from __future__ import annotations

from typing import Annotated

import typer

from midway.bench.batches import check_folder
from midway.bench.entries import READERS, import_plugins
from midway.cli.compare import in_order_if_stopped, trained_network
from midway.cli.options import BatchSize, Device, Import, Json, Network, Out, Seed, Size, split_commas
from midway.cli.terminal import print_json
from midway.comparison import recommend as recommend_method
from midway.comparison.recommend import CANDIDATES
from midway.comparison.run import SOURCE


def recommend(
    network: Network,
    data: Annotated[str, typer.Argument(help="A folder of images, or the name of a data set; labels are not used.")],
    methods: Annotated[str, typer.Option(help='Candidates, such as "tent,tea(steps=4),mita".')] = CANDIDATES,
    classes: Annotated[
        str | None, typer.Option(help="Which logit each class folder is, as for midway compare.")
    ] = None,
    batch_size: BatchSize = None,
    images: Annotated[int, typer.Option(min=1, help="Use at most this many images.")] = 1000,
    size: Size = None,
    device: Device = "auto",
    seed: Seed = 0,
    out: Out = None,
    as_json: Json = False,
    import_: Import = None,
) -> None:
    """Rank methods on images without labels, with reasons; or advise to leave the network as it is."""
    import_plugins(split_commas(import_) or [])
    check_folder(data)
    with in_order_if_stopped():
        advice = recommend_method(
            trained_network(network, device),
            data,
            methods,
            batch_size=batch_size,
            images=images,
            classes=None if classes is None else READERS["classes"]("classes", classes),
            size=size,
            seed=seed,
            out=out,
        )
    if as_json:
        print_json(
            {"recommended": advice.best.label, "leave": advice.leave, "note": advice.note, "methods": advice.rows()}
        )
    else:
        print(advice)
    failed = [each.score is None for each in advice.candidates if each.label != SOURCE]
    if failed and all(failed):
        raise typer.Exit(1)
