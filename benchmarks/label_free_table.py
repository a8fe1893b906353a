"""Label-free scores against true accuracy: how good is what ``midway.recommend`` recommends?

    python benchmarks/label_free_table.py scores runs/label_free docs/results/label_free.csv
    python benchmarks/label_free_table.py choice docs/results/label_free.csv
    python benchmarks/label_free_table.py regret docs/results/label_free.csv
    python benchmarks/label_free_table.py kinds docs/results/label_free.csv
    python benchmarks/label_free_table.py subsets runs/label_free/tuning
    python benchmarks/label_free_table.py page docs/results/label_free.csv docs/recommend.md

``scores`` computes the scores of the answers that ``benchmarks/label_free_answers.py`` stored, the accuracy, and what
is recommended among all candidates and among those that ``midway.recommend`` has by default. ``choice`` compares scores
on the tuning scenarios, ``regret`` prints what the recommendation costs in every scenario, and ``kinds`` the mean
accuracy in each kind of scenario of the candidates that are in all scenarios. ``subsets`` draws fewer candidates at
random, as users have them. ``page`` writes the three tables into the page.
"""

from __future__ import annotations

import csv
import math
import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from scipy.stats import spearmanr

from midway.bench.entries import parse_entries
from midway.comparison.pairwise import Predicted, evidence, family, standard_error
from midway.comparison.recommend import CANDIDATES, FEWEST_CHANGES, has_collapsed, rank
from midway.comparison.run import SOURCE
from midway.metrics import Predictions, compute
from midway.metrics.label_free import shared_information

TITLES = {"tuning": "tuning", "test": "CIFAR-10", "cifar100": "CIFAR-100", "pacs": "PACS"}
KINDS = ("clean", "pure", "outlier", "mixture", "continual", "correlated")
Candidates = dict[str, dict[str, float]]
"""Candidate -> scores."""
Table = dict[tuple[str, str], Candidates]
"""Part and scenario -> candidates."""


def further_scores(
    predictions: Predictions, others: Sequence[torch.Tensor], shifted: torch.Tensor | None
) -> dict[str, float | None]:
    """Return scores from the literature, and the information of a shifted view, that were tried and are not used."""
    probabilities = predictions.logits.double().softmax(dim=1)
    images, classes = probabilities.shape
    mean = probabilities.mean(dim=0)
    entropy_of_mean = -torch.xlogy(mean, mean).sum().item()
    votes = torch.stack([(predictions.predicted == other).double().mean() for other in others])
    return {
        "confidence": 100 * probabilities.amax(dim=1).mean().item(),
        "mutual_information": entropy_of_mean - compute(predictions, label_free=True)["mean_entropy"],
        "nuclear_norm": (torch.linalg.svdvals(probabilities).sum() / math.sqrt(images * min(images, classes))).item(),
        "energy": -predictions.logits.double().logsumexp(dim=1).mean().item(),
        "agreement": 100 * votes.mean().item(),
        "shift_information": None if shifted is None else shared_information(predictions.predicted, shifted, classes),
    }


def scored(files: dict[str, dict[str, np.ndarray]], labels: Sequence[str]) -> tuple[dict[str, float], str, str]:
    """Return the scores above the source, what is recommended, and what with a preference for clustered statistics.

    The preference, which ``midway.recommend`` had at first: if the best differs from a method with clustered statistics
    by less than the standard error, and the source is not that close, the latter is recommended.
    """
    predicted, rejected, able = {}, [], []
    for label in labels:
        logits, mirrored = (torch.from_numpy(files[label][name]).float() for name in ("logits", "mirrored"))
        predicted[label] = Predicted(logits.argmax(dim=1), mirrored.argmax(dim=1), family(parse_entries(label)[0]))
        source = torch.from_numpy(files[SOURCE]["logits"]).float()
        predictions = Predictions(logits, torch.full((len(logits),), -1), logits[:, 0], source=source)
        own = compute(predictions, label_free=True)
        rejected += [label] if has_collapsed(own) else []
        able += [label] if own["changed"] >= FEWEST_CHANGES else []
    found = evidence(predicted, source.shape[1], rejected)
    order, best = rank(found, rejected, able)
    values = {label: (each - found[SOURCE]).mean().item() for label, each in found.items()}
    clustered = [label for label in able if label not in rejected and predicted[label].family == "clustered"]
    ties = [
        label
        for label in order
        if label in clustered and values[label] > 0
        if values[best] - values[label] < standard_error(found[best], found[label])
    ]
    return values, best, ties[0] if ties and best not in (SOURCE, *clustered) else best


def stored(scenario: Path) -> dict[str, dict[str, np.ndarray]]:
    """Read the arrays of every candidate of a scenario."""
    paths = [path for path in sorted(scenario.glob("*.npz")) if ".part" not in path.name]
    return {path.stem: dict(np.load(path)) for path in paths}


def scores(folder: Path, path: Path) -> None:
    """Write one row per scenario and candidate; scenarios of which the folder has no answers keep their rows."""
    rows: list[dict[str, str]] = []
    for scenario in sorted(folder.glob("*/*")):
        files = stored(scenario)
        logits = {label: torch.from_numpy(file["logits"]).float() for label, file in files.items()}
        values, best, preferring = scored(files, list(files))
        few = [entry.label for entry in parse_entries(f"{SOURCE},{CANDIDATES}") if entry.label in files]
        default = scored(files, few)[1]
        for label, file in files.items():
            predictions = Predictions(
                logits[label],
                torch.full((len(logits[label]),), -1),
                torch.zeros(len(logits[label])),
                source=logits[SOURCE],
                mirrored=torch.from_numpy(file["mirrored"]).float(),
            )
            others = [other.argmax(dim=1) for name, other in logits.items() if name != label]
            accuracy = 100 * (logits[label].argmax(dim=1).numpy() == file["labels"]).mean()
            shifted = torch.from_numpy(file["shifted"]).float().argmax(dim=1) if "shifted" in file else None
            row = {"part": scenario.parent.name, "scenario": scenario.name.replace("|", "/"), "candidate": label}
            row |= {"images": str(len(logits[label])), "accuracy": f"{accuracy:.3f}", "score": f"{values[label]:.4f}"}
            row |= {"recommended": str(int(label == best)), "recommended_default": str(int(label == default))}
            row |= {"recommended_preferring": str(int(label == preferring))}
            scores = compute(predictions, label_free=True) | further_scores(predictions, others, shifted)
            rows.append(row | {name: "" if value is None else f"{value:.4f}" for name, value in scores.items()})
    if path.exists():
        computed = {(row["part"], row["scenario"]) for row in rows}
        with path.open(encoding="utf-8") as table:
            rows += [row for row in csv.DictReader(table) if (row["part"], row["scenario"]) not in computed]
    rows.sort(key=lambda row: (row["part"], row["scenario"]))
    with path.open("w", newline="", encoding="utf-8") as table:
        writer = csv.DictWriter(table, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> Table:
    """Read the rows that ``scores`` wrote."""
    table: Table = {}
    with path.open(encoding="utf-8") as file:
        for row in csv.DictReader(file):
            texts = {name: value for name, value in row.items() if name not in ("part", "scenario", "candidate")}
            values = {name: float(value) for name, value in texts.items() if value}
            table.setdefault((row["part"], row["scenario"]), {})[row["candidate"]] = values
    return table


def marked(column: str) -> Callable[[Candidates], str]:
    """Return a rule that takes the candidate which ``scores`` marked in a column."""
    return lambda candidates: next(label for label, values in candidates.items() if values[column])


recommended = marked("recommended")  # by midway.recommend among all candidates
recommended_default = marked("recommended_default")  # among those that it has by default
recommended_preferring = marked("recommended_preferring")  # with a preference for clustered statistics


def former(candidates: Candidates) -> str:
    """Return the candidate of the former rule: mirror_information, with two points more for clustered statistics."""
    source = candidates[SOURCE]["mirror_information"]
    able = {
        label: values["mirror_information"] + 2 * ("'clustered'" in label)
        for label, values in candidates.items()
        if values["mirror_information"] > source and values["changed"] >= 2 and not has_collapsed(values)
    }
    return max(able, key=lambda label: able[label]) if able else SOURCE


def summary(table: Table, choose: Callable[[Candidates], str]) -> dict[str, float]:
    """Return regret and distance from the source of a choice, over scenarios."""
    regrets, gains = [], []
    for candidates in table.values():
        chosen = candidates[choose(candidates)]["accuracy"]
        regrets.append(max(each["accuracy"] for each in candidates.values()) - chosen)
        gains.append(chosen - candidates[SOURCE]["accuracy"])
    return {"mean": float(np.mean(regrets)), "largest": max(regrets), "worst": min(gains)}


def correlation(table: Table, name: str, sign: float = 1.0) -> float:
    """Return the mean rank correlation of a score with the accuracy, over scenarios."""
    values = [
        spearmanr(
            [sign * each[name] for each in candidates.values()], [each["accuracy"] for each in candidates.values()]
        )
        for candidates in table.values()
    ]
    return float(np.mean([value.statistic for value in values]))


def choice(table: Table) -> str:
    """Return a table of scores on the tuning scenarios: each as the only criterion, and the rule of ``recommend``."""
    table = {key: value for key, value in table.items() if key[0] == "tuning"}
    signs = {"mean_entropy": -1.0, "energy": -1.0, "changed": -1.0}
    names = [
        "score", "mirror_information", "shift_information", "mirror_agreement", "agreement", "classes_used",
        "mutual_information", "nuclear_norm", "confidence", "mean_entropy", "energy",
    ]  # fmt: skip
    lines = [
        "| score | rank correlation | mean regret | largest regret | at worst, against Source |",
        "| --- | --- | --- | --- | --- |",
    ]

    def line(title: str, rank_correlation: str, found: dict[str, float]) -> str:
        numbers = f"{found['mean']:.2f} | {found['largest']:.2f} | {found['worst']:+.2f}"
        return f"| {title} | {rank_correlation} | {numbers} |"

    for name in names:
        sign = signs.get(name, 1.0)

        def best(each: Candidates, name: str = name, sign: float = sign) -> str:
            return max(each, key=lambda label: sign * each[label][name])

        lines.append(line(name, f"{correlation(table, name, sign):.2f}", summary(table, best)))
    lines.append(line("mirror_information, former rule", "-", summary(table, former)))
    lines.append(line("score, `midway.recommend`", "-", summary(table, recommended)))
    return "\n".join(lines)


def regret(table: Table) -> str:
    """Return a table of what is recommended in every scenario, and what it costs."""
    lines = [
        "| images | scenario | candidates | recommended | accuracy | best | regret | against Source | correlation |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for part, title in TITLES.items():
        scenarios = {key: value for key, value in table.items() if key[0] == part}
        for (_, scenario), candidates in scenarios.items():
            label = recommended(candidates)
            best = max(candidates, key=lambda each: candidates[each]["accuracy"])
            accuracy, top = candidates[label]["accuracy"], candidates[best]["accuracy"]
            gain = accuracy - candidates[SOURCE]["accuracy"]
            rho = correlation({(part, scenario): candidates}, "score")
            lines.append(
                f"| {title} | {scenario} | {len(candidates)} | {label} | {accuracy:.1f} | {best}, {top:.1f} | "
                f"{top - accuracy:.1f} | {gain:+.1f} | {rho:.2f} |"
            )
        if scenarios:
            lines += totals(title, scenarios)
    tested = {key: value for key, value in table.items() if key[0] != "tuning"}
    return "\n".join(lines + (totals("all tests", tested) if tested else []))


def totals(title: str, scenarios: Table) -> list[str]:
    """Return lines with the regret over scenarios: of the rule, with fewer candidates, and of other rules."""
    rules = {
        "all": (recommended, scenarios, "score"),
        "all, default candidates": (recommended_default, by_default(scenarios), "score"),
        "all, clustered preferred": (recommended_preferring, scenarios, "score"),
        "all, former rule": (former, scenarios, "mirror_information"),
    }
    lines = []
    for rule, (choose, chosen, score) in rules.items():
        found, rho = summary(chosen, choose), correlation(chosen, score)
        lines.append(
            f"| **{title}** | **{rule}: {len(scenarios)} scenarios** | | | | | mean {found['mean']:.2f}, "
            f"largest {found['largest']:.1f} | at worst {found['worst']:+.1f} | {rho:.2f} |"
        )
    return lines


def by_default(table: Table) -> Table:
    """Return a table with the candidates that ``midway.recommend`` has by default."""
    labels = [entry.label for entry in parse_entries(f"{SOURCE},{CANDIDATES}")]
    return {
        key: {label: values for label, values in candidates.items() if label in labels}
        for key, candidates in table.items()
    }


def kinds(table: Table) -> str:
    """Return a table of mean accuracies: candidates down, kinds of scenarios across, and the mean of the kinds."""
    lines = [f"| scenarios | candidate | {' | '.join(KINDS)} | mean |", "| --- " * (len(KINDS) + 3) + "|"]
    for part in ("tuning", "test"):
        groups: dict[str, list[Candidates]] = {}
        for (each, scenario), candidates in table.items():
            kind = "clean" if scenario == "pure:clean" else scenario.partition(":")[0].replace("mixed", "mixture")
            if each == part:
                groups.setdefault(kind, []).append(candidates)
        names = [name for name in KINDS if name in groups]
        measured = [set(candidates) for name in names for candidates in groups[name]]
        for label in groups[names[0]][0] if names else []:
            if not all(label in labels for labels in measured):
                continue
            means = {name: float(np.mean([each[label]["accuracy"] for each in groups[name]])) for name in names}
            shown = " | ".join(f"{means[name]:.1f}" if name in means else "-" for name in KINDS)
            lines.append(f"| {TITLES[part]} | {label} | {shown} | {np.mean(list(means.values())):.1f} |")
    return "\n".join(lines)


def subsets(folder: Path, draws: int = 40) -> str:
    """Return a table of the rules for random sets of three or more candidates and the source, in every scenario."""
    generator = random.Random(0)
    table: Table = {}
    for scenario in sorted(folder.glob("*")):
        files = stored(scenario)
        logits = {label: torch.from_numpy(file["logits"]).float() for label, file in files.items()}
        known: Candidates = {}
        for label, file in files.items():
            predictions = Predictions(logits[label], torch.zeros(0), torch.zeros(0), source=logits[SOURCE])
            predictions = replace(predictions, mirrored=torch.from_numpy(file["mirrored"]).float())
            accuracy = 100 * float((predictions.predicted.numpy() == file["labels"]).mean())
            known[label] = compute(predictions, label_free=True) | {"accuracy": accuracy}
        others = [label for label in files if label != SOURCE]
        for draw in range(draws):
            labels = [SOURCE, *generator.sample(others, generator.randint(3, len(others)))]
            values, best, preferring = scored(files, labels)
            table[f"{draw}", scenario.name] = {
                label: known[label]
                | {"score": values[label], "recommended": label == best, "recommended_preferring": label == preferring}
                for label in labels
            }
    lines = [
        "| rule | rank correlation | mean regret | largest regret | at worst, against Source |",
        "| --- | --- | --- | --- | --- |",
    ]
    for rule, choose, score in (
        ("former rule", former, "mirror_information"),
        ("`midway.recommend`", recommended, "score"),
        ("clustered preferred", recommended_preferring, "score"),
    ):
        each = summary(table, choose)
        numbers = f"{each['mean']:.2f} | {each['largest']:.1f} | {each['worst']:+.1f}"
        lines.append(f"| {rule} | {correlation(table, score):.2f} | {numbers} |")
    return "\n".join(lines)


def page(table: Table, path: Path) -> None:
    """Replace the tables of a page, which begin with the same headings, by those of the stored scores."""
    lines = path.read_text(encoding="utf-8").splitlines()
    for block in (choice(table), regret(table), kinds(table)):
        start = lines.index(block.splitlines()[0])
        end = next(index for index in range(start, len(lines)) if not lines[index].startswith("|"))
        lines[start:end] = block.splitlines()
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    """Compute scores, or print a table."""
    if len(sys.argv) == 4 and sys.argv[1] == "scores":
        scores(Path(sys.argv[2]), Path(sys.argv[3]))
    elif len(sys.argv) == 4 and sys.argv[1] == "page":
        page(read(Path(sys.argv[2])), Path(sys.argv[3]))
    elif len(sys.argv) == 3 and sys.argv[1] == "subsets":
        print(subsets(Path(sys.argv[2])))
    elif len(sys.argv) == 3 and sys.argv[1] in (tables := {"choice": choice, "regret": regret, "kinds": kinds}):
        print(tables[sys.argv[1]](read(Path(sys.argv[2]))))
    else:
        raise SystemExit(__doc__)


if __name__ == "__main__":
    main()
