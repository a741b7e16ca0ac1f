"""A server in a box, and clients of it."""

import base64
import http.client
import json
import os
import re
import signal
import socket
import threading

from files import data_set, read_safetensors
from harness import Failed, Skipped, check, equal
from photos import CLIP, photos

LONG = bool(os.environ.get("KOOFU_SERVE_LONG"))
JSON = "application/json"
NPY = "application/x-npy"


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.headers = {k.lower(): v for k, v in response.getheaders()}
        self.body = response.read()

    @property
    def json(self):
        return json.loads(self.body)

    def __str__(self):
        return f"status {self.status}, body {self.body[:400]!r}"


class Server:
    """Used as `with Server(box, "model.safetensors", ...) as server:`; ends with SIGTERM, and must end well."""

    def __init__(self, box, *words, ends=0, env=None):
        self.ends = ends
        self.lines = []
        self.process = box.start("serve", *words, "--port", "0", env=env)
        self.port = None
        for line in self.process.stderr:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))
            found = re.search(r"http://[^ ]*:(\d+)/$", self.lines[-1])
            if found:
                self.port = int(found.group(1))
                break
        if self.port is None:
            self.process.wait()
            if any("build of koofu has no server" in line for line in self.lines):
                raise Skipped("this build of koofu has no server")
            raise Failed(f"the server did not start: {self.lines}")
        self.reader = threading.Thread(target=self.read_lines, daemon=True)
        self.reader.start()

    def read_lines(self):
        for line in self.process.stderr:
            self.lines.append(line.decode("utf-8", "replace").rstrip("\n"))

    def __enter__(self):
        return self

    def __exit__(self, kind, value, trace):
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        self.process.wait()
        self.reader.join()
        self.process.stdout.close()
        self.process.stderr.close()
        if kind is None and self.ends is not None:
            equal(self.process.returncode, self.ends, f"how the server ended: {self.lines}")
        elif kind is not None:
            print("\n".join(self.lines[-20:]))

    def kill(self):
        self.process.kill()
        self.ends = None

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port)

    def ask(self, method, path, body=None, type=None, connection=None, **headers):
        """headers: Content_Type="..." for Content-Type."""
        own = connection or self.connect()
        if isinstance(body, (dict, list)):
            body, type = json.dumps(body), type or JSON
        words = {name.replace("_", "-"): value for name, value in headers.items()}
        if type:
            words["Content-Type"] = type
        own.request(method, path, body=body, headers=words)
        answer = Answer(own.getresponse())
        if not connection:
            own.close()
        return answer

    def get(self, path, **more):
        return self.ask("GET", path, **more)

    def post(self, path, body, type=None, **more):
        return self.ask("POST", path, body, type, **more)

    def works(self, method, path, body=None, type=None, status=200, **more):
        answer = self.ask(method, path, body, type, **more)
        check(answer.status == status, f"{method} {path} should be answered with {status}: {answer}")
        return answer.json if answer.body and answer.headers.get("content-type") == JSON else answer

    def refuses(self, status, method, path, body=None, type=None, naming="", **more):
        """An error in OpenAI's shape, one sentence that holds `naming`."""
        answer = self.ask(method, path, body, type, **more)
        equal(answer.status, status, f"status of {method} {path}: {answer}")
        equal(answer.headers.get("content-type"), JSON, f"type of {answer}")
        error = answer.json["error"]
        equal(sorted(error), ["code", "message", "type"], f"fields of {answer}")
        equal(error["code"], status, f"code of {answer}")
        check(naming in error["message"], f"the message should hold {naming!r}: {answer}")
        return answer

    def metric(self, name):
        for line in self.get("/metrics").body.decode().splitlines():
            if line.startswith(name + " "):
                return float(line.split()[1])
        return 0

    def raw(self, data=b""):
        """A socket on which `data` has been sent."""
        own = socket.create_connection(("127.0.0.1", self.port))
        own.sendall(data)
        return own


def sanitized(box):
    with open(box.program, "rb") as file:
        program = file.read()
    return b"__asan_init" in program or b"__tsan_init" in program


def small_world(box, dim=8, classes=4, names=None):
    """data.safetensors, model.safetensors, gallery.safetensors and q.npy."""
    box.write("data.safetensors", data_set(n=80, dim=dim, classes=classes, names=names or [f"class {k}" for k in range(classes)]))
    box.works("fit", "data.safetensors", "--reject", "0.9", "-o", "model.safetensors")
    box.works("index", "data.safetensors", "--model", "model.safetensors", "-o", "gallery.safetensors")
    return ["model.safetensors", "--gallery", "gallery.safetensors", "--rows", "data.safetensors"]


def pictured(box):
    """Photos, their embeddings, and a model that has text."""
    paths = photos(box, "p", ["ant", "fox", "owl"], 6)
    box.write("names.txt", "ant\nfox\nowl\n")
    box.works("embed", CLIP, "p", "-o", "e.safetensors")
    box.works("embed-text", CLIP, "--classes", "names.txt", "-o", "prompts.safetensors")
    box.works("text-prototypes", "prompts.safetensors", "-o", "text.safetensors")
    box.works("fit", "e.safetensors", "--text", "text.safetensors", "-o", "model.safetensors")
    box.works("index", "e.safetensors", "--model", "model.safetensors", "-o", "gallery.safetensors")
    return paths, ["model.safetensors", "--gallery", "gallery.safetensors", "--rows", "e.safetensors", "--encoder", CLIP, "--images", "p"]


def uri(data, kind="image/png"):
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"


def embedded(box, name):
    return read_safetensors(box.read(name))[0]["embeddings"]
