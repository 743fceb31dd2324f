# SPDX-License-Identifier: GPL-2.0-only
"""
A browser without a screen, which a test drives as a person would: by events of the mouse and of the
keyboard. Chromium takes its commands from two pipes (--remote-debugging-pipe), so no other program
and no port is needed.
"""
import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import tempfile
import time

NAMES = "chromium-headless-shell", "chromium"
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9, "ArrowLeft": 37, "ArrowUp": 38, "ArrowRight": 39,
        "ArrowDown": 40, "Home": 36, "End": 35, " ": 32}
ANSWER_SECONDS = 300  # which only a hang reaches
TEXTS = {"Enter": "\r", " ": " "}


def find():
    """The browser's path, or None."""
    return next((path for path in map(shutil.which, NAMES) if path), None)


class Failure(Exception):
    """What the page did not do in time, or what went wrong in it."""


class Browser:
    def __init__(self, width=1400, height=1000):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        self.number = 0
        self.problems = []
        self.requests = []
        self.contexts = {}
        read, its_write = os.pipe()
        its_read, write = os.pipe()
        # Above the numbers that they get in the browser.
        its_read, its_write = (fcntl.fcntl(end, fcntl.F_DUPFD, 20) for end in (its_read, its_write))
        command = [find(), "--headless", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe",
                   "--no-first-run", "--disable-background-networking", "--disable-dev-shm-usage",
                   "--disable-features=IsolateSandboxedIframes",
                   "--enable-unsafe-swiftshader", f"--window-size={width},{height}",
                   f"--user-data-dir={self.folder.name}", "about:blank"]
        with open(os.path.join(self.folder.name, "log"), "wb") as log:
            # Its descriptors 3 and 4.
            shell = f'exec "$@" 3<&{its_read} 4>&{its_write} {its_read}<&- {its_write}>&-'
            self.process = subprocess.Popen(["bash", "-c", shell, "browser", *command], stdout=log,
                                            stderr=log, pass_fds=(its_read, its_write))
        os.close(its_read)
        os.close(its_write)
        self.input, self.output, self.unread = os.fdopen(write, "wb", 0), read, b""
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        attached = self.call("Target.attachToTarget", targetId=target, flatten=True)
        self.session = attached["sessionId"]
        for domain in "Page", "Runtime", "Log", "Network":
            self.call(domain + ".enable")
        self.size(width, height)

    def close(self):
        self.process.kill()
        self.process.wait()
        self.input.close()
        os.close(self.output)
        self.folder.cleanup()

    def _read(self):
        while b"\0" not in self.unread:
            if not select.select([self.output], [], [], ANSWER_SECONDS)[0]:
                raise Failure(f"the browser has not answered for {ANSWER_SECONDS} s")
            part = os.read(self.output, 1 << 16)
            if not part:
                raise Failure("the browser has ended")
            self.unread += part
        message, _, self.unread = self.unread.partition(b"\0")
        return json.loads(message)

    def call(self, method, **parameters):
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.input.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self._read()
            if answer.get("id") == self.number:
                if "error" in answer:
                    raise Failure(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self._note(answer)

    def _note(self, event):
        """Keeps what the browser complains of: errors of scripts, and what a policy forbids."""
        content = event.get("params", {})
        if event.get("method") == "Runtime.executionContextCreated":
            frame = content["context"]["auxData"]["frameId"]
            self.contexts[frame] = content["context"]["id"]
        elif event.get("method") == "Runtime.exceptionThrown":
            details = content["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description", details["text"]))
        elif event.get("method") == "Log.entryAdded" and content["entry"]["level"] == "error":
            self.problems.append(content["entry"]["text"] + " " + content["entry"].get("url", ""))
        elif event.get("method") == "Network.requestWillBeSent":
            self.requests.append(content["request"]["url"])

    def open(self, url):
        self.requests = []
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete'")

    def size(self, width, height):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)

    def dark(self, on):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if on else "light"}])

    def inner(self):
        """The script context of the frame in the page."""
        frames = self.call("Page.getFrameTree")["frameTree"].get("childFrames", [])
        context = self.contexts.get(frames[0]["frame"]["id"]) if frames else None
        if not context:
            raise Failure("the page has no frame")
        return context

    def get(self, script, inner=False):
        """The value of an expression, or of a promise of it; inner: in the page's frame."""
        where = {"contextId": self.inner()} if inner else {}
        result = self.call("Runtime.evaluate", expression=script, awaitPromise=True,
                           returnByValue=True, **where)
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise Failure(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, script, inner=False):
        """Until the expression is true; its value."""
        end = time.monotonic() + ANSWER_SECONDS
        while time.monotonic() < end:
            try:
                value = self.get(script, inner)
            except Failure:
                # The frame may be being replaced.
                if not inner:
                    raise
                value = None
            if value:
                return value
            time.sleep(0.05)
        raise Failure(f"after {ANSWER_SECONDS} s still not: {script}")

    def mouse(self, kind, x, y, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, **more)

    def click_at(self, x, y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        self.mouse("mouseReleased", x, y, button="left", clickCount=1)

    def drag(self, x, y, to_x, to_y):
        self.mouse("mouseMoved", x, y)
        self.mouse("mousePressed", x, y, button="left", clickCount=1)
        for step in range(1, 6):
            self.mouse("mouseMoved", x + (to_x - x) * step / 5, y + (to_y - y) * step / 5,
                       button="left", buttons=1)
        self.mouse("mouseReleased", to_x, to_y, button="left", clickCount=1)

    def box(self, element, inner=False):
        """Left, top, width and height of an element, an expression, once it is in view."""
        left, top = 0, 0
        if inner:
            left, top, _, _ = self.box("document.querySelector('iframe')")
        x, y, width, height = self.get(
            f"(e => {{ e.scrollIntoView({{block: 'nearest'}}); "
            "const b = e.getBoundingClientRect(); return [b.x, b.y, b.width, b.height] })"
            f"({element})", inner)
        return left + x, top + y, width, height

    def click(self, element, inner=False):
        x, y, width, height = self.box(element, inner)
        self.click_at(x + width / 2, y + height / 2)

    def key(self, name, shift=False, times=1):
        event = {"key": name, "modifiers": 8 if shift else 0,
                 "windowsVirtualKeyCode": KEYS.get(name, ord(name[0].upper()))}
        text = TEXTS.get(name, name if len(name) == 1 else "")
        for _ in range(times):
            self.call("Input.dispatchKeyEvent", type="keyDown" if text else "rawKeyDown", text=text,
                      **event)
            self.call("Input.dispatchKeyEvent", type="keyUp", **event)

    def type(self, text):
        self.call("Input.insertText", text=text)

    def picture(self, path):
        with open(path, "wb") as file:
            file.write(base64.b64decode(self.call("Page.captureScreenshot")["data"]))
