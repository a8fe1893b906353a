"""Plans in TOML files, with errors that point at the line.

networks = "wrn16_2.cifar10"        # a string or a list of strings
scenarios = ["pure:all", "outlier:glass_blur/gaussian_noise@0.005"]
seeds = [0, 1, 2]
images = 2000
methods = "source, bn, tent"        # in addition to the tables below

[[method]]
name = "tea"
label = "TEA x4"                    # the name in tables
steps = 4                           # any hyper-parameter
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

from midway.bench.plan import Grid
from midway.bench.plan_values import PlanError


def read_plan(path: Path) -> dict[str, Any]:
    """Read a TOML file as plain values without checking them.

    Raises:
        FileNotFoundError: There is no such file.
        PlanError: It is not TOML; the message has the line.
    """
    if not path.is_file():
        raise FileNotFoundError(f"there is no plan at {path}.")
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except UnicodeDecodeError as error:
        raise PlanError(f"{path} is not UTF-8 text ({error}).") from error
    except tomllib.TOMLDecodeError as error:
        position = re.search(r"\(at line (\d+), column \d+\)", str(error))
        text = path.read_text(encoding="utf-8")
        line = int(position[1]) if position else text.count("\n") + 1
        what = str(error).partition(" (at ")[0]
        raise PlanError(f"{path}:{line}: {what}: this is not TOML; quote strings, and write lists in [ ].") from error


def load_plan(path: Path | str) -> Grid:
    r"""Read and check a plan.

    Args:
        path: A TOML file.

    Raises:
        PlanError: ``file:line: what is wrong, what to do``.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from midway.bench import load_plan
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     plan = Path(folder, "plan.toml")
        ...     _ = plan.write_text('methods = "source,bn"\nseeds = [0, 1]\n')
        ...     [entry.name for entry in load_plan(plan).methods]
        ['source', 'bn']
    """
    path = Path(path)
    content = read_plan(path)
    try:
        grid = Grid.from_dict(content)
        grid.cells()
    except PlanError as error:
        raise locate(path, error) from error
    return grid


def locate(path: Path, error: PlanError) -> PlanError:
    """Return an error with the file and the line of the key at fault in front of its message."""
    return PlanError(f"{path}:{line_of(path.read_text(encoding='utf-8'), *error.where)}: {error}", *error.where)


def line_of(text: str, *where: str | int) -> int:
    r"""Find the line of a key in TOML text.

    Args:
        text: The file.
        *where: A key of the top table; or ``"method"``, the number of the table, and a key in it. Where the key is
            not written, the line of its table, or the first one.

    Example:
        >>> from midway.bench.plan_file import line_of
        >>> line_of('seeds = 1\n[[method]]\nname = "bn"\n[[method]]\nname = "tent"\nlr = 0', "method", 1, "lr")
        6
    """
    table, header, lines = -1, 1, text.splitlines()
    wanted, key = (-1, str(where[0])) if len(where) == 1 else (-1, "")
    if len(where) > 1:
        wanted, key = int(where[1]), str(where[2]) if len(where) > 2 else ""
    for number, line in enumerate(lines, start=1):
        if re.match(r"\s*\[\[\s*\"?method\"?\s*\]\]", line):
            table += 1
            if table == wanted or (key == "method" and wanted < 0):
                header = number
                if not key or key == "method":
                    return number
        elif table == wanted and key and re.match(rf"\s*[\"']?{re.escape(key)}[\"']?\s*[=.]", line):
            return number
    return header
