"""Two writers at once, repeated appends, several outputs together, odd outputs."""

import fcntl
import json
import os
import random
import shutil
import signal
import subprocess
import time

from harness import IO, USAGE, Skipped, check, equal, test
from files import data_set, npy, read_safetensors


def numbered(box, n):
    """n files of one row each, which contains the file's number."""
    for i in range(n):
        box.write(f"{i}.npy", npy([[float(i), 1.0, 0.0]]))
    return [f"{i}.npy" for i in range(n)]


def numbers_in(box, name):
    """Those of the rows of a gallery, with its changes."""
    box.works("convert", name, "-o", "converted.safetensors")
    numbers = [int(row[0]) for row in read_safetensors(box.read("converted.safetensors"))[0]["embeddings"]]
    os.remove(box.path("converted.safetensors"))
    return numbers


def names_in(box, name):
    """The ids of a gallery, with its changes."""
    answers = json.loads(box.works("search", name, "--itself", "-k", 1, "--json").out)
    return [answer["id"] for answer in answers["answers"]]


@test
def appends_at_the_same_time(box):
    names = numbered(box, 41)
    box.works("index", names[0], "--metric", "euclidean", "-o", "g.safetensors")
    for round in range(10):
        processes = [box.start("index", name, "--append", "g.safetensors", "-q") for name in names[1 + 4 * round:5 + 4 * round]]
        for process in processes:
            err = process.communicate(timeout=60)[1]
            equal((process.returncode, err), (0, b""), "an append beside others")
    equal(sorted(numbers_in(box, "g.safetensors")), list(range(41)), "rows")
    equal(len([f for f in box.files() if ".changes/" in f]), 40, "changes")
    box.works("index", "g.safetensors", "--compact")
    equal(sorted(numbers_in(box, "g.safetensors")), list(range(41)), "rows of one file")
    equal({f for f in box.files() if not f.endswith(".npy")}, {"g.safetensors"}, "files")


@test
def searches_do_not_wait(box):
    box.write("x.safetensors", data_set())
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    with open(box.path("g.safetensors"), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # like a slow append
        box.works("search", "g.safetensors", "x.safetensors", "-k", 1)
        box.works("index", "x.safetensors", "--append", "g.safetensors", "-o", "other.safetensors")
        waiting = box.start("index", "x.safetensors", "--append", "g.safetensors")
        said = waiting.stderr.readline().decode()
        check("another process is changing it; waiting" in said and waiting.poll() is None, f"an append waits: {said}")
        waiting.terminate()
        err = waiting.communicate()[1].decode()
        check("interrupted" in err, err)
    box.works("index", "x.safetensors", "--append", "g.safetensors")


@test
def appends_that_are_killed(box):
    """Killed at any moment and repeated until it completes, each append adds its row once."""
    names = numbered(box, 25)
    box.works("index", names[0], "--metric", "euclidean", "-o", "g.safetensors")
    rng = random.Random(time.time_ns())
    kills = 0
    for name in names[1:]:
        for patience in range(1, 100):
            process = box.start("index", name, "--append", "g.safetensors", "-q")
            try:
                process.communicate(timeout=rng.uniform(0, 0.01) * patience if patience < 50 else None)
            except subprocess.TimeoutExpired:
                process.kill()
                process.communicate()
                kills += 1
                continue
            equal(process.returncode, 0, f"appending {name}")
            break
    equal(numbers_in(box, "g.safetensors"), list(range(25)), f"rows after {kills} kills")
    check(kills > 0, "some were killed")


@test
def changes_that_are_killed(box):
    """Rows are added, replaced, removed and made one file again, each killed at any moment: what was confirmed is there, and what was
    not is there whole or not at all. KOOFU_KILLS: how many kills."""
    wanted = int(os.environ.get("KOOFU_KILLS", "40"))
    seed = time.time_ns()
    rng = random.Random(seed)
    box.write("base.npy", npy([[float(i), 1.0, 0.0] for i in range(50)]))
    box.write("base.txt", "".join(f"b{i}\n" for i in range(50)))
    box.works("index", "base.npy", "--ids", "base.txt", "--metric", "euclidean", "-o", "g.safetensors")
    there = [f"b{i}" for i in range(50)]
    kills = step = 0
    while kills < wanted:
        step += 1
        what = rng.choice(("add", "add", "replace", "remove", "remove", "compact"))
        if what == "remove" and len(there) < 20:
            what = "add"
        after, command = list(there), ["index", "g.safetensors", "--compact"]
        if what == "remove":
            gone = rng.sample(there, rng.randrange(1, 5))
            after = [name for name in there if name not in gone]
            box.write("gone.txt", "".join(f"{name}\n" for name in gone))
            command = ["index", "g.safetensors", "--remove", "gone.txt"]
        elif what != "compact":
            names = [f"s{step}-{i}" for i in range(rng.randrange(1, 8))]
            if what == "replace":
                names += rng.sample(there, 2)
            after = [name for name in there if name not in names] + names
            box.write("new.npy", npy([[float(step), float(i), 1.0] for i in range(len(names))]))
            box.write("new.txt", "".join(f"{name}\n" for name in names))
            command = ["index", "new.npy", "--ids", "new.txt", "--append", "g.safetensors"] + ["--replace"] * (what == "replace")
        process = box.start(*command, "-q")
        try:
            process.communicate(timeout=rng.uniform(0, 0.03))
            equal(process.returncode, 0, f"{what}, seed {seed}")
            there = after
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            kills += 1
            now = names_in(box, "g.safetensors")
            check(now in (there, after), f"{what}, seed {seed}, step {step}: neither before nor after")
            there = now
        if step % 16 == 0:
            equal(names_in(box, "g.safetensors"), there, f"what was confirmed, seed {seed}, step {step}")
    equal(names_in(box, "g.safetensors"), there, f"after {kills} kills, seed {seed}")
    box.works("index", "g.safetensors", "--compact")
    equal(names_in(box, "g.safetensors"), there, "in one file")
    equal([f for f in box.files() if ".changes" in f], [], "changes that are left")


def stopped_at(box, kind, number, *words):
    """A process stopped just before its call `number` of a kind."""
    shim = os.path.join(os.path.dirname(box.program), "tests", "torture_calls.so")
    if not os.path.exists(shim):
        raise Skipped("the library that stops a program at a call is not built")
    options = os.environ.get("ASAN_OPTIONS", "") + ":verify_asan_link_order=0"
    stop = {"FAULT_KIND": kind, "FAULT_AT": str(number), "FAULT_SIGNAL": str(int(signal.SIGSTOP))}
    process = subprocess.Popen(box.command(*words), cwd=box.folder, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               env=box.environment(LD_PRELOAD=shim, ASAN_OPTIONS=options, **stop))
    equal(os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code, os.CLD_STOPPED, "it stops")
    return process


def stopped_after_its_rename(box, *words):
    """A process that has put a file in its place and has not done anything since: its folder is synced next."""
    return stopped_at(box, "fsync", 2, *words)


@test
def readers_while_changes_are_removed(box):
    """A gallery is compacted, or rewritten with the same bytes as before its changes: these vanish in one step."""
    names = numbered(box, 4)
    first = ["index", names[0], "--ids", box.write("0.txt", "0\n"), "--metric", "euclidean", "-o", "g.safetensors"]
    for again in (["index", "g.safetensors", "--compact"], first):
        box.works(*first)
        before = box.read("g.safetensors")
        for i in (1, 2, 3):
            box.works("index", names[i], "--ids", box.write(f"{i}.txt", f"{i}\n"), "--append", "g.safetensors")
        if again is not first:
            box.works("index", "g.safetensors", "--remove", box.write("gone.txt", "1\n2\n3\n"))
        process = stopped_at(box, "unlinkat", 2, *again, "-q")
        try:
            equal(box.read("g.safetensors"), before, "the file, made again")
            equal(numbers_in(box, "g.safetensors"), [0], "rows while changes are removed")
        finally:
            process.send_signal(signal.SIGCONT)
            process.wait()
        equal((process.stderr.read(), process.returncode), (b"", 0), "status")
        equal(numbers_in(box, "g.safetensors"), [0], "rows")


@test
def readers_that_meet_a_new_file(box):
    """It has its place, its changes are still those of the file before, which has the same bytes. Then they go, while a reader
    stands still before each of the files that it opens first."""
    names = numbered(box, 4)
    first = ["index", names[0], "--metric", "euclidean", "-o", "g.safetensors", "-q"]
    for at in range(1, 7):
        box.works(*first)
        for name in names[1:]:
            box.works("index", name, "--append", "g.safetensors")
        writer = stopped_after_its_rename(box, *first)
        reader = stopped_at(box, "open", at, "convert", "g.safetensors", "-o", "r.safetensors", "-q")
        for process in (writer, reader):
            process.send_signal(signal.SIGCONT)
            equal((process.communicate(timeout=60)[1], process.returncode), (b"", 0), f"stopped before it opens file {at}")
        check(numbers_in(box, "r.safetensors") in ([0], [0, 1, 2, 3]), "rows of one moment")


@test
def a_folder_that_was_replaced_meanwhile(box):
    """While a writer waited for another that has written the gallery anew, and made a change of it."""
    names = numbered(box, 2)
    first = ["index", names[0], "--metric", "euclidean", "-o", "g.safetensors"]
    box.works(*first)
    box.works("index", names[1], "--append", "g.safetensors")
    with open(box.path("g.safetensors"), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        writer = box.start(*first)
        said = writer.stderr.readline().decode()
        check("another process is changing it; waiting" in said, said)
        shutil.copytree(box.path("g.safetensors.changes"), box.path("new"))
        shutil.rmtree(box.path("g.safetensors.changes"))
        os.rename(box.path("new"), box.path("g.safetensors.changes"))
    err = writer.communicate(timeout=60)[1]
    equal(writer.returncode, 0, f"status: {err}")
    equal(numbers_in(box, "g.safetensors"), [0], "rows")
    equal([f for f in box.files() if ".changes" in f], [], "changes that are left")


@test
def a_file_with_the_bytes_of_an_earlier_one(box):
    """What a kill left of an earlier file does not become part of one that has its bytes, not even if that is killed as well."""
    names = numbered(box, 3)
    first = ["index", names[0], "--metric", "euclidean", "-o", "g.safetensors", "-q"]
    box.works(*first)
    box.works("index", names[1], "--append", "g.safetensors")
    process = stopped_after_its_rename(box, "index", names[2], "--metric", "euclidean", "-o", "g.safetensors", "-q")
    process.kill()
    process.communicate()
    equal(numbers_in(box, "g.safetensors"), [2], "rows of the newer file")
    process = stopped_after_its_rename(box, *first)
    process.kill()
    process.communicate()
    check(numbers_in(box, "g.safetensors") in ([0], [2]), "rows of one file")
    box.works(*first)
    equal(numbers_in(box, "g.safetensors"), [0], "rows")
    equal([f for f in box.files() if ".changes" in f], [], "changes that are left")


@test
def an_append_while_changes_are_removed(box):
    """A gallery is made one file, or written anew with the same bytes, which removes its changes; not those that are made of
    the new file meanwhile."""
    names = numbered(box, 3)
    for again, rows in ((["g.safetensors", "--compact"], [0, 1, 2]), ([names[0], "--metric", "euclidean", "-o", "g.safetensors"], [0, 2])):
        box.works("index", names[0], "--metric", "euclidean", "-o", "g.safetensors")
        box.works("index", names[1], "--append", "g.safetensors")
        box.write("g.safetensors.changes/note", "something else, so that the folder stays")
        process = stopped_after_its_rename(box, "index", *again, "-q")
        other = box.start("index", names[2], "--append", "g.safetensors", "-q")
        try:
            other.communicate(timeout=0.5)
        except subprocess.TimeoutExpired:
            pass  # it waits
        process.send_signal(signal.SIGCONT)
        for done in (process, other):
            err = done.communicate(timeout=60)[1]
            equal((done.returncode, err), (0, b""), "status")
        equal(numbers_in(box, "g.safetensors"), rows, "rows")


@test
def a_folder_that_a_kill_left(box):
    box.works("index", *numbered(box, 1), "--metric", "euclidean", "-o", "g.safetensors")
    os.mkdir(box.path("g.safetensors.changes"))
    box.works("index", "g.safetensors", "--compact")
    equal(box.files(), {"0.npy", "g.safetensors"}, "files")


@test
def the_same_rows_again(box):
    box.write("x.safetensors", data_set())
    box.write("y.safetensors", data_set(seed=2))
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    box.works("index", "y.safetensors", "--append", "g.safetensors")
    before = box.read("g.safetensors")
    result = box.works("index", "y.safetensors", "--append", "g.safetensors")
    check("g.safetensors: these 60 rows have been added to it already" in result.err and "--again" in result.err, f"{result}")
    check("wrote" not in result.err, f"{result}")
    equal(box.read("g.safetensors"), before, "the gallery")
    result = box.works("index", "y.safetensors", "--append", "g.safetensors", "--again")
    check("wrote g.safetensors: 60 rows added, 180 in all; " in result.err, f"{result}")
    result = box.works("index", "y.safetensors", "--append", "g.safetensors", "-o", "h.safetensors")
    check("wrote h.safetensors: 240 rows" in result.err, f"another file is always written: {result}")
    box.refuses(USAGE, "index", "x.safetensors", "-o", "i.safetensors", "--again", naming="--append")


def pairs(box):
    """Commands that write several files, and the files."""
    box.write("x.safetensors", data_set())
    box.write("names.txt", "ant\nbee\n")
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    yield (["search", "g.safetensors", "--itself", "-k", 2, "-o", "shared/n.npy"], ["n.npy", "n_scores.npy"])
    yield (["search", "g.safetensors", "--itself", "-k", 2, "-o", "shared/n.tsv", "--html", "shared/n.html"], ["n.tsv", "n.html"])
    yield (["synth", "--classes", 3, "--dim", 8, "-o", "shared/r.safetensors", "--text", "shared/t.safetensors"], ["r.safetensors", "t.safetensors"])
    yield (["prompts", "--classes", "names.txt", "--templates", "builtin1", "-o", "shared/p.txt", "--label-output", "shared/l.txt"], ["p.txt", "l.txt"])
    yield (["eval", "m.safetensors", "x.safetensors", "--per-class", "shared/c.tsv", "--confusions", "shared/f.tsv"], ["c.tsv", "f.tsv"])


@test
def both_or_neither(box):
    """One of two files cannot be replaced, which nobody knows before the rename: it is somebody else's, in a folder where
    everyone may make files, but not touch those of others."""
    if os.geteuid() != 0:
        raise Skipped("only root can make a file of another user")
    os.mkdir(box.path("shared"))
    commands = list(pairs(box))
    box.become_nobody()
    os.chown(box.path("shared"), 0, 0)
    os.chmod(box.path("shared"), 0o1777)
    for words, files in commands:
        for theirs in files:
            for name in files:
                box.write(f"shared/{name}", "old")
                os.chown(box.path(f"shared/{name}"), 0 if name == theirs else box.user, 0)
            box.refuses(IO, *words, naming=[f"{theirs}: cannot be replaced", "not permitted"])
            for name in files:
                equal(box.read(f"shared/{name}"), b"old", f"{name} after a failed {words[0]}")
        os.chown(box.path(f"shared/{theirs}"), box.user, 0)
        box.works(*words)
        for name in files:
            check(box.read(f"shared/{name}") != b"old", f"{name} after {words[0]}")
        equal({f for f in os.listdir(box.path("shared"))}, set(files), "files")
        for name in files:
            os.unlink(box.path(f"shared/{name}"))


def stopped_while_writing(box, words):
    """A process that has begun a file in the box, but has not ended, however fast the machine: it is stopped. Others, which
    were over before they were seen, have to succeed, and what they wrote is taken away."""
    before = box.files()
    kept = {name: box.read(name) for name in before}
    for _ in range(20):
        process = box.start(*words)
        if box.wait_for(process, lambda: box.open_files(process)):
            process.send_signal(signal.SIGSTOP)
            if os.waitid(os.P_PID, process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED:
                if box.open_files(process) and box.files() == before and all(box.read(name) == kept[name] for name in before):
                    return process
                process.send_signal(signal.SIGCONT)
        equal(process.wait(timeout=120), 0, "status of a run that was not caught")
        for name in box.files() - before:
            os.unlink(box.path(name))
        for name, data in kept.items():
            box.write(name, data)
    raise AssertionError(f"{words[0]} was over too soon, twenty times")


@test
def a_name_that_is_taken_meanwhile(box):
    """While the first file is being made, a folder appears under the name of the second."""
    words = ["synth", "--classes", 1000, "--dim", 512, "--per-class", 60, "-o", "r.safetensors", "--text", "t.safetensors"]
    box.write("r.safetensors", "old")
    process = stopped_while_writing(box, words)
    os.mkdir(box.path("t.safetensors"))
    process.send_signal(signal.SIGCONT)
    err = process.communicate(timeout=120)[1].decode()
    equal(process.returncode, IO, err)
    check("t.safetensors" in err, err)
    equal(box.read("r.safetensors"), b"old", "the rows, if the text cannot be written")
    equal(box.files(), {"r.safetensors", "t.safetensors"}, "files")


@test
def dangling_links(box):
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    os.mkdir(box.path("disk"))
    for words, name in ((["stats", "x.safetensors", "-o"], "s.safetensors"), (["classify", "m.safetensors", "x.safetensors", "-o"], "a.tsv")):
        os.symlink(f"disk/{name}", box.path(name))
        box.works(*words, name)
        check(os.path.islink(box.path(name)), f"{name} is still a link")
        check(os.path.getsize(box.path(f"disk/{name}")) > 0, f"{name} leads to the file")
        os.symlink("absent/x", box.path(f"lost-{name}"))
        box.refuses(IO, *words, f"lost-{name}", naming=[f"lost-{name}", "No such file"])


@test
def bits_that_are_not_handed_on(box):
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    for words, name in ((["stats", "x.safetensors", "-o"], "s.safetensors"), (["classify", "m.safetensors", "x.safetensors", "-o"], "a.tsv")):
        box.write(name, "old")
        os.chmod(box.path(name), 0o7754)
        box.works(*words, name)
        equal(os.stat(box.path(name)).st_mode & 0o7777, 0o754, f"mode of {name}")
