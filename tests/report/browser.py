"""A real browser for tests: Chromium without a window, spoken to over its debugging pipe."""

from __future__ import annotations

import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 600.0


class Browser:
    """One page in a browser; ``errors`` holds what its console complained of."""

    def __init__(self) -> None:
        assert CHROMIUM is not None
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        there, self.write = os.pipe()
        self.read, back = os.pipe()

        def give_pipes() -> None:  # Chromium reads from 3 and writes to 4
            first, second = os.dup(there), os.dup(back)
            os.dup2(first, 3)
            os.dup2(second, 4)

        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        self.process = subprocess.Popen(
            [CHROMIUM, *flags, "--remote-debugging-pipe", f"--user-data-dir={self.folder.name}"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            preexec_fn=give_pipes,
            close_fds=False,
        )
        os.close(there)
        os.close(back)
        self.buffer = b""
        self.number = 0
        self.errors: list[str] = []
        self.loaded = False
        target = self._call("Target.createTarget", url="about:blank")["targetId"]
        self.session: str | None = self._call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self._call(f"{domain}.enable")

    session: str | None = None

    def _call(self, method: str, **parameters: Any) -> dict[str, Any]:
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + SECONDS
        while True:
            answer = self._next(end)
            if answer.get("id") == self.number:
                assert "error" not in answer, answer
                result: dict[str, Any] = answer["result"]
                return result

    def _next(self, end: float) -> dict[str, Any]:
        while b"\0" not in self.buffer:
            ready, _, _ = select.select([self.read], [], [], max(0, end - time.monotonic()))
            assert ready, "the browser did not answer"
            self.buffer += os.read(self.read, 1 << 16)
        line, _, self.buffer = self.buffer.partition(b"\0")
        message: dict[str, Any] = json.loads(line)
        match message.get("method"):
            case "Runtime.exceptionThrown":
                self.errors.append(str(message["params"]["exceptionDetails"]))
            case "Runtime.consoleAPICalled" if message["params"]["type"] in ("error", "warning", "assert"):
                self.errors.append(str(message["params"]["args"]))
            case "Log.entryAdded" if message["params"]["entry"]["level"] in ("error", "warning"):
                self.errors.append(message["params"]["entry"]["text"])
            case "Page.loadEventFired":
                self.loaded = True
            case "Page.javascriptDialogOpening":
                self.errors.append("a dialog opened")
        return message

    def open(self, path: Path, *, width: int = 1000, dark: bool = False, media: str = "") -> None:
        """Open a page in a window of a width, or on paper (``media="print"``), and wait until it is there."""
        self._call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self._call("Emulation.setEmulatedMedia", media=media, features=[scheme])
        self.loaded, self.errors = False, []
        self._call("Page.navigate", url=path.resolve().as_uri())
        end = time.monotonic() + SECONDS
        while not self.loaded:
            self._next(end)

    def evaluate(self, expression: str) -> Any:
        """Return the value of an expression in the page; the next frame is awaited first, so that it is drawn."""
        drawn = "new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
        code = f"(async () => {{ await {drawn}; return {expression}; }})()"
        answer = self._call("Runtime.evaluate", expression=code, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str) -> None:
        """Press a key and let it go."""
        codes = {"Enter": 13, "ArrowRight": 39, "Escape": 27}
        for kind in ("keyDown", "keyUp"):
            text = {"text": "\r"} if key == "Enter" and kind == "keyDown" else {}
            self._call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key], **text)

    def move_to(self, x: float, y: float) -> None:
        """Move the mouse."""
        self._call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def tap(self, x: float, y: float) -> None:
        """Touch the page with a finger and lift it."""
        self._call("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self._call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.read)
        os.close(self.write)
        self.folder.cleanup()
