"""The lines of docs/server.md do what it says."""

import os
import re
import shutil
import subprocess

from files import npy
from harness import Skipped, check, equal, test
from server import Server, embedded, pictured

DOCUMENT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "docs", "server.md")


@test
def the_lines_of_the_document_work(box):
    if not shutil.which("curl"):
        raise Skipped("curl is not installed")
    with open(DOCUMENT, encoding="utf-8") as file:
        lines = re.findall(r"^curl .*$", file.read(), re.M)
    check(len(lines) >= 15, f"{len(lines)} lines")
    paths, words = pictured(box)
    shutil.copy(box.path(paths[0]), box.path("photo.png"))
    box.write("rows.npy", npy(embedded(box, "e.safetensors")))
    with Server(box, *words) as server:
        for line in lines:
            own = line.replace("127.0.0.1:8080", f"127.0.0.1:{server.port}").replace("curl -s", "curl -s -w '\\n%{http_code}'", 1)
            done = subprocess.run(["sh", "-c", own], cwd=box.folder, capture_output=True, check=False)
            status = done.stdout.decode("utf-8", "replace").rsplit("\n", 1)[-1]
            wanted = "201" if '"name"' in line or "-F name=" in line else "204" if "DELETE" in line else "200"
            equal(status, wanted, f"{line}: {done}")
    check(os.path.getsize(box.path("small.jpg")) > 100, "a small copy")


@test
def every_route_is_described(box):
    with Server(box, "--demo") as server:
        described = server.works("GET", "/openapi.json")
        with open(DOCUMENT, encoding="utf-8") as file:
            text = file.read()
        equal(described["info"]["version"], server.works("GET", "/v1/info")["koofu"], "version")
        for path in described["paths"]:
            first = "/".join(path.split("/")[:3])
            check(first in text or path.startswith("/v2"), f"{path} is not in docs/server.md")
