"""Draw the README's picture from the stored results of a demo.

midway demo
python recipes/draw_demo.py runs/demo docs/images/demo.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from midway.report import read_run
from midway.report.figures.bars import draw_bars, scenario_bars


def main() -> None:
    """Read results, write a picture."""
    folder, picture = map(Path, sys.argv[1:3])
    draw_bars(scenario_bars(read_run(folder).comparisons[0].frame)).savefig(picture, dpi=150)


if __name__ == "__main__":
    main()
