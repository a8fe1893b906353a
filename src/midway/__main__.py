"""``python -m midway`` is ``midway``."""

from __future__ import annotations

from midway.cli import main

if __name__ == "__main__":
    main()
