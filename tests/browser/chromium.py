"""A headless Chromium for the tests, spoken to by the DevTools protocol over two pipes."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "engines"))

import prepare  # noqa: E402

_FLAGS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run", "--no-zygote", "--disable-dev-shm-usage", "--disable-extensions",
    "--disable-background-networking", "--disable-component-update", "--disable-sync", "--mute-audio", "--hide-scrollbars",
    "--remote-debugging-pipe", "--font-render-hinting=none",
)  # fmt: skip


def browser() -> tuple[str, dict[str, str]] | str:
    """Return the path of a browser and the variables that it needs, or why there is none.

    BEAM_BPE_CHROMIUM names one; else it is the one that `prepare.py chromium` fetched, or one that is installed.
    """
    if named := os.environ.get("BEAM_BPE_CHROMIUM"):
        return (named, {}) if shutil.which(named) else f"BEAM_BPE_CHROMIUM is {named}, which is no program"
    if not (reason := prepare.absent("chromium")):
        home = prepare.chromium_home()
        return str(home / "chromium"), {
            "LD_LIBRARY_PATH": f"{home / 'lib'}:{home}",
            "FONTCONFIG_PATH": os.environ.get("FONTCONFIG_PATH", ""),
        }
    for name in ("chromium", "chromium-browser", "google-chrome", "chrome-headless-shell"):
        if found := shutil.which(name):
            return found, {}
    return reason


def axe() -> str | None:
    """Return the script of axe-core's rules of accessibility, or None if it was not fetched."""
    path = prepare.chromium_home() / "axe.min.js"
    return path.read_text() if path.exists() else None


class Tab:
    """A tab of the browser: loads pages, keeps what they say, runs scripts in them, takes pictures."""

    def __init__(self, process: subprocess.Popen, reading: int, writing: int):
        self._process, self._reading, self._writing = process, reading, writing
        self._buffer, self._number = b"", 0
        self.events: list[dict[str, Any]] = []
        self._session: str | None = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def call(self, method: str, seconds: float = 60, **parameters: Any) -> dict[str, Any]:
        """Call a method of the protocol and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._writing, json.dumps(message).encode() + b"\0") if len(json.dumps(message)) < 60_000 else self._write(
            message
        )
        until = time.monotonic() + seconds
        while True:
            answer = self._message(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.events.append(answer)

    def _write(self, message: dict[str, Any]) -> None:
        data = memoryview(json.dumps(message).encode() + b"\0")
        while data:
            data = data[os.write(self._writing, data) :]

    def _message(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._reading], [], [], max(0.0, until - time.monotonic()))[0]:
                raise TimeoutError("the browser does not answer")
            got = os.read(self._reading, 1 << 20)
            if not got:
                raise RuntimeError(f"the browser ended: {self._process.wait()}")
            self._buffer += got
        first, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(first)

    def open(self, path: Path) -> None:
        """Load a file and wait until it stands."""
        self.events.clear()
        self.call("Page.navigate", url=path.resolve().as_uri())
        until = time.monotonic() + 60
        while not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.events.append(self._message(until))
        self.run("document.fonts.ready.then(() => true)")

    def complaints(self) -> list[str]:
        """Return what the console, the page and its policies complained of since the page was opened."""
        found = []
        for event in self.events:
            name, told = event["method"], event["params"]
            if name == "Runtime.exceptionThrown" or (
                name == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning")
            ):
                found.append(json.dumps(told)[:500])
            elif name == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
                found.append(told["entry"]["text"])
        return found

    def requested(self) -> list[str]:
        """Return the URLs that were asked for since the page was opened."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def run(self, script: str) -> Any:
        """Return the value of a script, awaited."""
        answer = self.call("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(json.dumps(answer["exceptionDetails"])[:1000])
        return answer["result"].get("value")

    def look(self, *, width: int = 1200, height: int = 900, dark: bool = False, printed: bool = False) -> None:
        """Choose the size of the window in CSS pixels, the scheme of colours, and the medium."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media="print" if printed else "screen", features=[scheme])

    def picture(self, path: Path | None = None) -> bytes:
        """Return the whole page as PNG, and write it into a file if one is named."""
        data = base64.b64decode(self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True)["data"])
        if path is not None:
            path.write_bytes(data)
        return data

    def press(self, key: str, code: int) -> None:
        """Press a key."""
        for kind in ("keyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code)


@contextmanager
def opened(home: Path) -> Iterator[Tab]:
    """Start the browser, whose data go into a folder, and give a tab of it."""
    found = browser()
    if isinstance(found, str):
        raise FileNotFoundError(found)
    program, variables = found
    to_read, to_write = os.pipe(), os.pipe()  # what the browser writes, and what it reads
    command = [program, *_FLAGS, f"--user-data-dir={home}", "about:blank"]
    script = f'exec 3<&{to_write[0]} 4>&{to_read[1]}; exec "$@"'
    with open(home / "chromium.log", "wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", "-c", script, "chromium", *command],
            pass_fds=(to_write[0], to_read[1]), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            env={**os.environ, **{k: v for k, v in variables.items() if v}, "HOME": str(home)}, start_new_session=True,
        )  # fmt: skip
    os.close(to_write[0])
    os.close(to_read[1])
    try:
        yield Tab(process, to_read[0], to_write[1])
    finally:
        process.kill()
        process.wait()
        os.close(to_read[0])
        os.close(to_write[1])
