"""Where data sets lie when no folder is given."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def data_home() -> Path:
    """Return the folder that holds one folder a data set.

    ``$MIDWAY_DATA`` when it is set, else ``midway/data`` in the cache folder of the platform
    (``~/.cache`` or ``$XDG_CACHE_HOME`` on Linux). The folder need not exist yet.

    Example:
        >>> import os
        >>> from midway.data import data_home
        >>> os.environ["MIDWAY_DATA"] = "somewhere"
        >>> data_home().name
        'somewhere'
        >>> del os.environ["MIDWAY_DATA"]
        >>> data_home().parts[-2:]
        ('midway', 'data')
    """
    if chosen := os.environ.get("MIDWAY_DATA"):
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        cache = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        cache = Path.home() / "Library" / "Caches"
    else:
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "midway" / "data"
