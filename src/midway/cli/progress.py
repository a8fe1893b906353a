"""Progress of long work: a bar with the time left on a terminal, plain lines elsewhere."""

from __future__ import annotations

import time
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

SECONDS_BETWEEN_LINES = 10.0


class ProgressLine:
    """Call it with what is running, how much is done and how much there is in all.

    Example:
        >>> import io
        >>> from rich.console import Console
        >>> from midway.cli.progress import ProgressLine
        >>> out = io.StringIO()
        >>> with ProgressLine(Console(file=out)) as progress:
        ...     progress("counting", 1.0, 4.0)
        >>> out.getvalue().strip()
        '25 %  counting'
    """

    def __init__(self, console: Console) -> None:
        self.console = console
        self.bar = RichProgress(
            TextColumn("{task.description}"),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(compact=True),
            console=console,
            transient=True,
            disable=not console.is_terminal,
        )
        self.task = self.bar.add_task("starting", total=None)
        self.last_line = float("-inf")

    def __enter__(self) -> ProgressLine:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def __call__(self, doing: str, done: float, total: float) -> None:
        """Show how far the work is."""
        self.bar.update(self.task, description=doing, completed=done, total=total)
        now = time.monotonic()
        if not self.console.is_terminal and now - self.last_line >= SECONDS_BETWEEN_LINES:
            self.last_line = now
            self.console.print(f"{100 * done / total:.0f} %  {doing}", highlight=False)
