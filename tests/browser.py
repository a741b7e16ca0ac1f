"""A headless Chromium, spoken to over its debugging pipe: no packages but the standard library."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.parse

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")

# Texts that lie on each other, in a table or a card.
COLLIDING = """[...document.querySelectorAll('tr, .card, .field, .bar, .shown, #legend button')].filter((e) => e.checkVisibility()).flatMap((e) => {
  const boxes = [], walk = document.createTreeWalker(e, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) { const n = walk.currentNode, r = document.createRange(); r.selectNodeContents(n);
    if (n.data.trim() && n.parentElement.checkVisibility() && !n.parentElement.closest('.unseen, option, .id')) for (const b of r.getClientRects()) boxes.push([n, b]); }
  return boxes.flatMap(([n, a]) => boxes.filter(([m, b]) => m !== n && a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 4 && b.top < a.bottom - 4)
    .map(([m]) => `${n.data} and ${m.data}`)); }).slice(0, 3)"""


def find():
    """The path of a Chromium, or None. KOOFU_CHROMIUM names another."""
    return os.environ.get("KOOFU_CHROMIUM") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. Messages are JSON with a NUL behind each, written to descriptor 3 and read from 4."""

    def __init__(self, program):
        self.folder = tempfile.mkdtemp(prefix="koofu-browser-")
        to_read, self.to = os.pipe()
        self.of, to_write = os.pipe()

        def descriptors():  # 3 and 4 may be taken by the pipes themselves
            a, b = os.dup(to_read), os.dup(to_write)
            os.dup2(a, 3)
            os.dup2(b, 4)
        self.process = subprocess.Popen(
            [program, "--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--remote-debugging-pipe",
             f"--user-data-dir={self.folder}", "--disable-dev-shm-usage", "--no-first-run", "about:blank"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=descriptors,
            close_fds=False, start_new_session=True)
        os.close(to_read)
        os.close(to_write)
        self.last, self.rest, self.events, self.session = 0, b"", [], None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        os.close(self.to)
        os.close(self.of)
        try:
            os.killpg(self.process.pid, signal.SIGKILL)  # its own group: this browser and its helpers
        except ProcessLookupError:
            pass
        self.process.wait()
        shutil.rmtree(self.folder, ignore_errors=True)

    def receive(self):
        while b"\0" not in self.rest:
            more = os.read(self.of, 1 << 16)
            if not more:
                raise OSError("the browser went away")
            self.rest += more
        message, self.rest = self.rest.split(b"\0", 1)
        return json.loads(message)

    def call(self, method, **parameters):
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.to, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last:
                if "error" in answer:
                    raise OSError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def evaluate(self, expression):
        return self.call("Runtime.evaluate", expression=expression, returnByValue=True)["result"].get("value")

    def window(self, width, height=900, scheme="light", media="", still=False):
        """A window of this size; narrow ones are phones. still: the user prefers reduced motion."""
        phone = width < 600
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=phone)
        self.call("Emulation.setTouchEmulationEnabled", enabled=phone, maxTouchPoints=5 if phone else 1)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme},
                            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def show(self, path, width, height=900, scheme="light", media=""):
        """Opens a file in a window of this size and waits until it is loaded."""
        self.window(width, height, scheme, media)
        self.go("file://" + os.path.abspath(path))

    def go(self, url):
        self.events = []
        self.call("Page.navigate", url="about:blank")  # an address that differs after '#' alone would not load anew
        self.call("Page.navigate", url=url)
        self.wait(f"document.readyState === 'complete' && location.protocol === '{url.split(':')[0]}:'")

    def wait(self, expression, seconds=120):
        """Until the expression is true; returns its value."""
        for _ in range(20 * seconds):
            value = self.evaluate(expression)
            if value:
                return value
            time.sleep(0.05)
        raise OSError(f"never true: {expression}")

    def complaints(self, host=None):
        """What the console says, and what the page requested from the network; host: the one it may use, with its port."""
        found = []
        for event in self.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                details = p["exceptionDetails"]
                found.append(details.get("exception", {}).get("description") or details.get("text", "an exception"))
            elif method == "Log.entryAdded":
                found.append(f"{p['entry']['text']} {p['entry'].get('url', '')}".strip())
            elif method == "Runtime.consoleAPICalled":
                found.append(f"console.{p['type']}")
            elif method == "Network.requestWillBeSent":
                url = urllib.parse.urlsplit(p["request"]["url"])
                if url.scheme not in ("file", "about", "data", "blob") and url.netloc != host:
                    found.append(f"asks for {p['request']['url']}")
        return found

    def screenshot(self, path):
        data = self.call("Page.captureScreenshot", captureBeyondViewport=True)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    def pdf(self, path):
        data = self.call("Page.printToPDF", printBackground=True, preferCSSPageSize=True, paperWidth=8.27,
                         paperHeight=11.69)["data"]
        with open(path, "wb") as file:
            file.write(base64.b64decode(data))

    # ---- mouse, touch and keys ----

    def mouse(self, kind, x, y, modifiers=0, **more):
        self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, modifiers=modifiers, **more)

    def hover(self, x, y):
        self.mouse("mouseMoved", x, y)

    def drag(self, points, modifiers=0):
        """Presses at the first point, goes through the others and lets go at the last; one point is a click."""
        self.mouse("mouseMoved", *points[0], modifiers)
        self.mouse("mousePressed", *points[0], modifiers, button="left", buttons=1, clickCount=1)
        for x, y in points[1:]:
            self.mouse("mouseMoved", x, y, modifiers, button="left", buttons=1)
        self.mouse("mouseReleased", *points[-1], modifiers, button="left", clickCount=1)

    def wheel(self, x, y, delta):
        self.mouse("mouseWheel", x, y, deltaX=0, deltaY=delta)

    def touch(self, steps):
        """Fingers: one list of points for each step, a point for each finger."""
        def fingers(points):
            return [{"x": x, "y": y, "id": i} for i, (x, y) in enumerate(points)]
        self.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=fingers(steps[0]))
        for points in steps[1:]:
            self.call("Input.dispatchTouchEvent", type="touchMove", touchPoints=fingers(points))
        if len(steps) > 1:
            time.sleep(0.3)  # a finger that rests before it lifts does not fling; a tap during a fling only stops that
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def key(self, name, modifiers=0):
        """A key by its name, such as ArrowLeft or x; modifiers: 1 Alt, 2 Control, 4 Meta, 8 Shift."""
        text = {"Enter": "\r", "Tab": ""}.get(name, name if len(name) == 1 else "")
        codes = {"Enter": 13, "Tab": 9, "Escape": 27, " ": 32, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowUp": 38,
                 "ArrowRight": 39, "ArrowDown": 40}
        code = codes.get(name, ord(name.upper()) if len(name) == 1 else 0)
        self.call("Input.dispatchKeyEvent", type="keyDown", key=name, text=text, windowsVirtualKeyCode=code,
                  modifiers=modifiers)
        self.call("Input.dispatchKeyEvent", type="keyUp", key=name, windowsVirtualKeyCode=code, modifiers=modifiers)

    def type(self, text):
        self.call("Input.insertText", text=text)
