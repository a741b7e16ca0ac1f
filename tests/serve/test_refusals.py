"""Requests that are wrong, too large, forbidden or for missing things get the right status and one sentence."""

import json
import socket
import struct
import zlib

from files import data_set, npy, png
from harness import USAGE, check, equal, test
from server import JSON, NPY, Server, pictured, small_world, uri

ROW = [0.5, -1, 2, 0, 1, 1, 1, 1]


@test
def bodies_that_are_wrong(box):
    with Server(box, *small_world(box)) as server:
        for body in ("", "{", "[]", '{"rows":[[1,2', '{"rows":[[1,]]}', '{"rows":[[01]]}', '{"rows":[[NaN]]}', '{"a":1}}',
                     '{"rows":[[1]]} x', "\ufeff{}", '{"rows":"\\ud800"}', '{"ro\x00ws":1}', "{" * 100):
            answer = server.post("/v1/classify", body.encode(), JSON)
            check(answer.status in (400, 422), f"{body!r}: {answer}")
        server.refuses(400, "POST", "/v1/classify", "{", JSON, naming="byte 1")
        for body, naming in (({}, "needed"), ({"rows": []}, "no row"), ({"rows": [[1]]}, "row 0 has 1 values"), ({"rows": 5}, "array"),
                             ({"rows": [ROW, ROW + [1]]}, "row 1 has 9"), ({"rows": [["x"]]}, "number"), ({"rows": [ROW], "tpo": 1}, "tpo"),
                             ({"rows": [ROW], "top": 0}, "whole number"), ({"rows": [ROW], "top": 1.5}, "whole number"),
                             ({"rows": [[0] * 8]}, ""), ({"rows": [[1e39] * 8]}, "too large"), ({"rows": [ROW], "row_numbers": [1]}, "another input"),
                             ({"row_numbers": [80]}, "79"), ({"row_numbers": [-1]}, "79"), ({"images": ["data:image/png;base64,AAAA"]}, "--encoder"),
                             ({"texts": ["x"]}, "--encoder")):
            server.refuses(422, "POST", "/v1/classify", body, naming=naming)
        server.refuses(422, "POST", "/v1/classify", '{"rows":[],"rows":[]}', JSON, naming="is repeated")
        server.refuses(422, "POST", "/v1/classify?top=x", {"rows": [ROW]}, naming="top")
        for method, address in (("POST", "classify?topp=3"), ("POST", "classify?top=3&k=3"), ("POST", "search?kk=3"), ("GET", "map?spac=raw"),
                                ("GET", "info?x"), ("GET", "images/1?siz=64")):
            server.refuses(422, method, f"/v1/{address}", {"rows": [ROW]} if method == "POST" else None, naming="unknown parameter")
        server.works("POST", "/v1/search?k=3&space=raw", {"rows": [ROW]})
        equal(server.get("/?from=elsewhere").status, 200, "the page takes any address")
        for name in (" ", "\t \n"):
            server.refuses(422, "POST", "/v1/classes", {"name": name, "rows": [ROW]}, naming="blanks")
        server.refuses(400, "POST", "/v1/classify", b"no array", NPY)
        server.refuses(422, "POST", "/v1/classify", npy([[1, 2]]), NPY, naming="2 columns")
        server.refuses(422, "POST", "/v1/classify", npy([ROW])[:-4], NPY, naming="the array")
        server.refuses(422, "POST", "/v1/classify", npy([[1] * 8, [float("nan")] * 8]), NPY, naming="row 1")
        for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/mixed; boundary=x", None):
            server.refuses(415, "POST", "/v1/classify", b"{}", kind)
        server.refuses(422, "POST", "/v1/search", {"rows": [ROW], "k": 1025})
        server.refuses(422, "POST", "/v1/search", {"rows": [ROW], "space": "x"})
        equal(server.works("POST", "/v1/search", {"rows": [ROW], "k": 1024})["results"][0]["neighbours"].__len__(), 80, "all rows")


@test
def a_check_says_that_all_is_well(box):
    said = box.works("serve", *small_world(box), "--port", "0", "--check").err
    check("all is well" in said and "serving" not in said, said)


@test
def addresses_and_methods(box):
    with Server(box, "--demo") as server:
        for path in ("/x", "/v1", "/v1/", "/v1/images/", "/etc/passwd", "//", "/../x", "/page/index.html", "/v1/classify/x"):
            server.refuses(404, "GET", path)
        answer = server.refuses(405, "GET", "/v1/classify")
        equal(answer.headers["allow"], "POST", "what it takes")
        equal(server.refuses(405, "PUT", "/v1/classes").headers["allow"], "GET, POST", "what it takes")
        for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
            server.refuses(405, method, "/v1/info")
        head = server.ask("HEAD", "/v1/info")
        equal((head.status, head.body), (200, b""), "HEAD")
        equal(server.get("/healthz").body, b"ok\n", "health")


@test
def what_is_too_large(box):
    with Server(box, *small_world(box), "--max-body", "1") as server:
        answer = server.refuses(413, "POST", "/v1/classify", b"x" * (1 << 20) + b"x", JSON)
        check("1048576" in answer.json["error"]["message"], f"how much is allowed: {answer}")
        server.refuses(413, "POST", "/v1/classify", {"rows": [ROW] * 4097}, naming="4096")
        server.refuses(413, "POST", "/v1/classify", npy([ROW] * 4097), NPY, naming="4096")
        server.refuses(413, "POST", "/v1/search", {"row_numbers": [1] * 4097}, naming="4096")

        def chunks(n):
            for _ in range(n):
                yield b" " * 65536
        own = server.connect()
        own.request("POST", "/v1/classify", body=chunks(20), headers={"Content-Type": JSON}, encode_chunked=True)
        equal(own.getresponse().status, 413, "a body in chunks")
        own = server.raw(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        try:
            for _ in range(4000):
                own.sendall(b"10000\r\n" + b" " * 65536 + b"\r\n")
            check(False, "a body without end is read")
        except OSError:
            pass  # cut off
        equal(server.get("/healthz").status, 200, "afterwards")


@test
def too_many_answers(box):
    box.write("many.safetensors", data_set(n=300, dim=8, classes=4))
    small_world(box)
    with Server(box, "model.safetensors", "--rows", "many.safetensors") as server:
        numbers = [i % 300 for i in range(4096)]
        server.refuses(413, "POST", "/v1/search", {"row_numbers": numbers, "k": 299}, naming="too many")
        equal(len(server.works("POST", "/v1/search", {"row_numbers": numbers[:9], "k": 299})["results"]), 9, "fewer")


@test
def hosts_and_origins(box):
    with Server(box, "--demo", "--allow-host", "gpu.example") as server:
        for host in ("localhost", "localhost:80", f"127.0.0.1:{server.port}", "[::1]", "[::1]:8080", "gpu.example", "GPU.example:9", "10.0.0.1"):
            equal(server.get("/v1/info", Host=host).status, 200, host)
        for host in ("evil.example", "localhost.evil.example", "gpu.example.evil", "127.0.0.1.evil", "", "[::1", "a:b", "localhost:80:80", "x y"):
            server.refuses(403, "GET", "/v1/info", Host=host, naming="unknown Host")
            server.refuses(403, "GET", "/", Host=host)
        own = server.raw(b"GET /v1/info HTTP/1.0\r\n\r\n")
        check(b" 403 " in own.recv(4096).split(b"\r\n")[0], "no Host at all")
        body, host = {"row_numbers": [1]}, "localhost:8080"
        equal(server.post("/v1/classify", body, Host=host, Origin="http://localhost:8080").status, 200, "our own page")
        for origin in ("http://evil.example", "null", "http://localhost:8081", "https://localhost:8080.evil", "localhost:8080", "file://"):
            server.refuses(403, "POST", "/v1/classify", body, Host=host, Origin=origin)
        server.refuses(403, "GET", "/v1/info", Sec_Fetch_Site="cross-site", naming="cross-site")
        equal(server.get("/", Sec_Fetch_Site="cross-site").status, 200, "a link to the page")


@test
def tokens(box):
    words, token = small_world(box), "a-token-of-some-length"
    box.write("token", token + "\n")
    with Server(box, *words, "--token-file", "token", "--host", "0.0.0.0") as server:
        for path in ("/", "/healthz", "/v2/health/live", "/openapi.json"):
            equal(server.get(path).status, 200, f"{path} is open")
        for path in ("/v1/info", "/v1/classes", "/metrics", "/v2", "/nowhere"):
            answer = server.refuses(401, "GET", path)
            equal(answer.headers["www-authenticate"], "Bearer", "how to ask")
        for wrong in ("", "Bearer", "Bearer ", "Bearer " + token[:-1], "Bearer " + token + "x", "Basic " + token, token, "Bearer " + token.upper()):
            server.refuses(401, "GET", "/v1/info", Authorization=wrong)
        equal(server.get("/v1/info", Authorization="Bearer " + token).status, 200, "the token")
        server.refuses(401, "POST", "/v1/classify", {"rows": [ROW]})
    box.refuses(USAGE, "serve", "model.safetensors", "--host", "0.0.0.0", "--port", "0", naming="--token-file")
    box.write("short", "12345\n")
    box.refuses(3, "serve", "model.safetensors", "--token-file", "short", "--port", "0", naming="16")
    for n, status in ((4095, 0), (4096, 3), (5000, 3)):  # with the end of the line
        box.write("long", "x" * n + "\n")
        done = box.run("serve", "model.safetensors", "--token-file", "long", "--port", "0", "--check")
        equal(done.status, status, f"a token of {n} characters: {done.err}")
        check(status == 0 or "long: a token file must have at most 4096 bytes" in done.err, done.err)
    box.refuses(4, "serve", "model.safetensors", "--token-file", "missing", "--port", "0", naming="missing")


@test
def options_that_make_no_sense(box):
    words = small_world(box)
    box.refuses(USAGE, "serve", naming="MODEL")
    box.refuses(USAGE, "serve", "--demo", "model.safetensors", naming="--demo")
    box.refuses(USAGE, "serve", "model.safetensors", "--images", ".", naming="--images")
    box.refuses(4, "serve", "missing.safetensors", naming="missing.safetensors")
    box.refuses(3, "serve", "data.safetensors", naming="data.safetensors")
    box.write("other.safetensors", box.read("data.safetensors"))
    box.works("synth", "--classes", 3, "--dim", 9, "-o", "nine.safetensors")
    box.refuses(3, "serve", "model.safetensors", "--rows", "nine.safetensors", naming="9 columns")
    box.refuses(3, "serve", *words[:3], "--rows", "nine.safetensors", naming="nine.safetensors: has 9 columns, the model takes 8")
    with Server(box, *words) as server:
        port = socket.create_server(("127.0.0.1", 0))
        number = port.getsockname()[1]
        box.works("fit", "data.safetensors", "-o", "second.safetensors")
        box.refuses(4, "serve", "second.safetensors", "--port", number, naming=f"cannot listen on 127.0.0.1 port {number}: ")
        port.close()
        equal(server.get("/healthz").status, 200, "the other one")


@test
def names_from_files_are_escaped(box):
    names = ["a\u202eb", 'q"\\', "tab\tname", "<script>alert(1)</script>"]
    with Server(box, *small_world(box, names=names), "-v") as server:
        equal([c["name"] for c in server.works("GET", "/v1/classes")["classes"]], names, "as they are")
        own = server.raw(b"GET /%1b[31m%0aInjected%e2%80%ae HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        while own.recv(4096):
            pass
    lines = [line for line in server.lines if "Injected" in line]
    check(len(lines) == 1 and "\x1b" not in lines[0] and "\\x1b" in lines[0] and "\\u{202e}" in lines[0], f"the log: {lines}")


@test
def answers_are_safe_for_browsers(box):
    with Server(box, "--demo") as server:
        for path in ("/", "/v1/info", "/nowhere", "/v1/images/3", "/metrics"):
            headers = server.get(path).headers
            equal(headers["x-content-type-options"], "nosniff", path)
            equal(headers["referrer-policy"], "no-referrer", path)
            check("default-src 'none'" in headers["content-security-policy"], path)
            check("unsafe" not in headers["content-security-policy"], path)
            check("access-control-allow-origin" not in headers, path)
        check(json.loads(server.get("/v1/info").body)["koofu"], "info")


def sized(width, height):
    """A PNG that claims this size, and holds one pixel."""
    small = png(bytes(3), 1, 1)
    head = b"IHDR" + struct.pack(">II", width, height) + small[24:29]
    return small[:12] + head + struct.pack(">I", zlib.crc32(head)) + small[33:]


@test
def pictures_with_too_many_pixels(box):
    _, words = pictured(box)
    with Server(box, *words) as server:
        for body, kind in ((sized(8001, 8000), "image/png"), ({"images": [uri(sized(13300, 13300))] * 6}, JSON)):
            answer = server.refuses(422, "POST", "/v1/classify", body, kind, naming="more than the limit of 64000000")
            check("the server's --max-pixels raises the limit" in answer.json["error"]["message"], f"{answer}")
        answer = server.refuses(422, "POST", "/v1/classify", sized(8000, 8000), "image/png")
        check("limit" not in answer.json["error"]["message"], f"{answer}")
        server.works("GET", "/v1/images/3?size=16")
    with Server(box, *words, "--max-pixels", "70000000") as server:
        answer = server.refuses(422, "POST", "/v1/classify", sized(8001, 8000), "image/png")
        check("limit" not in answer.json["error"]["message"], f"{answer}")
        server.refuses(422, "POST", "/v1/classify", sized(9000, 8000), "image/png", naming="more than the limit of 70000000")
