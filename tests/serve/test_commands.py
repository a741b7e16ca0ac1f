"""The command of an answer runs as it is printed, in the folder of the server, and gives the same answer."""

import os
import subprocess

from files import npy
from forms import form
from harness import check, equal, test
from server import Server, embedded, pictured, small_world


def run(box, command):
    """What it prints. `koofu` is the program under test; files in /tmp go elsewhere, so that tests do not meet."""
    env = {**os.environ, "PATH": f"{os.path.dirname(box.program)}:{os.environ['PATH']}"}
    done = subprocess.run(["sh", "-c", command.replace("/tmp/koofu-gallery", box.path("koofu-gallery")).replace("/tmp/koofu-added", box.path("koofu-added"))], cwd=box.folder, env=env, capture_output=True, check=False)
    equal(done.returncode, 0, f"{command}: {done.stderr.decode()}")
    return [line.split("\t") for line in done.stdout.decode().splitlines()]


def same_classes(box, answer):
    """Class, score and probability of each column triple, in each line but the header."""
    lines = run(box, answer["command"])
    equal(len(lines), 1 + len(answer["results"]), f"lines of {answer['command']}")
    first = lines[0].index("class1")
    for line, result in zip(lines[1:], answer["results"]):
        for i, c in enumerate(result["classes"]):
            name, score, probability = line[first + 3 * i : first + 3 * i + 3]
            equal((name, float(score), float(probability)), (c["class"], round(c["score"], 6), round(c["probability"], 6)), answer["command"])


def same_rows(box, answer):
    lines = run(box, answer["command"])
    equal(len(lines), 1 + len(answer["results"]), f"lines of {answer['command']}")
    for line, result in zip(lines[1:], answer["results"]):
        labels = line[2::3]
        equal(labels, [n["label"] for n in result["neighbours"]], answer["command"])
        equal(line[1::3], [n["id"] or str(n["row"]) for n in result["neighbours"]], answer["command"])


def pictures_of(box, paths):
    """Some pictures as files of a form, and copies of them in the folder of the server."""
    for i, path in enumerate(paths):
        box.write(f"my {i}.png", box.read(path))
    return [("images", f"my {i}.png", box.read(path)) for i, path in enumerate(paths)]


@test
def commands_about_pictures_words_and_rows(box):
    paths, words = pictured(box)
    worlds = [words, [words[0], *words[3:]], [words[0], "--gallery", "raw.safetensors", *words[5:]], [*words, "--precision", "f32"]]
    box.works("index", "e.safetensors", "-o", "raw.safetensors")
    for more in worlds:
        with Server(box, *more) as server:
            body, kind = form(*pictures_of(box, paths[:2]), ("top", None, b"2"))
            same_classes(box, server.works("POST", "/v1/classify", body, kind))
            same_classes(box, server.works("POST", "/v1/classify", {"row_numbers": [7], "top": 3}))
            for space in ("raw", "koofu"):
                body, kind = form(*pictures_of(box, paths[:2]), ("k", None, b"4"), ("space", None, space.encode()))
                same_rows(box, server.works("POST", "/v1/search", body, kind))
                same_rows(box, server.works("POST", "/v1/search", {"texts": ["it's a fox", "an owl."], "k": 4, "space": space}))
                same_rows(box, server.works("POST", "/v1/search", {"row_numbers": [5], "k": 3, "space": space}))
            run(box, server.works("GET", "/v1/map")["command"])
            run(box, server.works("GET", "/v1/classes")["command"])


@test
def commands_about_rows_and_added_classes(box):
    words = small_world(box)
    rows = npy(embedded(box, "data.safetensors")[:3])
    box.write("my rows.npy", rows)
    with Server(box, *words) as server:
        for added in (False, True):
            if added:
                run(box, server.works("POST", "/v1/classes", {"name": "new one", "row_numbers": [1, 2, 3]}, status=201)["command"])
            body, kind = form(("rows", "my rows.npy", rows), ("top", None, b"3"))
            same_classes(box, server.works("POST", "/v1/classify", body, kind))
            same_classes(box, server.works("POST", "/v1/classify", {"row_numbers": [2], "top": 2}))
            run(box, server.works("GET", "/v1/classes")["command"])
    check(os.path.exists(box.path("model2.safetensors")), "the model with the added class")


@test
def commands_have_the_names_of_the_server(box):
    words = small_world(box)
    box.write("my names.txt", "class 0\ttench\nclass 1\tcrane\n")
    with Server(box, *words, "--names", "my names.txt") as server:
        for added in (False, True):
            if added:
                server.works("POST", "/v1/classes", {"name": "new one", "row_numbers": [1, 2, 3]}, status=201)
            answer = server.works("POST", "/v1/classify", {"row_numbers": [2], "top": 3})
            header, line = run(box, answer["command"])
            equal([line[header.index(f"name{i}")] for i in (1, 2, 3)], [c["display_name"] for c in answer["results"][0]["classes"]], answer["command"])


@test
def where_no_command_does_the_same(box):
    paths, words = pictured(box)
    row = [0.5] * len(embedded(box, "e.safetensors")[0])
    with Server(box, *words) as server:
        for path, body, kind in (("classify", {"texts": ["a fox"]}, None), ("search", {"texts": ["cats/dogs"]}, None), ("search", {"texts": ["a.png"]}, None),
                                 ("search", {"texts": ["-k"]}, None), ("classify", {"rows": [row]}, None), ("search", {"row_numbers": [1, 2]}, None),
                                 ("classify", box.read(paths[0]), "image/png")):
            equal(server.works("POST", f"/v1/{path}", body, kind)["command"], None, f"{path} {str(body)[:40]}")
        equal(server.works("GET", "/v1/map?space=raw")["command"], None, "the raw plane")
    with Server(box, "--demo") as server:
        for path, body in (("classify", {"row_numbers": [1]}), ("search", {"row_numbers": [1]})):
            equal(server.works("POST", f"/v1/{path}", body)["command"], None, "the demo has no files")
        for path in ("map", "classes"):
            equal(server.works("GET", f"/v1/{path}")["command"], None, "the demo has no files")
