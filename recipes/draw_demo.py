"""Draw the README's picture from a stored demo run.

midway demo
python recipes/draw_demo.py runs/demo/results.json docs/images/demo.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from midway.bench import Comparison
from midway.report.figures import draw_bars, scenario_bars


def main() -> None:
    """Read results, write a picture."""
    results, picture = map(Path, sys.argv[1:3])
    draw_bars(scenario_bars(Comparison.load(results))).savefig(picture, dpi=150)


if __name__ == "__main__":
    main()
