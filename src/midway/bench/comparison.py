"""Several methods on several streams: the value that reports read."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from midway.bench.evaluate import Result


@dataclass(frozen=True)
class Comparison:
    """Results with what is needed to read and repeat them.

    Attributes:
        title: What this run was.
        command: The command that repeats it.
        settings: Network, data, severity, seed, version and the like.
        results: One for each method and stream that was run.
        left_out: Method -> why it was not run.
    """

    title: str
    command: str
    settings: dict[str, Any]
    results: tuple[Result, ...]
    left_out: dict[str, str] = field(default_factory=dict)

    def save(self, path: Path) -> None:
        """Write as JSON; a kill leaves the old file or the new one, never half of one."""
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_text(json.dumps(asdict(self), indent=1) + "\n")
        partial.replace(path)

    @classmethod
    def load(cls, path: Path) -> Comparison:
        """Read what ``save`` wrote."""
        try:
            content = json.loads(path.read_text())
            results = tuple(Result.from_dict(result) for result in content.pop("results"))
            return cls(results=results, **content)
        except (json.JSONDecodeError, KeyError, TypeError) as error:
            raise ValueError(f"{path} is not a stored comparison ({error}).") from error
