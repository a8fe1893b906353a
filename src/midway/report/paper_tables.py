"""The MITA paper's tables with our numbers beside its own."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from midway.bench import Result, paper
from midway.bench.complexity import Line
from midway.cost import Cost
from midway.data import corruption_names
from midway.metrics import average_accuracy, mean_corruption_error
from midway.report.side_by_side import AVERAGES, Measured, Published, side_by_side
from midway.report.standings import by_stream
from midway.report.tables import Cell, Column, Table
from midway.significance import PairedComparison, compare_with_best
from midway.streams import Scenario

MEAN, MCE, CLEAN = "mean accuracy", "mCE", "clean"


def measured(result: Result) -> list[Measured]:
    """Return a result as numbers for a table: one for each group, and one for all images where there are several.

    Example:
        >>> import midway
        >>> from midway.report.paper_tables import measured
        >>> data = midway.data.load("cifar10-mini").first(200)
        >>> stream = midway.streams.outlier(data, "glass_blur", "gaussian_noise")
        >>> result = midway.evaluate(midway.models.load("wrn16_2.cifar10"), stream)
        >>> [(number.group, number.images) for number in measured(result)]
        [('glass_blur', 1), ('gaussian_noise', 199), ('all', 200)]
    """
    seed = result.seed or 0
    numbers = [
        Measured(result.label, result.stream, group, accuracy, seed, result.images_by_group[group])
        for group, accuracy in result.by_group.items()
    ]
    if len(numbers) > 1:
        numbers.append(Measured(result.label, result.stream, "all", result.accuracy, seed, result.images))
    return numbers


def averages(numbers: Iterable[Measured], *, source: str = "source") -> list[Measured]:
    """Return mean accuracy and mCE over the pure streams, for each method and seed that has all that Source has.

    Clean images are no corruption and do not count. There is no mCE where Source makes no mistake under some
    corruption: nothing can be measured by that.

    Args:
        numbers: Ours.
        source: What the unadapted network is called.

    Example:
        >>> from midway.report.paper_tables import averages
        >>> from midway.report.side_by_side import Measured
        >>> source = [Measured("source", "pure:fog", "fog", 60.0), Measured("source", "pure:snow", "snow", 80.0)]
        >>> tent = [Measured("tent", "pure:fog", "fog", 80.0), Measured("tent", "pure:snow", "snow", 80.0)]
        >>> [(number.method, number.group, number.value) for number in averages(source + tent)][2:]
        [('tent', 'mean accuracy', 80.0), ('tent', 'mCE', 75.0)]
    """
    rows: dict[tuple[str, int], dict[str, dict[str, float]]] = {}  # method and seed -> corruption -> stream -> accuracy
    for number in numbers:
        if number.stream.startswith("pure:") and number.group != CLEAN:
            row = rows.setdefault((number.method, number.seed), {})
            row.setdefault(number.group, {})[number.stream] = number.value
    made = []
    for (method, seed), row in rows.items():
        there = rows.get((source, seed), {})
        if [set(streams) for streams in _sorted(row)] != [set(streams) for streams in _sorted(there)]:
            continue
        if len({len(streams) for streams in row.values()}) > 1:  # some at more severities than others
            continue
        ours, theirs = ({group: list(streams.values()) for group, streams in each.items()} for each in (row, there))
        made.append(Measured(method, AVERAGES, MEAN, average_accuracy(ours), seed))
        if all(min(values) < 100 for values in theirs.values()):
            made.append(Measured(method, AVERAGES, MCE, mean_corruption_error(ours, theirs), seed))
    return made


def _sorted(row: Mapping[str, Mapping[str, float]]) -> list[Mapping[str, float]]:
    return [row[group] for group in sorted(row)]


def published_in(data: str | None) -> Published:
    """Return the paper's numbers for one of its data sets, to look up by method, stream and group.

    Args:
        data: ``"cifar10c"``, ``"cifar100c"``, or None for data that the paper did not use: nothing is found.

    Example:
        >>> from midway.report.paper_tables import published_in
        >>> published_in("cifar10c")("mita", "mixture:pixelate/shot_noise@0.5", "all")
        75.56
        >>> published_in("cifar100c")("tea", "pure:all", "mCE")
        56.07
    """
    ends = {row.method: {MEAN: row.accuracy, MCE: row.mce} for row in paper.averages() if row.data == data}

    def look_up(method: str, stream: str, group: str) -> float | None:
        if data is None:
            return None
        if stream == AVERAGES:
            return ends.get(method, {}).get(group)
        scenario = Scenario.parse(stream)
        if scenario.severity != 5:
            return None
        return paper.accuracy(shifts=scenario.shifts, ratio=scenario.amount, method=method, group=group, data=data)

    return look_up


def comparison_table(title: str, numbers: Sequence[Measured], *, data: str | None, notes: Sequence[str] = ()) -> Table:
    """Build the table of ours, the paper's and the difference; pure streams end with mean accuracy and mCE.

    Args:
        title: What was run.
        numbers: Our numbers, in the order that rows and columns shall have.
        data: Which of the paper's data sets ours compares to, or None.
        notes: What to say below, after what the marks mean.

    Example:
        >>> from midway.report.paper_tables import comparison_table
        >>> from midway.report.side_by_side import Measured
        >>> table = comparison_table("Fog", [Measured("source", "pure:fog", "fog", 70.0)], data="cifar10c")
        >>> [str(cell) for cell in table.rows[0][1]]
        ['70.00', '73.98', '-3.98']
    """
    pure = {number.group for number in numbers if number.stream.startswith("pure:")} - {CLEAN}
    ends = averages(numbers) if len(pure) > 2 else []
    streams = {number.stream for number in numbers if number.stream.startswith("pure:") and number.group != CLEAN}
    # the paper's averages are over all fifteen
    whole = streams == {f"pure:{name}" for name in corruption_names("benchmark")}
    known = published_in(data)

    def published(method: str, stream: str, group: str) -> float | None:
        return None if stream == AVERAGES and not whole else known(method, stream, group)

    marks = "accuracy in percent; the best in bold; * falls below the unadapted Source"
    seeds = len({number.seed for number in numbers})
    spread = [f"mean ± standard deviation over {seeds} seeds"] if seeds > 1 else []
    return side_by_side(title, [*numbers, *ends], published, notes=[marks, *spread, *notes])


def standing(numbers: Iterable[Measured], *, method: str = "mita") -> dict[str, PairedComparison]:
    """Compare a method with the best of the others over streams and seeds: on outliers (A), on the rest (B), on all.

    Pure streams count under ``"all"``. Streams that a method lacks are left out for everybody. Seeds of one stream see
    the same corruption and are no independent pairs: where there are several streams, the pairs are means over seeds,
    and over streams that show nearly the same images.

    Example:
        >>> from midway.report.paper_tables import standing
        >>> from midway.report.side_by_side import Measured
        >>> numbers = [
        ...     Measured(name, f"pure:{shift}", shift, value)
        ...     for name, values in {"tent": (70.0, 60.0), "mita": (71.0, 63.0)}.items()
        ...     for shift, value in zip(("fog", "snow"), values)
        ... ]
        >>> print(standing(numbers)["all"])
        +2.00 ± 1.41 points against tent (2 of 2 above, 0 below, paired t-test p = 0.295, signed-rank test p = 0.500)
    """
    by_part: dict[str, dict[str, dict[tuple[str, int], float]]] = {}
    for number in numbers:
        part = _part(number)
        by_part.setdefault(part, {}).setdefault(number.method, {})[number.stream, number.seed] = number.value
    compared = {part: _aligned(rows, part) for part, rows in by_part.items() if method in rows and len(rows) > 1}
    return {part: compare_with_best(rows, method) for part, rows in compared.items() if rows[method]}


def _part(number: Measured) -> str:
    shifts = Scenario.parse(number.stream).shifts
    if number.group == "all" or len(shifts) == 1:
        return "all"
    return "A" if number.group == shifts[0] else "B"


def _aligned(rows: Mapping[str, Mapping[tuple[str, int], float]], part: str) -> dict[str, list[float]]:
    common = [place for place in next(iter(rows.values())) if all(place in row for row in rows.values())]
    return {method: by_stream({place: row[place] for place in common}, part=part) for method, row in rows.items()}


def complexity_table(title: str, lines: Sequence[Line], *, notes: Sequence[str] = ()) -> Table:
    """Build the complexity table: the paper's count for our network and for its own, then the true cost.

    Example:
        >>> import midway, torch
        >>> from midway.bench.complexity import measure_complexity
        >>> from midway.report.paper_tables import complexity_table
        >>> lines = measure_complexity(midway.models.create("resnet20"), torch.rand(4, 3, 32, 32), only=["source"])
        >>> table = complexity_table("Cost", lines)
        >>> [str(cell) for cell in table.rows[0][1][3:8]]
        ['0.04', '5.25', '0.08', '1.00', '0.00']
    """
    of_line: dict[Column, Callable[[Line], float | None]] = {
        Column("weights", "million parameters", None, "ours"): _of_cost(lambda cost: cost.parameters / 1e6),
        Column("weights", "million parameters", None, "paper"): _of_paper(lambda row: row.million_parameters),
        Column("weights", "thousand trainable", None, "ours"): _of_cost(lambda cost: cost.trainable_parameters / 1e3),
        Column("as published", "GFLOPs an image", None, "ours"): lambda line: line.gflops_as_published,
        Column("as published", "GFLOPs an image", None, "paper"): _of_paper(lambda row: row.gflops),
        Column("true cost", "GFLOPs an image", None, "ours"): _of_cost(lambda cost: cost.gflops_per_image),
        Column("true cost", "forward passes", None, "ours"): _of_cost(lambda cost: cost.forward_passes),
        Column("true cost", "backward passes", None, "ours"): _of_cost(lambda cost: cost.backward_passes),
        Column("a batch", "seconds taken", None, "ours"): _of_cost(lambda cost: cost.seconds),
        Column("a batch", "seconds taken", None, "paper"): _of_paper(lambda row: row.seconds),
        Column("a batch", "peak MB", None, "ours"): _of_cost(lambda cost: cost.peak_memory_mb),
    }
    rows = []
    for line in lines:
        values = [read(line) for read in of_line.values()]
        rows.append((line.label, tuple(None if value is None else Cell(value) for value in values)))
    explained = (
        "as published: forward passes only, a multiply-add is one; the paper's are for WRN-28-10",
        "true cost: forward and backward passes, a multiply-add is two, as torch counts",
        "the paper's seconds are for 200 images on an A800",
        "the paper counts the weights of MITA's second model in full; here both models share what is frozen",
    )
    return Table(title, tuple(of_line), tuple(rows), (*explained, *notes))


def _of_cost(read: Callable[[Cost], float | None]) -> Callable[[Line], float | None]:
    return lambda line: None if line.cost is None else read(line.cost)


def _of_paper(read: Callable[[paper.Complexity], float]) -> Callable[[Line], float | None]:
    return lambda line: None if line.published is None else read(line.published)
