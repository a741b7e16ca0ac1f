"""Classes that come and go, kills, files that change, and the end."""

import errno
import json
import os
import random
import shutil
import signal
import socket
import threading
import time

from files import data_set, npy
from harness import BAD_DATA, Skipped, check, equal, test
from server import LONG, Server, pictured, sanitized, small_world

KILLS = 200 if LONG else 10


def names(server):
    return [c["name"] for c in server.works("GET", "/v1/classes")["classes"]]


def rows_of(seed, n=3):
    rng = random.Random(seed)
    return [[rng.gauss(0, 1) for _ in range(8)] for _ in range(n)]


def called(server):
    """What each class is called, by its label."""
    return {c["name"]: c.get("display_name") for c in server.works("GET", "/v1/classes")["classes"]}


@test
def names_for_people(box):
    words = small_world(box)
    with Server(box, *words) as server:
        equal(set(called(server).values()), {None}, "without --names")
    box.write("n.txt", "class 0\ttench\nclass 1\tcrane\nclass 2\tcrane\n")
    with Server(box, *words, "--names", "n.txt") as server:
        wanted = {"class 0": "tench", "class 1": "crane (class 1)", "class 2": "crane (class 2)", "class 3": "class 3"}
        equal(called(server), wanted, "names")
        result = server.works("POST", "/v1/classify", {"rows": rows_of(9)})["results"][0]
        equal({c["class"]: c["display_name"] for c in result["classes"]}, wanted, "answers have label and name")
        server.works("POST", "/v1/classes", {"name": "new", "rows": rows_of(1)}, status=201)
        equal(called(server), {**wanted, "new": "new"}, "an added class is called by its own name")
        box.write("n.txt", "class 3\tswan\n")
        server.process.send_signal(signal.SIGHUP)
        wait(lambda: called(server)["class 3"] == "swan")
    box.write("n.txt", "class 9\tswan\n")
    box.refuses(BAD_DATA, "serve", *words, "--names", "n.txt", "--check", "--port", 0, naming=["n.txt", "names none of the 4 classes"])


@test
def added_classes_last(box):
    words = small_world(box)
    with Server(box, *words) as server:
        for i in range(3):
            answer = server.works("POST", "/v1/classes", {"name": f"new {i}", "rows": rows_of(i)}, status=201)
            equal(answer["class"], {"name": f"new {i}", "added": True, "rows": 3, "text": False}, "the class")
        server.refuses(409, "POST", "/v1/classes", {"name": "new 1", "rows": rows_of(1)})
        server.refuses(409, "POST", "/v1/classes", {"name": "class 0", "rows": rows_of(1)})
        server.refuses(404, "DELETE", "/v1/classes/none")
        server.refuses(409, "DELETE", "/v1/classes/class%200")
        server.works("DELETE", "/v1/classes/new%201", status=204)
        server.refuses(404, "DELETE", "/v1/classes/new%201")
        for body in ({"name": "x"}, {"rows": rows_of(1)}, {"name": "", "rows": rows_of(1)}, {"name": "a\nb", "rows": rows_of(1)},
                     {"name": "x", "rows": [[0] * 8]}, {"name": "x", "text": True}, {"name": "x", "rows": rows_of(1), "text": True},
                     {"name": "x" * 1025, "rows": rows_of(1)}):
            server.refuses(422, "POST", "/v1/classes", body)
        before = server.works("POST", "/v1/classify", {"rows": rows_of(9)})["results"]
        check(any(c["added"] for r in before for c in r["classes"]), "an added class is an answer")
    with Server(box, *words) as server:
        equal(names(server), [f"class {k}" for k in range(4)] + ["new 0", "new 2"], "after a restart")
        equal(server.works("POST", "/v1/classify", {"rows": rows_of(9)})["results"], before, "the same answers")
        server.works("POST", "/v1/classes", {"name": "new 1", "rows": rows_of(1)}, status=201)
    box.works("add-class", "model.safetensors", "--from-journal", "model.safetensors.journal", "-o", "wide.safetensors")
    box.write("r.npy", npy(rows_of(0)))
    box.works("add-class", "model.safetensors", "new 0", "r.npy", "-o", "m0.safetensors")
    box.write("r.npy", npy(rows_of(2)))
    box.works("add-class", "m0.safetensors", "new 2", "r.npy", "-o", "m2.safetensors")
    box.write("r.npy", npy(rows_of(1)))
    box.works("add-class", "m2.safetensors", "new 1", "r.npy", "-o", "m1.safetensors")
    equal(box.read("wide.safetensors"), box.read("m1.safetensors"), "the same model as step by step")
    again = box.works("add-class", "wide.safetensors", "--from-journal", "model.safetensors.journal", "-o", "again.safetensors")
    check("already" in again.err, "classes that are there are left out")
    equal(box.read("again.safetensors"), box.read("wide.safetensors"), "nothing is added twice")


@test
def numbers_are_not_used_twice(box):
    """Not even that of the last class, removed by a server that has added nothing itself."""
    words = small_world(box)
    with Server(box, *words) as server:
        for i in range(2):
            server.works("POST", "/v1/classes", {"name": f"new {i}", "rows": rows_of(i)}, status=201)
    with Server(box, *words) as server:
        server.works("DELETE", "/v1/classes/new%201", status=204)
        server.works("POST", "/v1/classes", {"name": "new 2", "rows": rows_of(2)}, status=201)
    equal(sorted(os.listdir(box.path("model.safetensors.journal"))), ["000001.safetensors", "000003.safetensors"], "files")


@test
def classes_of_words_last(box):
    """A class by its name alone is one of text after a restart, too."""
    _, words = pictured(box)
    with Server(box, *words) as server:
        answer = server.works("POST", "/v1/classes", {"name": "bee", "text": True}, status=201)
        check(answer["class"]["text"], f"the class: {answer}")
        classes = server.works("GET", "/v1/classes")["classes"]
        before = server.works("POST", "/v1/classify", {"row_numbers": [0, 7, 13]})["results"]
    with Server(box, *words) as server:
        equal(server.works("GET", "/v1/classes")["classes"], classes, "classes after a restart")
        equal(server.works("POST", "/v1/classify", {"row_numbers": [0, 7, 13]})["results"], before, "the same answers")


@test
def what_a_killed_server_was_writing_goes(box):
    words = small_world(box)
    journal = box.path("model.safetensors.journal")
    box.write("model.safetensors.journal/.000001.safetensors.aB3.part", "half")
    box.write("model.safetensors.journal/.notes.part", "not ours")
    with Server(box, *words) as server:
        equal(names(server), [f"class {k}" for k in range(4)], "classes")
    equal(os.listdir(journal), [".notes.part"], "what is left")


@test
def a_kill_loses_nothing_that_was_confirmed(box):
    words, rng = small_world(box), random.Random(1)
    confirmed, number, gone = set(), 0, set()
    for _ in range(KILLS):
        with Server(box, *words) as server:
            have = set(names(server)) - {f"class {k}" for k in range(4)}
            check(confirmed <= have, f"lost: {confirmed - have}")
            check(not gone & have, f"came back: {gone & have}")
            unsure = have - confirmed
            check(len(unsure) <= 1, f"never confirmed: {unsure}")
            confirmed = set(have)
            timer = threading.Timer(rng.uniform(0, 0.08), server.kill)
            timer.start()
            try:
                while True:
                    name = f"new {number}"
                    number += 1
                    if server.post("/v1/classes", {"name": name, "rows": rows_of(number)}).status == 201:
                        confirmed.add(name)
                    if rng.random() < 0.3 and confirmed:
                        name = sorted(confirmed)[0]
                        confirmed.discard(name)  # from now on it may be there or not
                        unknown = name
                        if server.ask("DELETE", "/v1/classes/" + name.replace(" ", "%20")).status == 204:
                            gone.add(unknown)
            except OSError:
                pass
            except Exception as reason:  # http.client's, where an answer was cut short
                check("http.client" in type(reason).__module__, f"{reason!r}")
            timer.join()
    with Server(box, *words) as server:
        have = set(names(server))
        check(confirmed <= have, f"lost: {confirmed - have}")
    left = [name for name in os.listdir(box.path("model.safetensors.journal")) if not name[:6].isdigit()]
    equal(left, [], "half files")


@test
def a_class_that_cannot_be_read_meanwhile(box):
    """It does not vanish when another one is removed."""
    file = "model.safetensors.journal/000001.safetensors"
    with Server(box, *small_world(box)) as server:
        for i in range(2):
            server.works("POST", "/v1/classes", {"name": f"new {i}", "rows": rows_of(i)}, status=201)
        before = names(server)
        os.rename(box.path(file), box.path("kept"))
        os.symlink("nowhere", box.path(file))
        server.refuses(507, "DELETE", "/v1/classes/new%201", naming="000001")
        equal(names(server), before, "nothing changed")
        os.rename(box.path("kept"), box.path(file))
        server.works("DELETE", "/v1/classes/new%201", status=204)
        equal(names(server), before[:-1], "the other one is still there")


@test
def a_journal_that_cannot_be_written(box):
    words = small_world(box)
    box.write("model.safetensors.journal", "a file in the way")
    result = box.run("serve", *words, "--port", "0")
    equal(result.status, 4, f"a file in the way: {result}")
    os.remove(box.path("model.safetensors.journal"))
    box.become_nobody()
    if box.user is None:
        return
    os.chmod(box.folder, 0o555)
    try:
        with NobodysServer(box, *words) as server:
            answer = server.refuses(507, "POST", "/v1/classes", {"name": "new", "rows": rows_of(1)}, naming="nothing was changed")
            check("journal" in answer.json["error"]["message"], f"says where: {answer}")
            equal(names(server), [f"class {k}" for k in range(4)], "classes")
            os.chmod(box.folder, 0o755)
            server.works("POST", "/v1/classes", {"name": "new", "rows": rows_of(1)}, status=201)
    finally:
        os.chmod(box.folder, 0o755)


class NobodysServer(Server):
    def __init__(self, box, *words):
        self.user = box.user
        command = box.command
        box.command = lambda *w: ["setpriv", f"--reuid={self.user}", f"--regid={self.user}", "--clear-groups", *command(*w)]
        try:
            super().__init__(box, *words)
        finally:
            box.command = command


@test
def a_full_disk_loses_nothing(box):
    words = small_world(box)
    with Server(box, *words) as server:
        server.works("POST", "/v1/classes", {"name": "first", "rows": rows_of(1)}, status=201)
    limited = ["prlimit", "--fsize=64", box.program]
    command = box.command
    box.command = lambda *w: limited + command(*w)[1:]
    with Server(box, *words) as server:
        server.refuses(507, "POST", "/v1/classes", {"name": "second", "rows": rows_of(2)}, naming="nothing was changed")
        equal(names(server)[4:], ["first"], "classes")
    box.command = command
    with Server(box, *words) as server:
        equal(names(server)[4:], ["first"], "classes after a restart")


@test
def only_one_server_has_a_journal(box):
    words = small_world(box)
    with Server(box, *words) as server:
        server.works("POST", "/v1/classes", {"name": "new", "rows": rows_of(1)}, status=201)
        box.refuses(4, "serve", *words, "--port", "0", naming="another server")


@test
def damaged_files_of_a_journal_are_told(box):
    words = small_world(box)
    with Server(box, *words) as server:
        for i in range(2):
            server.works("POST", "/v1/classes", {"name": f"new {i}", "rows": rows_of(i)}, status=201)
    box.write("model.safetensors.journal/000001.safetensors", "damaged")
    box.write("model.safetensors.journal/notes.txt", "not ours")
    with Server(box, *words) as server:
        equal(names(server)[4:], ["new 1"], "what can be read")
        check(any("000001" in line for line in server.lines), f"says so: {server.lines}")
        server.works("POST", "/v1/classes", {"name": "new 2", "rows": rows_of(2)}, status=201)
    equal(box.read("model.safetensors.journal/000001.safetensors"), b"damaged", "left alone")


def wait(happens, seconds=60):
    end = time.monotonic() + seconds
    while not happens():
        check(time.monotonic() < end, f"nothing has happened for {seconds} seconds")
        time.sleep(0.02)


@test
def changed_files_are_loaded(box):
    words = small_world(box)
    box.works("fit", "data.safetensors", "--dim", "2", "-o", "second.safetensors")
    with Server(box, *words) as server:
        server.works("POST", "/v1/classes", {"name": "new", "rows": rows_of(1)}, status=201)
        equal(server.works("GET", "/v1/info")["model"]["dim"], 8, "dimensions")
        os.replace(box.path("second.safetensors"), box.path("model.safetensors"))
        wait(lambda: server.metric("koofu_reloads_total") == 1)
        equal(server.works("GET", "/v1/info")["model"]["dim"], 2, "of the new file")
        equal(names(server)[4:], ["new"], "added classes stay")
        server.process.send_signal(signal.SIGHUP)
        wait(lambda: server.metric("koofu_reloads_total") == 2)
        box.write("model.safetensors", "not a model")
        wait(lambda: server.metric("koofu_failed_reloads_total") >= 1)
        equal(server.works("GET", "/v1/info")["model"]["dim"], 2, "the old one stays")
        wait(lambda: any("still serving the previous version" in line and "model.safetensors" in line for line in server.lines))
        server.works("POST", "/v1/classify", {"rows": rows_of(2)})


@test
def changed_galleries_are_loaded(box):
    """What is appended and removed lies beside the file, in a folder (also beside a file that a link leads to)."""
    small_world(box)
    box.write("more.safetensors", data_set(n=7, dim=8, classes=4, names=[f"class {k}" for k in range(4)], seed=4))
    box.write("ids.txt", "".join(f"{i}\n" for i in range(80)))
    box.write("new.txt", "".join(f"new {i}\n" for i in range(7)))
    box.write("gone.txt", "3\nnew 3\n")
    box.write("far/x", "")
    box.works("index", "data.safetensors", "--model", "model.safetensors", "--ids", "ids.txt", "-o", "far/gallery.safetensors")
    os.remove(box.path("gallery.safetensors"))
    os.symlink("far/gallery.safetensors", box.path("gallery.safetensors"))
    with Server(box, "model.safetensors", "--gallery", "gallery.safetensors") as server:
        def found():
            answer = server.works("POST", "/v1/search", {"rows": rows_of(1, 1), "k": 1024})
            return len(answer["results"][0]["neighbours"])
        equal(found(), 80, "rows")
        box.works("index", "more.safetensors", "--ids", "new.txt", "--append", "gallery.safetensors")
        wait(lambda: found() == 87)
        check("gallery.safetensors.changes" in os.listdir(box.path("far")), "where the changes are")
        box.works("index", "--remove", "gone.txt", "gallery.safetensors")
        wait(lambda: found() == 85)
        reloads = server.metric("koofu_reloads_total")
        box.works("index", "--compact", "gallery.safetensors")
        wait(lambda: server.metric("koofu_reloads_total") > reloads)
        equal(found(), 85, "rows in one file")
        equal(server.metric("koofu_failed_reloads_total"), 0, "failures")


@test
def galleries_made_one_file_are_served_as_they_were(box):
    """Until they are loaded again, which here they never are. They have more changes than stay open."""
    small_world(box)
    box.works("index", "data.safetensors", "-o", "rows.safetensors")
    for i in range(40):
        box.write("more.safetensors", data_set(n=2, dim=8, classes=4, names=[f"class {k}" for k in range(4)], seed=10 + i))
        for name in ("gallery.safetensors", "rows.safetensors"):
            box.works("index", "more.safetensors", "--append", name)
    asked = [("/v1/search", {"row_numbers": list(range(160)), "k": 3, "space": space}) for space in ("raw", "koofu")]
    asked.append(("/v1/classify", {"row_numbers": list(range(160))}))
    with Server(box, "model.safetensors", "--gallery", "gallery.safetensors", "--rows", "rows.safetensors") as server:
        before = [server.works("POST", *question)["results"] for question in asked]
        model = box.read("model.safetensors")
        box.write("model.safetensors", "not a model")
        for name in ("gallery.safetensors", "rows.safetensors"):
            box.works("index", "--compact", name)
        failed = server.metric("koofu_failed_reloads_total")
        wait(lambda: server.metric("koofu_failed_reloads_total") > failed)
        equal([server.works("POST", *question)["results"] for question in asked], before, "answers")
        box.write("model.safetensors", model)
        wait(lambda: server.metric("koofu_reloads_total") >= 1)
        equal([server.works("POST", *question)["results"] for question in asked], before, "answers from the new files")
    equal([name for name in os.listdir(box.path(".")) if "changes" in name], [], "changes that are left")


@test
def requests_in_flight_are_answered(box):
    words = small_world(box)
    with Server(box, *words) as server:
        idle = server.connect()
        server.ask("GET", "/healthz", connection=idle)
        body = ('{"rows":[' + ",".join(str(row) for row in rows_of(1, 500)) + "]}").encode()
        own = server.raw(b"POST /v1/search HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                         + f"Content-Length: {len(body)}\r\n\r\n".encode() + body[:1000])
        wait(lambda: server.metric("koofu_connections") >= 3)
        server.process.send_signal(signal.SIGTERM)
        wait(lambda: not listens(server.port))
        own.sendall(body[1000:])
        answer = b""
        while True:
            more = own.recv(65536)
            if not more:
                break
            answer += more
        check(answer.startswith(b"HTTP/1.1 200 "), f"the answer: {answer[:200]}")
        check(answer.endswith(b"}\n"), "all of it")
        server.process.wait()


def listens(port):
    """Whether a new connection is kept."""
    try:
        with socket.create_connection(("127.0.0.1", port)) as own:
            own.settimeout(0.2)
            try:
                return own.recv(1) != b""
            except TimeoutError:
                return True
    except ConnectionError:
        return False


@test
def readers_never_wait_for_changes(box):
    words = small_world(box)
    with Server(box, *words) as server:
        stop, wrong = threading.Event(), []

        def read():
            own = server.connect()
            while not stop.is_set():
                answer = server.ask("POST", "/v1/classify", {"rows": rows_of(3), "top": 1000}, connection=own)
                if answer.status != 200:
                    wrong.append(str(answer))
        readers = [threading.Thread(target=read) for _ in range(4)]
        for reader in readers:
            reader.start()
        for i in range(20):
            server.works("POST", "/v1/classes", {"name": f"new {i}", "rows": rows_of(i)}, status=201)
            if i % 3 == 0:
                server.works("DELETE", f"/v1/classes/new%20{i}", status=204)
            if i % 5 == 0:
                shutil.copy(box.path("model.safetensors"), box.path("copy"))
                os.replace(box.path("copy"), box.path("model.safetensors"))
        stop.set()
        for reader in readers:
            reader.join()
        equal(wrong, [], "answers")


def add(server, name, status=201):
    return server.works("POST", "/v1/classes", {"name": name, "rows": rows_of(1)}, status=status)


@test
def only_one_server_takes_a_fresh_journal(box):
    """Not even servers that start together may both confirm classes, since one of these would be lost."""
    words = small_world(box)
    started = [box.start("serve", *words, "--port", "0") for _ in range(4)]
    lines = [process.stderr.readline().decode() for process in started]
    serving = [process for process, line in zip(started, lines) if "serving" in line]
    for process in serving:
        process.terminate()
    ends = sorted(process.wait() for process in started)
    for process in started:
        process.stdout.close()
        process.stderr.close()
    equal(ends, [0, 4, 4, 4], f"how they ended: {lines}")
    equal(sum("another server is using this journal" in line for line in lines), 3, f"{lines}")
    with Server(box, *words) as server:
        box.refuses(4, "serve", *words, "--port", "0", naming="another server is using this journal")
        add(server, "new")
    with Server(box, *words) as server:
        equal(names(server)[4:], ["new"], "classes after a restart")


@test
def a_journal_that_is_not_needed_is_not_left(box):
    words = small_world(box)
    files = sorted(os.listdir(box.folder))
    with Server(box, *words):
        check("model.safetensors.journal" in os.listdir(box.folder), "its folder")
    equal(sorted(os.listdir(box.folder)), files, "after a server to which nothing was added")
    os.symlink("nowhere/at/all", box.path("model.safetensors.journal"))
    with Server(box, *words) as server:
        server.refuses(507, "POST", "/v1/classes", {"name": "new", "rows": rows_of(1)}, naming="cannot be opened")
        check("no classes can be added" in server.lines[0], f"says so: {server.lines}")


@test
def a_journal_that_is_removed_or_replaced(box):
    """Nothing is confirmed that would not be there, or be there again, after a restart."""
    words = small_world(box)
    journal, away = box.path("model.safetensors.journal"), box.path("away")
    with Server(box, *words) as server:
        add(server, "first")
        os.rename(journal, away)
        for replaced in (False, True):
            if replaced:
                os.mkdir(journal)
            before = names(server)
            server.refuses(507, "POST", "/v1/classes", {"name": "second", "rows": rows_of(2)}, naming="was removed or replaced")
            server.refuses(507, "DELETE", "/v1/classes/first", naming="was removed or replaced")
            equal(names(server), before, "nothing changed")
            check(not replaced or os.listdir(journal) == [], "nothing is written")
        os.rmdir(journal)
        os.rename(away, journal)
        add(server, "second")  # it is back
        os.rename(journal, away)
        server.process.send_signal(signal.SIGHUP)
        wait(lambda: server.metric("koofu_reloads_total") == 1)
        equal(names(server)[4:], [], "of the new folder")
        add(server, "third")
        box.refuses(4, "serve", *words, "--port", "0", naming="another server is using this journal")
    with Server(box, *words) as server:
        equal(names(server)[4:], ["third"], "after a restart")


@test
def a_journal_that_is_there_later(box):
    """Classes left in it by another server are served before anything is added."""
    words = small_world(box)
    with Server(box, *words) as server:
        add(server, "first")
    with Server(box, *words, "--journal", "far/away") as server:
        check("far/away: cannot be created" in server.lines[0], f"says so: {server.lines}")
        server.refuses(507, "POST", "/v1/classes", {"name": "second", "rows": rows_of(2)}, naming="far/away")
        os.mkdir(box.path("far"))
        shutil.move(box.path("model.safetensors.journal"), box.path("far/away"))
        server.works("POST", "/v1/classes", {"name": "first", "rows": rows_of(2)}, status=422)
        equal(names(server)[4:], ["first"], "what was there")
        add(server, "second")
    with Server(box, *words, "--journal", "far/away") as server:
        equal(names(server)[4:], ["first", "second"], "after a restart")


def fault(box, kind, **more):
    """The environment in which a call of this kind fails (tests/torture/faults.c)."""
    shim = os.path.join(os.path.dirname(box.program), "tests", "torture_faults.so")
    if not os.path.exists(shim) or sanitized(box):  # whose allocator must come first
        raise Skipped("there is no torture_faults.so, or it cannot be used")
    return {"LD_PRELOAD": shim, "FAULT_KIND": kind, "FAULT_AT": "1", **{f"FAULT_{name}": str(value) for name, value in more.items()}}


def wait_until_stopped(process):
    def stopped():
        with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"
    wait(stopped)


@test
def a_journal_that_is_replaced_during_a_change(box):
    words, journal = small_world(box), box.path("model.safetensors.journal")
    env = fault(box, "opendir", AT=3, SIGNAL=int(signal.SIGSTOP))  # after two of the start, the one that finds the next number
    with Server(box, *words, env=env) as server:
        own = server.connect()
        own.request("POST", "/v1/classes", body=json.dumps({"name": "new", "rows": rows_of(1)}), headers={"Content-Type": "application/json"})
        wait_until_stopped(server.process)
        os.rename(journal, box.path("away"))
        os.mkdir(journal)
        server.process.send_signal(signal.SIGCONT)
        answer = own.getresponse()
        check(answer.status == 507 and b"was removed or replaced" in answer.read(), "the answer")
        equal((names(server)[4:], os.listdir(journal), os.listdir(box.path("away"))), ([], [], []), "classes and files")


@test
def a_journal_that_is_replaced_before_it_is_locked(box):
    """The lock is on the folder that has the name, not on the one that had it when it was opened."""
    words, journal = small_world(box), box.path("model.safetensors.journal")
    process = box.start("serve", *words, "--port", "0", env=fault(box, "flock", SIGNAL=int(signal.SIGSTOP)))

    wait_until_stopped(process)
    os.rename(journal, box.path("away"))
    process.send_signal(signal.SIGCONT)
    line = process.stderr.readline()
    check(b"serving" in line, f"it begins: {line}")
    box.refuses(4, "serve", *words, "--port", "0", "--check", naming="another server is using this journal")
    process.terminate()
    equal(process.wait(), 0, "its end")
    process.stdout.close()
    process.stderr.close()


@test
def a_dry_run_makes_no_journal(box):
    said = box.works("serve", *small_world(box), "--port", "0", "--check", env=fault(box, "mkdir", ERRNO=errno.EACCES)).err
    check("no classes can be added" not in said, f"it has tried: {said}")


@test
def changes_of_a_folder_that_cannot_be_synced_are_told(box):
    """They are there after a restart, so they are confirmed; that a power failure may undo them is in the log."""
    words = small_world(box)
    env = fault(box, "fsync", AT=3, FOR_GOOD=1, ERRNO=errno.EIO)
    with Server(box, *words) as server:
        add(server, "first")
    with Server(box, *words, env=env) as server:
        add(server, "second")  # two are synced: the file and its folder
        server.works("DELETE", "/v1/classes/first", status=204)
        equal(names(server)[4:], ["second"], "classes")
        server.refuses(507, "POST", "/v1/classes", {"name": "third", "rows": rows_of(2)}, naming="nothing was changed")
        wait(lambda: any("000001.safetensors: was removed, but its folder cannot be synced" in line for line in server.lines))
    with Server(box, *words, env={**env, "FAULT_AT": "2"}) as server:
        add(server, "fourth")
        wait(lambda: any("000003.safetensors: was written, but its folder cannot be synced" in line for line in server.lines))
    with Server(box, *words) as server:
        equal(names(server)[4:], ["second", "fourth"], "after a restart")
