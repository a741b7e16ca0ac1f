"""A headless Chromium, spoken to over its debugging pipe: no packages but the standard library."""

import base64
import json
import os
import shutil
import signal
import subprocess
import tempfile
import time

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")


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

    def show(self, path, width, height=900, scheme="light", media=""):
        """Opens a file in a window of this size and waits until it is there."""
        self.events = []
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1,
                  mobile=width < 600)
        self.call("Emulation.setEmulatedMedia", media=media,
                  features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.call("Page.navigate", url="file://" + os.path.abspath(path))
        for _ in range(2400):
            if self.evaluate("document.readyState === 'complete' && location.protocol === 'file:'"):
                return
            time.sleep(0.05)
        raise OSError(f"{path} does not load")

    def complaints(self):
        """What the console says, and what the page asked the network for."""
        found = []
        for event in self.events:
            method, p = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(p["exceptionDetails"].get("text", "an exception"))
            elif method == "Log.entryAdded":
                found.append(p["entry"]["text"])
            elif method == "Runtime.consoleAPICalled":
                found.append(f"console.{p['type']}")
            elif method == "Network.requestWillBeSent" and p["request"]["url"].split(":")[0] not in ("file", "about", "data"):
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

    def hover(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)
