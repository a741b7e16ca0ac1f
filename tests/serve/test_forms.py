"""Forms (multipart/form-data): the answers of the same input as JSON; what is wrong is named, and takes no more memory than the body."""

import random

from files import npy
from forms import form
from harness import check, equal, test
from server import Server, embedded, pictured, sanitized, small_world, uri


def without_time(answer):
    return {key: value for key, value in answer.items() if key not in ("ms", "command")}


@test
def a_form_is_answered_as_json_is(box):
    paths, words = pictured(box)
    photos = [box.read(path) for path in paths[:3]]
    rows = embedded(box, "e.safetensors")[:2]
    files = [("images", "a.png", photo) for photo in photos]
    cases = [("classify", [*files, ("top", None, b"2")], {"images": [uri(p) for p in photos], "top": 2}),
             ("search", [*files, ("k", None, b"3"), ("space", None, b"raw")], {"images": [uri(p) for p in photos], "k": 3, "space": "raw"}),
             ("search", [("texts", None, "a fox, \u00e9".encode()), ("texts", "t.txt", b"an owl")], {"texts": ["a fox, \u00e9", "an owl"]}),
             ("classify", [("rows", "r.npy", npy(rows))], {"rows": [list(map(float, row)) for row in rows]}),
             ("classify", [("rows", None, str([list(map(float, rows[0]))]).encode())], {"rows": [list(map(float, rows[0]))]}),
             ("search", [("row_numbers", None, b"[4, 0]")], {"row_numbers": [4, 0]})]
    with Server(box, *words) as server:
        for path, parts, same in cases:
            answers = [server.works("POST", f"/v1/{path}", *form(*parts)), server.works("POST", f"/v1/{path}", same)]
            equal(without_time(answers[0]), without_time(answers[1]), f"{path} {list(same)}")
        body, kind = form(("name", None, b"my owls"), *files)
        equal(server.works("POST", "/v1/classes", body, kind, status=201)["class"]["rows"], 3, "a class of three pictures")
        server.works("POST", "/v1/classes", *form(("name", None, b"bear"), ("text", None, b"true")), status=201)


@test
def quotes_folders_and_boundaries(box):
    paths, words = pictured(box)
    photo = box.read(paths[0])
    with Server(box, *words) as server:
        for file, name in (('a \\"b\\".png', "'a \"b\".png'"), ("C:\\\\fake\\\\x.png", "x.png"), ("../../x.png", "x.png"), ("-x.png", "./-x.png")):
            answer = server.works("POST", "/v1/classify", *form(("images", file, photo)))
            check(f" {name} --encoder" in answer["command"], f"{file}: {answer['command']}")
        body, kind = form(("images", "", photo))
        equal(server.works("POST", "/v1/classify", body, kind)["command"], None, "a file without a name")
        quoted = kind.replace("boundary=", 'charset=utf-8; Boundary="') + '"; x=y'
        server.works("POST", "/v1/classify", body, quoted)
        server.works("POST", "/v1/classify", body.replace(b"Content-Disposition", b"content-disposition") + b"after the end", kind)
        refused = server.refuses(422, "POST", "/v1/classify", *form(("images", "good.png", photo), ("images", "moving.gif", b"GIF89a")))
        check(refused.json["error"]["message"].startswith("moving.gif: "), f"the file is named: {refused}")
        server.refuses(422, "POST", "/v1/classify", *form(("images", "", b"GIF89a")), naming="picture 0: ")


@test
def forms_that_are_wrong(box):
    paths, words = pictured(box)
    photo = box.read(paths[0])
    body, kind = form(("images", "a.png", photo), ("top", None, b"1"))
    with Server(box, *words) as server:
        for status, wrong, naming in (
            (400, b"", "begin with its boundary"), (400, b"x" + body, "begin with its boundary"), (400, body[:-6], "last boundary"),
            (400, body[:60], "headers of a part"), (400, body.replace(b' name="images";', b""), "no name"), (400, body.replace(b"image", b"im\0ge"), "NUL"),
            (400, body.replace(b'"a.png"', b'"a.png' + b"x" * 5000 + b'"'), "4096"), (422, form(("top", None, b"abc"))[0], "'top' of the form: must be a number"),
            (422, form(("row_numbers", None, b"7"))[0], "'row_numbers' of the form: must be an array"), (400, form(("row_numbers", None, b"[x]"))[0], "not JSON"),
            (422, form(("top", None, b"0"), ("images", "a", photo))[0], "'top' of the form"), (422, form(("file", "a.png", photo))[0], "pictures are 'images'"),
            (422, form(("top", None, b"1"), ("top", None, b"2"))[0], "repeated"), (422, form(("images", "a", photo), ("texts", None, b"x"))[0], "another input"),
            (400, form(("texts", None, b"a\xffb"))[0], "UTF-8"), (400, form(("texts", None, b"a\0b"))[0], "NUL"), (422, form(("images", "a.png", photo), ("images", "b.png", b""))[0], "b.png: the picture is empty"),
            (422, form(("images", "", b""))[0], "picture 0 is empty"),
            (422, form(("name", None, b"x"), ("images", "a", photo))[0], "'name'"), (422, form()[0], "needed"), (422, form(("rows", "r.npy", npy([[1, 2]])))[0], "2 columns"),
            (413, form(*[("images", "a", b"x")] * 257)[0], "256 pictures"), (413, form(*[("texts", None, b"x")] * 1025)[0], "1024 texts")):
            server.refuses(status, "POST", "/v1/classify", wrong, kind, naming=naming)
        for bad in ("multipart/form-data", "multipart/form-data; boundary=", 'multipart/form-data; boundary=""', "multipart/form-data; boundary=" + "x" * 71):
            server.refuses(400, "POST", "/v1/classify", body, bad, naming="boundary")
        server.refuses(415, "POST", "/v1/embeddings", body, kind)
        server.refuses(403, "POST", "/v1/classify", body, kind, Origin="http://elsewhere.example")
        server.works("POST", "/v1/classify", body, kind)


@test
def hostile_forms_take_the_memory_of_their_body(box):
    """Half a million boundaries, headers or quotes: refused or answered, soon, and in the memory of one body."""
    words = small_world(box)
    rng = random.Random(3)
    with Server(box, *words, "--memory", "24", "--max-body", "8") as server:
        def resident():
            with open(f"/proc/{server.process.pid}/status", encoding="ascii") as file:
                return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        good, kind = form(("row_numbers", None, b"[1]"))
        before = resident()
        bodies = [b"--" + b"----x7" + b"\r\n----x7" * 900000, b"------x7\r\n" + b"A: b\r\n" * 1200000, b"------x7\r\nContent-Disposition: form-data" + b"; a=b" * 1400000,
                  good[:-12] + b"\r\n------x" * 800000, good + bytes(7 << 20)]
        for _ in range(60):
            torn = bytearray(good)
            for _ in range(3):
                torn[rng.randrange(len(torn))] = rng.choice(b'\r\n-"=;\0x')
            bodies.append(bytes(torn))
        for body in bodies:
            answer = server.post("/v1/classify", body, kind)
            check(answer.status in (200, 400, 422), f"{body[:60]!r}: {answer}")
        if not sanitized(box):  # whose allocator keeps what was freed
            check(resident() - before < 40 << 10, f"memory: {before} to {resident()} KiB")
        server.works("POST", "/v1/classify", good, kind)
