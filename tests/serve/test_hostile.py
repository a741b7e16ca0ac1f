"""Slow, broken and oversized clients: they get nothing, and others are served."""

import json
import os
import re
import select
import signal
import socket
import struct
import time

from files import data_set, png
from harness import SLOWNESS, check, equal, test
from server import JSON, LONG, Server, sanitized, small_world

MANY = 300 if LONG else 60


def memory_of(server):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s*(\d+) kB", file.read()).group(1)) << 10


def closed(own, seconds=20 * SLOWNESS):
    """Whether the server ends the connection."""
    own.settimeout(seconds)
    try:
        while own.recv(65536):
            pass
    except TimeoutError:
        return False
    except OSError:
        pass  # reset
    return True


def begin_of_answer(own):
    """The beginning of an answer, an error whole; nothing if the connection was cut off."""
    data = b""
    try:
        while not data or (b" 503 " in data[:20] and not data.endswith(b"}}")):
            more = own.recv(65536)
            if not more:
                break
            data += more
    except OSError:
        pass
    return data


@test
def slow_clients_are_cut_off(box):
    with Server(box, *small_world(box), "--timeout", "1", "--connections", str(MANY + 40)) as server:
        heads = [server.raw(b"GET /v1/info HTTP/1.1\r\nHost: loc") for _ in range(MANY // 2)]
        bodies = [server.raw(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{")
                  for _ in range(MANY // 2)]
        alive = heads + bodies
        while alive:  # one byte now and then, which would keep a plain timeout from ever passing
            equal(server.get("/healthz").status, 200, "others are served")
            time.sleep(0.05)
            still = []
            for own in alive:
                try:
                    own.setblocking(False)
                    try:
                        if not own.recv(4096):
                            continue
                    except BlockingIOError:
                        pass
                    own.send(b"x")
                    still.append(own)
                except OSError:
                    continue
            alive = still
        check(server.metric("koofu_connections_cut_total") >= MANY, "they were cut off")


@test
def idle_time_is_not_that_of_the_next_request(box):
    with Server(box, *small_world(box), "--timeout", "4") as server:
        own = server.raw(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
        check(own.recv(4096).endswith(b"ok\n"), "a first request")
        time.sleep(3)
        own.sendall(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{")
        time.sleep(2.5)  # more than 4 in all
        own.sendall(b'"row_numbers":[1]}')
        check(b" 200 " in begin_of_answer(own)[:20], "the second one is answered")


@test
def connections_that_run_out_make_room(box):
    with Server(box, *small_world(box), "--timeout", "600", "--connections", "16") as server:
        idle = [server.raw(b"GET / HT") for _ in range(40)]
        equal(server.get("/healthz").status, 200, "others are served in the end")
        del idle


@test
def broken_clients(box):
    with Server(box, *small_world(box), "--timeout", "2") as server:
        for data in (b"", b"\r\n" * 100, b"\x00" * 100, b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
                     b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil\r\n\r\n", b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n",
                     b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
                     b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"):
            own = server.raw(data)
            own.shutdown(socket.SHUT_WR)  # half closed
            check(closed(own), f"{data!r}")
        for _ in range(20):  # gone before the answer
            own = server.raw(b'POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 19\r\n\r\n{"row_numbers":[1]}')
            own.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
            own.close()
        equal(server.get("/healthz").status, 200, "others are served")


@test
def headers_without_end(box):
    with Server(box, *small_world(box), "--timeout", "600") as server:
        for begin, piece in ((b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"X-Y: " + b"a" * 1000 + b"\r\n"), (b"GET /", b"a" * 1000),
                             (b"GET / HTTP/1.1\r\nX: ", b"a" * 1000)):
            own = server.raw(begin)
            own.settimeout(20 * SLOWNESS)
            try:
                for _ in range(10000):
                    own.sendall(piece)
            except TimeoutError:
                check(False, f"{begin!r}: neither read nor ended")
            except OSError:
                pass  # ended before all was sent
            check(closed(own), f"{begin!r}: the connection is ended")
        equal(server.get("/healthz").status, 200, "others are served")


@test
def huge_bodies_take_no_memory(box):
    with Server(box, *small_world(box), "--memory", "64", "--max-body", "32") as server:
        server.works("POST", "/v1/classify", {"row_numbers": [1]})
        before = memory_of(server)
        own = server.raw(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n")
        check(b" 413 " in own.recv(4096), "1 GB is refused by its header")
        others = []
        for _ in range(20):  # 20 times 30 MiB, half sent
            own = server.raw(b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 31457280\r\n\r\n")
            own.sendall(b" " * (15 << 20))
            others.append(own)
        if not sanitized(box):  # whose allocator keeps what was freed
            check(memory_of(server) - before < 100 << 20, f"memory: {before} {memory_of(server)}")
        equal(server.get("/healthz").status, 200, "others are served")
        for own in others:
            own.close()
        while server.metric("koofu_request_bytes_left") < (63 << 20):
            time.sleep(0.01)


@test
def binary_answers_that_do_not_fit_are_told(box):
    """The arrays take 13 of 16 MiB, and do not fit in the answer, whose JSON is written already."""
    box.write("many.safetensors", data_set(n=600, dim=8, classes=200))
    box.works("fit", "many.safetensors", "-o", "many-model.safetensors")
    with Server(box, "many-model.safetensors", "--memory", "16") as server:
        def infer(n):
            head = json.dumps({"inputs": [{"name": "rows", "datatype": "FP32", "shape": [n, 8], "parameters": {"binary_data_size": 32 * n}}],
                               "outputs": [{"name": "scores", "parameters": {"binary_data": True}}]}).encode()
            return server.post("/v2/models/many-model/infer", head + struct.pack("<8f", *range(8)) * n, "application/octet-stream",
                               Inference_Header_Content_Length=str(len(head)))
        check("inference-header-content-length" in infer(1).headers, "the length of the JSON")
        answer = infer(4096)
        equal((answer.status, answer.json["error"]["code"]), (429, 429), f"{answer}")
        check("inference-header-content-length" not in answer.headers, f"{answer.headers}")


@test
def a_full_queue_is_told(box):
    with Server(box, *small_world(box), "--queue", "1") as server:
        body = ('{"rows":[' + ",".join(["[1,2,3,4,5,6,7,8]"] * 1000) + '],"k":80}').encode()
        request = f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        seen = set()
        while seen != {200, 429}:
            owns = [server.raw(request) for _ in range(40)]
            for own in owns:
                data = own.recv(65536)
                status = int(data.split()[1])
                seen.add(status)
                check(status in (200, 429), f"{data[:200]}")
                check(status == 200 or b"Retry-After: 1" in data, f"{data[:300]}")
                own.close()


@test
def late_requests_are_told(box):
    """What has waited for longer than --timeout is answered with 503, not worked on. The server is stopped while requests
    wait, so how fast it is does not matter."""
    with Server(box, *small_world(box), "--timeout", "1") as server:
        body = ('{"rows":[' + ",".join(["[1,2,3,4,5,6,7,8]"] * 1000) + '],"k":80}').encode()
        request = f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body
        late = []
        for _ in range(10):  # they may all be done before it stops
            owns = [server.raw(request) for _ in range(30)]
            for _ in range(100):
                if server.metric("koofu_queue_length") >= 5:
                    break
            server.process.send_signal(signal.SIGSTOP)
            time.sleep(1.2)
            server.process.send_signal(signal.SIGCONT)
            for own in owns:
                data = begin_of_answer(own)
                check(data == b"" or data.split()[1] in (b"200", b"503"), f"{data[:200]}")  # nothing: it had not arrived yet
                late += [data] if b" 503 " in data[:20] else []
                own.close()
            if late:
                break
        check(late, "requests that waited for too long")
        for data in late:
            check(b"the server is too busy; try again later" in data, f"{data[:400]}")
        server.works("POST", "/v1/search", {"row_numbers": [1], "k": 2})


@test
def paths_never_leave_the_folder(box):
    ids = ["in/a.png", "../secret.png", "/etc/passwd", "in/../../secret.png", "link.png", "inside.png", "in", "notes.txt", "fifo", "deep/link/x.png"]
    picture = png(bytes(12), 2, 2)
    box.write("pictures/in/a.png", picture)
    box.write("secret.png", picture)
    box.write("pictures/notes.txt", "root:x:0")
    os.symlink("../secret.png", box.path("pictures/link.png"))
    os.symlink("in/a.png", box.path("pictures/inside.png"))
    os.makedirs(box.path("pictures/deep"))
    os.symlink("/etc", box.path("pictures/deep/link"))
    os.mkfifo(box.path("pictures/fifo"))
    small_world(box)
    box.write("ids.txt", "".join(line + "\n" for line in (ids * 8)))
    box.works("index", "data.safetensors", "--model", "model.safetensors", "--ids", "ids.txt", "-o", "named.safetensors")
    with Server(box, "model.safetensors", "--gallery", "named.safetensors", "--images", "pictures") as server:
        for row, name in enumerate(ids):
            answer = server.get(f"/v1/images/{row}")
            equal(answer.status, 200 if name in ("in/a.png", "inside.png") else 404, name)


BODY = b'{"row_numbers":[1]}'
POST = b"POST /v1/classify HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"\r\n%x\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY)
NEXT = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def all_answers(server, data):
    """The status of each answer on one connection, and whether NEXT was among what was answered. It must end."""
    own, found = server.raw(data), b""
    own.settimeout(20 * SLOWNESS)
    try:
        while more := own.recv(65536):
            found += more
    except TimeoutError:
        check(False, f"{data!r}: the connection stays open after {found[:400]!r}")
    except ConnectionError:
        pass
    return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d+) ", found)], found.endswith(b"ok\n")


def refused(server, data, what):
    """libmicrohttpd ends some connections without an answer, or answers twice before it does."""
    statuses, answered = all_answers(server, data)
    check(set(statuses) <= {400} and not answered, f"{what}: {statuses}, the next one answered: {answered}")


@test
def requests_that_can_be_read_in_two_ways_are_refused(box):
    """And the rest of the connection is not: behind a proxy that reads them the other way, it may hold a request that
    nobody has let in."""
    get = b"GET /healthz%s HTTP/1.1\r\nHost: localhost\r\n\r\n"
    cases = {"a length beside an encoding": POST + LENGTH + CHUNKED + CHUNKS,
             "an encoding beside a length": POST + CHUNKED + LENGTH + CHUNKS,
             "two lengths": POST + LENGTH + b"Content-Length: 0\r\n\r\n" + BODY,
             "the same length twice": POST + LENGTH + LENGTH + b"\r\n" + BODY,
             "two encodings": POST + CHUNKED + b"Transfer-Encoding: identity\r\n" + CHUNKS,
             "the same encoding twice": POST + CHUNKED + CHUNKED + CHUNKS,
             "a list of encodings": POST + b"Transfer-Encoding: gzip, chunked\r\n" + CHUNKS,
             "another encoding": POST + b"Transfer-Encoding: gzip\r\n\r\n" + BODY,
             "chunks in HTTP/1.0": POST.replace(b"1.1", b"1.0") + b"Connection: keep-alive\r\n" + CHUNKED + CHUNKS,
             "a folded length": POST + b"Content-Length:\r\n %d\r\n\r\n" % len(BODY) + BODY,
             "a longer length": POST + b"Content-Length: 1\r\n 9\r\n\r\n" + BODY,
             "a folded encoding": POST + b"Content-Length: 0\r\nTransfer-Encoding:\r\n\tchunked\r\n\r\n",
             "a folded header": POST + b"X: a\r\n b\r\n" + LENGTH + b"\r\n" + BODY,
             "a folded last header": POST + LENGTH + b"X: a\r\n b\r\n\r\n" + BODY,
             "headers folded by a bare LF": POST + b"X: a\n b\n" + LENGTH + b"\r\n" + BODY,
             "a folded request line": b"GET /healthz HTTP/1.1\r\n X: a\r\nHost: localhost\r\n\r\n",
             "a bare CR": POST + b"X: a\r" + LENGTH + b"\r\n" + BODY,
             "a bare CR in the address": get % b"\rX",
             "a bare CR in a name": POST + b"X\rY: a\r\n" + LENGTH + b"\r\n" + BODY,
             "a bare LF": POST + b"X: a\n" + LENGTH + b"\r\n" + BODY,
             "a bare LF at the end": POST + LENGTH + b"\n" + BODY,
             "a space before the colon": POST + b"Content-Length : %d\r\n\r\n" % len(BODY) + BODY,
             "two hosts": b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: localhost\r\n\r\n",
             "a NUL in a header": POST + b"X: a\0b\r\n" + LENGTH + b"\r\n" + BODY,
             "a NUL in a length": POST + b"Content-Length: %d\x000\r\n\r\n" % len(BODY) + BODY,
             "a NUL in an encoding": POST + b"Transfer-Encoding: chunked\0, gzip\r\n" + CHUNKS,
             "a NUL in the address": get % b"\0x",
             "two spaces": b"GET  /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"}
    with Server(box, *small_world(box)) as server:
        for name, data in cases.items():
            refused(server, data + NEXT, name)
        for data in (b"Content-Length: 19, 19\r\n", b"Content-Length: +19\r\n", b"Content-Length: 0x13\r\n", b"Content-Length: 19\r\r\n"):
            refused(server, POST + data + b"\r\n" + BODY + NEXT, data)
        server.refuses(400, "GET", "/healthz%00", naming="the request is ambiguous: its address contains a NUL")
        for data in (POST + LENGTH + b"\r\n" + BODY, b"GET /healthz?a=b%20c&d HTTP/1.1\r\nHost:localhost\r\nX:\r\nY: \r\nZ:  a \t \xc3\xa9 \r\n\r\n",
                     b"\r\nGET /healthz HTTP/1.1\r\nHost: localhost\r\nCookie: a=b; c=d\r\n\r\n", POST + b"X: " + b"x" * 20000 + b"\r\n" + LENGTH + b"\r\n" + BODY):
            close = NEXT.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
            equal(all_answers(server, data + close), ([200, 200], True), f"{data[:200]!r} and another one")


@test
def a_request_in_chunks_is_the_last_of_its_connection(box):
    """libmicrohttpd reads chunks less strictly than others: a bare LF ends a line."""
    bare = b"\r\n%x\n%s\n0\n\n" % (len(BODY), BODY)
    with Server(box, *small_world(box)) as server:
        for chunks in (CHUNKS, bare, CHUNKS.replace(b"\r\n0\r\n", b"\r\n0\r\nX: a\r\n b\r\n")):
            statuses, answered = all_answers(server, POST + CHUNKED + chunks + NEXT)
            check(statuses in ([200], [400]) and not answered, f"{chunks!r}: {statuses}, the next one answered: {answered}")


@test
def a_nul_does_not_end_a_path_or_a_token(box):
    words, token = small_world(box), b"a-token-of-some-length"
    box.write("token", token + b"\n")
    with Server(box, *words, "--token-file", "token") as server:
        bearer = b"Host: localhost\r\nConnection: close\r\nAuthorization: Bearer " + token
        for line, header, status in ((b"GET /v1/info", b"", 200), (b"GET /v1/info%00x", b"", 400), (b"GET /v1/info?a=b%00x", b"", 400),
                                     (b"DELETE /v1/classes/class%000", b"", 400), (b"GET /v1/info\0x", b"", 400),
                                     (b"GET /v1/info", b"\0x", 400), (b"GET /v1/info", b"\0", 400)):
            statuses, _ = all_answers(server, line + b" HTTP/1.1\r\n" + bearer + header + b"\r\n\r\n")
            check(statuses == [status] or (status == 400 and not statuses), f"{line} {header}: {statuses}")


def reader(server, n=1000):
    """A client with a small buffer that has requested some megabytes and reads one byte."""
    body = ('{"rows":[' + ",".join(["[1,2,3,4,5,6,7,8]"] * n) + '],"k":80}').encode()
    own = socket.socket()
    own.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    own.connect(("127.0.0.1", server.port))
    own.sendall(f"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: {JSON}\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    return own


def trickle(readers, until):
    """Reads one byte of each now and then, until something happens."""
    begun = time.monotonic()
    while not until():
        check(time.monotonic() - begun < 30 * SLOWNESS, "slow readers keep others from being served")
        for own in readers:
            try:
                own.recv(1, socket.MSG_DONTWAIT)
            except OSError:
                pass
        time.sleep(0.1)
    for own in readers:
        own.close()


@test
def slow_readers_make_room(box):
    """While connections are scarce, answers must be read as fast as requests must be sent."""
    with Server(box, *small_world(box), "--connections", "64", "--memory", "2048") as server:
        readers = [reader(server) for _ in range(64)]
        for own in readers:
            own.recv(1)  # of an answer; the first ones may be cut off already
        other = server.raw(NEXT)
        trickle(readers[::2], lambda: select.select([other], [], [], 0)[0])
        check(b" 200 " in begin_of_answer(other)[:20], "others are served")
        for own in readers:
            own.close()


@test
def slow_readers_hold_no_memory_that_others_need(box):
    with Server(box, *small_world(box), "--memory", "40") as server:
        readers = [reader(server) for _ in range(4)]
        for own in readers:
            own.recv(1)
        search = {"rows": [list(range(1, 9))] * 1000, "k": 80}
        trickle(readers, lambda: server.post("/v1/search", search).status == 200)


@test
def slow_readers_have_time_otherwise(box):
    with Server(box, *small_world(box), "--timeout", "10") as server:
        own = reader(server)
        time.sleep(5)
        own.settimeout(20 * SLOWNESS)
        data = own.recv(65536)
        length = int(re.search(rb"Content-Length: (\d+)\r\n", data).group(1))
        while not data.endswith(b"}\n"):
            more = own.recv(1 << 20)
            check(more, f"cut off after {len(data)} of {length} bytes")
            data += more
        equal(len(data.split(b"\r\n\r\n", 1)[1]), length, "the whole answer")
