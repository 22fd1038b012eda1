"""A headless Chromium, driven through its own protocol: pictures of pages, and what pages ask for and say."""

from __future__ import annotations

import base64
import itertools
import json
import math
import shutil
import subprocess
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from websocket import WebSocket, create_connection

from tests.waiting import HANG_SECONDS, eventually

_NAMES = ("chromium", "chromium-browser", "google-chrome", "chrome")
_ANSWER_SECONDS = 60.0
_MAX_HEIGHT = 8000
_COMPLAINTS = frozenset({"Runtime.exceptionThrown", "Runtime.consoleAPICalled", "Log.entryAdded"})


def find_browser() -> str | None:
    """The program; None where there is none."""
    return next((found for name in _NAMES if (found := shutil.which(name))), None)


@dataclass
class Seen:
    """What a page did while it was shown."""

    requests: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)
    text: str = ""


@dataclass(frozen=True)
class Narrow:
    """How a page does on a narrow screen."""

    too_wide: list[str]  # elements that are wider than the screen, or than what holds them
    smallest_text: float  # pixels, of the text in charts; infinite where there is no chart
    cut: list[str]  # texts of charts that reach beyond them
    lowest_link: float  # pixels, of the links to the parts of a page; infinite where there is none


class Browser:
    """One window; a context manager."""

    def __init__(self, program: str, *, dark: bool = False) -> None:
        self._program, self._dark = program, dark
        self._numbers = itertools.count(1)
        self._events: list[dict[str, Any]] = []
        self._socket: WebSocket | None = None

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="rebalancer-chromium-", ignore_cleanup_errors=True)
        options = ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage")
        profile = ("--remote-debugging-port=0", f"--user-data-dir={self._folder.name}", "about:blank")
        self._process = subprocess.Popen(
            [self._program, *options, "--remote-allow-origins=*", *profile],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            self._socket = self._connected()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        for domain in ("Page", "Network", "Runtime", "Log"):
            self._ask(f"{domain}.enable")
        colours = [{"name": "prefers-color-scheme", "value": "dark" if self._dark else "light"}]
        self._ask("Emulation.setEmulatedMedia", features=colours)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._socket is not None:
            self._socket.close()
        self._process.terminate()
        try:
            self._process.wait(HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._folder.cleanup()

    def open(self, page: Path, width: int = 800) -> Seen:
        """Show a page, and tell what it asked for and complained about."""
        self._events.clear()
        self._ask(
            "Emulation.setDeviceMetricsOverride", width=width, height=800, deviceScaleFactor=1, mobile=False
        )
        self._ask("Page.navigate", url=page.as_uri())
        while not any(event["method"] == "Page.loadEventFired" for event in self._events):
            self._receive()
        text = self._evaluate("document.body ? document.body.innerText : ''")
        events = [(event["method"], event["params"]) for event in self._events]
        return Seen(
            requests=[
                parameters["request"]["url"]
                for method, parameters in events
                if method == "Network.requestWillBeSent"
            ],
            complaints=[json.dumps(parameters) for method, parameters in events if method in _COMPLAINTS],
            text=str(text),
        )

    def on_a_phone(self, page: Path, width: int = 390) -> Narrow:
        """What of a page has to be scrolled sideways on a narrow screen, with all of it unfolded."""
        self.open(page, width)
        self._evaluate("document.querySelectorAll('details').forEach(item => item.open = true)")
        too_wide = self._evaluate(
            "[...document.querySelectorAll('body, body *:not(svg *)')]"
            ".filter(item => item.scrollWidth > item.clientWidth + 1 && item.clientWidth > 0"
            " || item.getBoundingClientRect().right > innerWidth)"
            ".map(item => `${item.tagName} ${item.scrollWidth} in ${item.clientWidth}: "
            "${item.textContent.slice(0, 60)}`)"
        )
        smallest = self._evaluate(
            "Math.min(...[...document.querySelectorAll('svg text')].map(item =>"
            " parseFloat(getComputedStyle(item).fontSize) * item.ownerSVGElement.getScreenCTM().a))"
        )
        cut = self._evaluate(
            "[...document.querySelectorAll('svg text')].filter(item => {"
            " const text = item.getBoundingClientRect();"
            " const chart = item.ownerSVGElement.getBoundingClientRect();"
            " return text.left < chart.left - 1 || text.right > chart.right + 1"
            " || text.bottom > chart.bottom + 1"
            "}).map(item => item.textContent)"
        )
        lowest = self._evaluate(
            "Math.min(...[...document.querySelectorAll('.contents a')].map(item =>"
            " item.getBoundingClientRect().height))"
        )
        return Narrow(list(too_wide), _finite(smallest), list(cut), _finite(lowest))

    def printed_text(self, page: Path) -> str:
        """What of a page is visible on paper."""
        self.open(page)
        self._ask("Emulation.setEmulatedMedia", media="print")
        try:
            visible = "e => e.checkVisibility({contentVisibilityAuto: true, visibilityProperty: true})"
            cells = f"[...document.querySelectorAll('h1, h2, p, td, pre')].filter({visible})"
            return str(self._evaluate(f"{cells}.map(e => e.textContent).join(' ')"))
        finally:
            self._ask("Emulation.setEmulatedMedia", media="")

    def picture(self, page: Path, target: Path, *, wide: bool = False) -> None:
        """The whole page as a PNG."""
        width = 1500 if wide else 820
        self.open(page, width)
        height = int(self._evaluate("document.documentElement.scrollHeight") or 800)
        height = min(max(height, 100), _MAX_HEIGHT)
        if page.suffix == ".svg":
            ratio = self._evaluate("(r => r.height / r.width)(document.documentElement.viewBox.baseVal)")
            height = round(width * float(ratio))
        self._ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        shot = self._ask("Page.captureScreenshot", format="png")
        target.write_bytes(base64.b64decode(shot["data"]))

    def _evaluate(self, expression: str) -> Any:
        return self._ask("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def _connected(self) -> WebSocket:
        """A connection to the one page, once the browser has said on which port it listens."""
        file = Path(self._folder.name) / "DevToolsActivePort"

        def started() -> bool:
            assert self._process.poll() is None, "the browser did not start"
            return file.exists() and "\n" in file.read_text()

        eventually(started, awaited="the browser says on which port it listens")
        port, path = file.read_text().splitlines()[:2]
        self._socket = create_connection(f"ws://127.0.0.1:{port}{path}", timeout=_ANSWER_SECONDS)
        targets = self._ask("Target.getTargets")["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._socket.close()
        return create_connection(f"ws://127.0.0.1:{port}/devtools/page/{page}", timeout=_ANSWER_SECONDS)

    def _ask(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._numbers)
        assert self._socket is not None
        self._socket.send(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = self._receive()
            if message.get("id") == number:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                found: dict[str, Any] = message["result"]
                return found

    def _receive(self) -> dict[str, Any]:
        assert self._socket is not None
        message: dict[str, Any] = json.loads(self._socket.recv())
        if "method" in message:
            self._events.append(message)
        return message


def _finite(number: float | None) -> float:
    """A number of a page; the browser says nothing for an infinite one."""
    return math.inf if number is None else float(number)
