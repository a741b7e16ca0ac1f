"""Every endpoint gives what the command line gives, to the bit."""

import base64
import json
import os
import random
import struct

from files import npy
from harness import Skipped, check, equal, test
from photos import CLIP
from server import NPY, Server, embedded, pictured, small_world, uri


def queries(n=20, dim=8, seed=5):
    rng = random.Random(seed)
    return [[struct.unpack("<f", struct.pack("<f", rng.gauss(0, 1)))[0] for _ in range(dim)] for _ in range(n)]


def classified(box, *words):
    """What the command line says, as the server does: [[(class, score, probability), …], …]."""
    answers = json.loads(box.works("classify", *words, "--probabilities", "--json", "-q").out)["answers"]
    return [list(zip(o["classes"], o["scores"], o["probabilities"])) for o in answers]


def served(answer):
    return [[(c["class"], c["score"], c["probability"]) for c in r["classes"]] for r in answer["results"]]


@test
def classify_equals_the_command(box):
    words, rows = small_world(box), queries()
    box.write("q.npy", npy(rows))
    wanted = classified(box, "model.safetensors", "q.npy", "--top", "3")
    answers = json.loads(box.works("classify", "model.safetensors", "q.npy", "--json", "-q").out)["answers"]
    known = [answer["known"] for answer in answers]
    with Server(box, *words) as server:
        for body, kind in (({"rows": rows, "top": 3}, None), (npy(rows), NPY), (npy(rows, "<f8"), "application/octet-stream")):
            answer = server.works("POST", "/v1/classify?top=3", body, kind)
            equal(served(answer), wanted, f"answers to {kind}")
            equal([not r["unknown"] for r in answer["results"]], known, "unknown")
            for got in answer["results"]:
                equal(got["margin"], abs(got["classes"][0]["score"] - got["classes"][1]["score"]), "margin")
        one_by_one = [served(server.works("POST", "/v1/classify", {"rows": [row], "top": 3}))[0] for row in rows]
        equal(one_by_one, wanted, "rows one by one")
        equal(len(server.works("POST", "/v1/classify", {"rows": rows[:1], "top": 1000})["results"][0]["classes"]), 4, "all classes")


@test
def classify_by_row_number(box):
    words = small_world(box)
    wanted = classified(box, "model.safetensors", "data.safetensors", "--top", "2")
    with Server(box, *words) as server:
        answer = server.works("POST", "/v1/classify", {"row_numbers": [79, 0, 3], "top": 2})
        equal(served(answer), [wanted[i] for i in (79, 0, 3)], "rows of the gallery")
        many = server.works("POST", "/v1/classify", {"row_numbers": list(range(80)) * 20, "top": 2})
        equal(served(many), wanted * 20, "many of them")


def found(answer):
    return [[(n["row"], n["label"], n["score"]) for n in r["neighbours"]] for r in answer["results"]]


def searched(box, *words):
    answers = json.loads(box.works("search", *words, "--json", "-q").out)["answers"]
    return [[(n["row"], n["label"], n["score"]) for n in a["neighbours"]] for a in answers]


@test
def search_equals_the_command(box):
    words, rows = small_world(box), queries()
    box.write("q.npy", npy(rows))
    box.works("index", "data.safetensors", "-o", "raw.safetensors")
    wanted = {"koofu": searched(box, "gallery.safetensors", "q.npy", "-k", 7), "raw": searched(box, "raw.safetensors", "q.npy", "-k", 7)}
    itself = searched(box, "gallery.safetensors", "--itself", "-k", 5)
    for more in (words, ["model.safetensors", "--rows", "data.safetensors"], ["model.safetensors", "--gallery", "raw.safetensors"]):
        with Server(box, *more) as server:
            for space, answers in wanted.items():
                equal(found(server.works("POST", "/v1/search", {"rows": rows, "k": 7, "space": space})), answers, f"{space}, {more}")
            equal(found(server.works("POST", "/v1/search?k=7", npy(rows), NPY)), wanted["koofu"], "an array")
            answer = server.works("POST", "/v1/search", {"row_numbers": [7, 70], "k": 5})
            equal(found(answer), [itself[7], itself[70]], "rows of the gallery")
            equal(answer["results"][0]["query"]["row"], 7, "the query")
    with Server(box, "model.safetensors", "--gallery", "gallery.safetensors") as server:
        equal(found(server.works("POST", "/v1/search", {"rows": rows, "k": 7})), wanted["koofu"], "without rows")
        server.refuses(422, "POST", "/v1/search", {"rows": rows, "space": "raw"}, naming="--rows")
        server.refuses(422, "POST", "/v1/classify", {"row_numbers": [1]}, naming="--rows")


@test
def votes_are_those_of_the_command(box):
    words, rows = small_world(box), queries()
    box.write("q.npy", npy(rows))
    vote = ["model.safetensors", "q.npy", "--gallery", "gallery.safetensors", "-k", 9, "--top", 1]
    answers = json.loads(box.works("classify", *vote, "--json", "-q").out)["answers"]
    with Server(box, *words) as server:
        answer = server.works("POST", "/v1/search", {"rows": rows, "k": 9})
        equal([r["vote"] for r in answer["results"]], [answer["classes"][0] for answer in answers], "votes")


@test
def pictures_and_words(box):
    paths, words = pictured(box)
    wanted = classified(box, "model.safetensors", *paths, "--encoder", CLIP, "--top", "3")
    near = searched(box, "gallery.safetensors", paths[4], "--encoder", CLIP, "-k", 4)
    said = searched(box, "gallery.safetensors", "a small owl", "--encoder", CLIP, "-k", 4)
    with Server(box, *words) as server:
        raw = [served(server.works("POST", "/v1/classify?top=3", box.read(path), "image/png"))[0] for path in paths]
        equal(raw, wanted, "pictures as they are")
        together = server.works("POST", "/v1/classify", {"images": [uri(box.read(path)) for path in paths], "top": 3})
        equal(served(together), wanted, "data URIs")
        answer = server.works("POST", "/v1/search?k=4", box.read(paths[4]), "image/png")
        equal(found(answer), near, "neighbours of a picture")
        equal(answer["results"][0]["neighbours"][0]["id"], paths[4], "its id")
        equal(found(server.works("POST", "/v1/search", {"texts": ["a small owl"], "k": 4})), said, "neighbours of words")
        ant = server.works("POST", "/v1/classify", {"texts": ["an ant"]})["results"][0]
        check(len(ant["classes"]) == 3, "classes of words")
        row = server.works("POST", "/v1/embeddings", {"input": "an ant", "space": "raw"})["data"][0]["embedding"]
        as_picture = server.works("POST", "/v1/classify", {"rows": [row]})["results"][0]
        check(ant["classes"][0]["score"] != as_picture["classes"][0]["score"], "words are brought to where pictures are")
        bad = server.refuses(422, "POST", "/v1/classify", {"images": [uri(box.read(paths[0])), uri(b"no picture")]}, naming="picture 1")
        check("picture 1: picture" not in bad.json["error"]["message"], f"named once: {bad}")
        server.refuses(422, "POST", "/v1/classify", box.read(paths[0])[:60], "image/png", naming="picture 0")


@test
def searches_that_wait_together(box):
    """Each request gets the answer that it would get alone, whatever others ask of the same gallery."""
    words, rows = small_world(box), [[(i * 7 + j * 3) % 11 - 5.5 for j in range(8)] for i in range(60)]
    asked = [{"rows": rows[i:i + 30], "k": 1 + i % 7, "space": "raw" if i % 2 else "koofu"} for i in range(30)]
    with Server(box, *words) as server:
        alone = [found(server.works("POST", "/v1/search", body)) for body in asked]
        for _ in range(3):
            owns = [server.connect() for _ in asked]
            for own, body in zip(owns, asked):
                own.request("POST", "/v1/search", body=json.dumps(body), headers={"Content-Type": "application/json"})
            equal([found(json.loads(own.getresponse().read())) for own in owns], alone, "answers")
            for own in owns:
                own.close()


@test
def embeddings_are_those_of_the_file(box):
    paths, words = pictured(box)
    rows = embedded(box, "e.safetensors")
    box.works("transform", "model.safetensors", "e.safetensors", "-o", "mapped.safetensors")
    mapped = embedded(box, "mapped.safetensors")
    with Server(box, *words) as server:
        inputs = [uri(box.read(path)) for path in paths]
        for form in ("float", "base64"):
            for space, wanted in (("raw", rows), ("koofu", mapped)):
                answer = server.works("POST", "/v1/embeddings", {"input": inputs, "model": "any", "encoding_format": form, "space": space})
                got = [d["embedding"] for d in answer["data"]]
                if form == "base64":
                    got = [list(struct.unpack(f"<{len(base64.b64decode(e)) // 4}f", base64.b64decode(e))) for e in got]
                as_f32 = [[struct.unpack("<f", struct.pack("<f", v))[0] for v in row] for row in got]
                equal(as_f32, [list(row) for row in wanted], f"{form} {space}")
        answer = server.works("POST", "/v1/embeddings", {"input": "a fox", "model": "any"})
        equal(answer["usage"]["prompt_tokens"], answer["usage"]["total_tokens"], "usage")
        check(answer["usage"]["prompt_tokens"] >= 3, f"tokens: {answer['usage']}")
        short = server.works("POST", "/v1/embeddings", {"input": inputs[:1], "space": "koofu", "dimensions": 2})["data"][0]["embedding"]
        check(len(short) == 2 and abs(sum(v * v for v in short) - 1) < 1e-6, f"two dimensions, scaled again: {short}")
        server.refuses(422, "POST", "/v1/embeddings", {"input": "x", "dimensions": 2}, naming="dimensions")
        server.refuses(422, "POST", "/v1/embeddings", {"input": [1, 2, 3]}, naming="tokens")


@test
def classes_by_name_alone(box):
    paths, words = pictured(box)
    with Server(box, *words) as server:
        server.works("POST", "/v1/classes", {"name": "bear", "text": True}, status=201)
        equal([c["name"] for c in server.works("GET", "/v1/classes")["classes"]], ["ant", "fox", "owl", "bear"], "classes")
        server.works("POST", "/v1/classes", {"name": "yak", "images": [uri(box.read(paths[0]))]}, status=201)
        wide = server.works("POST", "/v1/classify", {"images": [uri(box.read(paths[2]))]})
    box.works("add-class", "model.safetensors", "--from-journal", "model.safetensors.journal", "-o", "wide.safetensors")
    equal(served(wide), classified(box, "wide.safetensors", paths[2], "--encoder", CLIP), "the model of the journal")


@test
def the_map_shows_both_spaces(box):
    words = small_world(box)
    box.works("transform", "model.safetensors", "data.safetensors", "-o", "mapped.safetensors")
    mapped = embedded(box, "mapped.safetensors")
    with Server(box, *words) as server:
        one, other = server.works("GET", "/v1/map"), server.works("GET", "/v1/map?space=raw")
        equal([p[0] for p in one["points"]], list(range(80)), "rows")
        equal([p[0] for p in other["points"]], list(range(80)), "the same rows")
        got = [[struct.unpack("<f", struct.pack("<f", v))[0] for v in p[1:3]] for p in one["points"]]
        equal(got, [list(row[:2]) for row in mapped], "the first two coordinates")
        equal(one["classes"], [f"class {k}" for k in range(4)], "classes")
        equal(len(server.works("GET", "/v1/map?max=10")["points"]), 10, "fewer")
        spread = [sum(p[i] ** 2 for p in other["points"]) for i in (1, 2)]
        check(spread[0] >= spread[1] > 0, f"the first component is the larger one: {spread}")
        server.refuses(422, "GET", "/v1/map?max=0")
        server.refuses(422, "GET", "/v1/map?space=other")


@test
def pictures_of_rows(box):
    paths, words = pictured(box)
    with Server(box, *words) as server:
        answer = server.works("GET", "/v1/images/4")
        equal(answer.body, box.read(paths[4]), "the picture")
        equal(answer.headers["content-type"], "image/png", "its type")
        small = server.works("GET", "/v1/images/4?size=16")
        check(small.body[:3] == b"\xff\xd8\xff" or small.body[:4] == b"\x89PNG", f"a small copy: {small}")
        for path in ("/v1/images/18", "/v1/images/x", "/v1/images/-1", "/v1/images/4/..", "/v1/images/..%2f..%2fe.safetensors"):
            server.refuses(404, "GET", path)
        server.refuses(422, "GET", "/v1/images/4?size=5")


@test
def infer_equals_classify(box):
    words, rows = small_world(box), queries(n=5)
    with Server(box, *words) as server:
        meta = server.works("GET", "/v2/models/model")
        equal(meta["inputs"], [{"name": "rows", "datatype": "FP32", "shape": [-1, 8]}], "inputs")
        for path in ("/v2", "/v2/health/live", "/v2/health/ready", "/v2/models/model/ready"):
            server.works("GET", path)
        flat = [v for row in rows for v in row]
        answer = None
        for data in (flat, rows):
            body = {"id": "7", "inputs": [{"name": "rows", "shape": [5, 8], "datatype": "FP32", "data": data}]}
            answer = server.works("POST", "/v2/models/model/infer", body)
            equal(answer["id"], "7", "id")
        outputs = {o["name"]: o for o in answer["outputs"]}
        best = server.works("POST", "/v1/classify", {"rows": rows, "top": 4})["results"]
        equal(outputs["class"]["data"], [r["classes"][0]["class"] for r in best], "best classes")
        for i, r in enumerate(best):
            for c in r["classes"]:
                k = int(c["class"].split()[1])
                equal(struct.pack("<f", outputs["scores"]["data"][4 * i + k]), struct.pack("<f", c["score"]), "a score")
        server.refuses(404, "POST", "/v2/models/other/infer", {})
        server.refuses(422, "POST", "/v2/models/model/infer", {"inputs": [{"name": "rows", "shape": [5, 7], "datatype": "FP32", "data": flat}]})
        server.refuses(422, "POST", "/v2/models/model/infer", {"inputs": [{"name": "rows", "shape": [4, 8], "datatype": "FP32", "data": flat}]})


@test
def infer_in_binary(box):
    words, rows = small_world(box), queries(n=3)
    values = struct.pack("<24f", *[v for row in rows for v in row])
    with Server(box, *words) as server:
        head = json.dumps({"inputs": [{"name": "rows", "shape": [3, 8], "datatype": "FP32", "parameters": {"binary_data_size": 96}}],
                           "outputs": [{"name": "scores", "parameters": {"binary_data": True}}, {"name": "class"}]}).encode()
        answer = server.works("POST", "/v2/models/model/infer", head + values, "application/octet-stream",
                              Inference_Header_Content_Length=str(len(head)))
        n = int(answer.headers["inference-header-content-length"])
        outputs = {o["name"]: o for o in json.loads(answer.body[:n])["outputs"]}
        plain = server.works("POST", "/v2/models/model/infer", {"inputs": [{"name": "rows", "shape": [3, 8], "datatype": "FP32", "data": rows}]})
        wanted = {o["name"]: o["data"] for o in plain["outputs"]}
        equal(answer.body[n:], struct.pack("<12f", *wanted["scores"]), "scores")
        equal(outputs["class"]["data"], wanted["class"], "classes")
        server.refuses(400, "POST", "/v2/models/model/infer", head + values[:-4], "application/octet-stream",
                       Inference_Header_Content_Length=str(len(head)))


@test
def models_are_listed(box):
    with Server(box, "--demo") as server:
        equal([m["id"] for m in server.works("GET", "/v1/models")["data"]], ["demo"], "the demo")
    paths, words = pictured(box)
    with Server(box, *words) as server:
        answer = server.works("GET", "/v1/models")
        name = server.works("POST", "/v1/embeddings", {"input": "x"})["model"]
        equal([(m["id"], m["object"]) for m in answer["data"]], [("model", "model"), (name, "model")], "the model, and the one of embeddings")
        equal(answer["data"][0]["created"], int(os.stat(box.path("model.safetensors")).st_mtime), "when it was written")
        server.works("GET", f"/v2/models/{answer['data'][0]['id']}")


@test
def the_demo_needs_nothing(box):
    with Server(box, "--demo") as server:
        info = server.works("GET", "/v1/info")
        check(info["demo"] and info["gallery"]["images"] and not info["can"]["picture"], f"info: {info}")
        check(any("no encoder" in line for line in info["missing"]), "what is missing")
        check(server.get("/v1/images/5").headers["content-type"] == "image/svg+xml", "a picture")
        check(b"<!doctype html>" in server.get("/").body.lower(), "the page")
        added = server.works("POST", "/v1/classes", {"name": "mine", "row_numbers": [1, 2, 3]}, status=201)
        equal(added["class"]["rows"], 3, "rows")
        server.works("DELETE", "/v1/classes/mine", status=204)
    equal(box.files(), set(), "files that it leaves")


@test
def the_page_is_kept_by_browsers(box):
    with Server(box, "--demo") as server:
        first = server.get("/")
        check("script-src 'self'" in first.headers["content-security-policy"], "its policy")
        again = server.get("/", If_None_Match=first.headers["etag"])
        equal((again.status, again.body), (304, b""), "asked again")
        equal(server.get("/page.js").headers["content-type"], "text/javascript; charset=utf-8", "type")


@test
def the_instruction_set_is_the_one_asked_for(box):
    for words, env in ((["--isa", "plain"], None), ([], {"KOOFU_ISA": "plain"})):
        with Server(box, "--demo", *words, env=env) as server:
            check(b'isa="plain"' in server.get("/metrics").body, f"{words} {env}")


@test
def the_device_is_the_one_asked_for(box):
    """On the plain twin of the plug-in for GPUs (tests/twin): the answers of the processor, until the device is lost."""
    plugin = os.path.join(os.path.dirname(box.program), "tests", "libkoofu-twin.so")
    if not os.path.exists(plugin):
        raise Skipped("there is no libkoofu-twin.so")
    words = small_world(box)
    requests = [(path, {"row_numbers": list(range(80)), more: 5}) for path, more in (("/v1/classify", "top"), ("/v1/search", "k"))]
    with Server(box, *words, "--device", "cpu") as server:
        wanted = [server.works("POST", *request)["results"] for request in requests]
    env = {"KOOFU_DEVICE_PLUGIN": plugin}
    for more, own in ((["--device", "cuda"], {}), ([], {"KOOFU_DEVICE": "cuda"})):
        with Server(box, *words, *more, env={**env, **own}) as server:
            equal([server.works("POST", *request)["results"] for request in requests], wanted, f"answers with {more} {own}")
        with Server(box, *words, *more, env={**env, **own, "KOOFU_TWIN": "lose_call=50"}) as server:
            answers = [server.post(*request) for _ in range(50) for request in requests]
            lost = [answer for answer in answers if answer.status != 200]
            check(lost, "calls of the device")
            equal({answer.status for answer in lost}, {500}, "errors")
            check("the device was lost" in lost[0].json["error"]["message"], f"{lost[0]}")
