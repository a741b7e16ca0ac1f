"""Outputs appear whole or not at all."""

import os
import resource
import signal
import subprocess

from harness import IO, USAGE, Skipped, check, equal, seconds_of, test
from files import data_set, npy, world


def prepare(box):
    box.write("x.safetensors", data_set())
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("fit", "s.safetensors", "-o", "m.safetensors")
    box.works("index", "x.safetensors", "-o", "g.safetensors")


def text_name(output):
    """classify writes text, and the output's name must not say otherwise."""
    return output.replace(".safetensors", ".tsv")


def writers(output):
    """Every command that writes a file, whose name is the last word."""
    yield ["convert", "x.safetensors", "-o", output]
    yield ["stats", "x.safetensors", "-o", output]
    yield ["merge", "s.safetensors", "-o", output]
    yield ["fit", "s.safetensors", "-o", output]
    yield ["transform", "m.safetensors", "x.safetensors", "-o", output]
    yield ["classify", "m.safetensors", "x.safetensors", "-o", text_name(output)]
    yield ["add-class", "m.safetensors", "new", "x.safetensors", "-o", output]
    yield ["index", "x.safetensors", "-o", output]
    yield ["index", "x.safetensors", "--append", "g.safetensors", "-o", output]
    yield ["search", "g.safetensors", "x.safetensors", "-o", output]
    yield ["synth", "--classes", 3, "--dim", 8, "-o", output]


@test
def onto_an_input(box):
    prepare(box)
    os.link(box.path("x.safetensors"), box.path("hard.safetensors"))
    os.symlink("m.safetensors", box.path("soft.safetensors"))
    box.write("y.txt", "".join(f"{k}\n" for k in world()[1]))
    box.write("x.npy", npy(world()[0]))
    box.write("names.txt", "0\n1\n2\n")
    box.write("shards/a.safetensors", data_set())
    for words in (["convert", "x.safetensors", "-o", "x.safetensors"], ["convert", "x.safetensors", "-o", "./x.safetensors"],
                  ["convert", "x.safetensors", "-o", "hard.safetensors"], ["stats", "x.safetensors", "-o", "hard.safetensors"],
                  ["merge", "s.safetensors", "-o", "s.safetensors"], ["fit", "s.safetensors", "-o", "s.safetensors"],
                  ["fit", "x.safetensors", "--between", "s.safetensors", "-o", "s.safetensors"],
                  ["transform", "m.safetensors", "x.safetensors", "-o", "x.safetensors"],
                  ["transform", "m.safetensors", "x.safetensors", "-o", "m.safetensors"],
                  ["classify", "m.safetensors", "x.safetensors", "-o", "soft.safetensors"],
                  ["add-class", "m.safetensors", "new", "x.safetensors", "-o", "m.safetensors"],
                  ["add-class", "m.safetensors", "new", "x.safetensors", "-o", "soft.safetensors"],
                  ["stats", "x.npy", "--labels", "y.txt", "-o", "y.txt"],
                  ["stats", "x.npy", "--labels", "y.txt", "--classes", "names.txt", "-o", "names.txt"],
                  ["classify", "m.safetensors", "x.npy", "--labels", "y*.txt", "-o", "y.txt"]):
        box.refuses(USAGE, *words, naming=[str(words[-1]), "input"])
    os.symlink("../x.safetensors", box.path("shards/b.safetensors"))
    for data in ("shards", "shards/", "./shards", "shards/*.safetensors", "sh*/[ab].safetensors"):
        for output in ("shards/a.safetensors", box.path("shards/a.safetensors"), "x.safetensors"):
            for words in (["convert", data], ["stats", data], ["fit", data], ["transform", "m.safetensors", data],
                          ["add-class", "m.safetensors", "zz", data]):
                box.refuses(USAGE, *words, "-o", output, naming=f"{output} is both an input and the output")
    box.works("stats", "shards", "-o", "shards/c.safetensors")


@test
def two_outputs_that_are_one(box):
    os.mkdir(box.path("folder"))
    os.symlink("folder", box.path("other"))
    os.symlink("folder/new.safetensors", box.path("dangling.safetensors"))
    for one, two in (("a.safetensors", "a.safetensors"), ("a.safetensors", "./a.safetensors"),
                     ("a.safetensors", "folder/../a.safetensors"), ("a.safetensors", box.path("a.safetensors")),
                     ("folder/a.safetensors", "other/a.safetensors"), ("dangling.safetensors", "other/new.safetensors"),
                     ("folder/new.safetensors", "dangling.safetensors")):
        box.refuses(USAGE, "synth", "--classes", 3, "--dim", 8, "-o", one, "--text", two, naming=f"{two}: is written twice")
    box.write("a.safetensors", "old")
    os.link(box.path("a.safetensors"), box.path("b.safetensors"))
    os.symlink("a.safetensors", box.path("c.safetensors"))
    for two in ("a.safetensors", "c.safetensors"):
        box.refuses(USAGE, "synth", "--classes", 3, "--dim", 8, "-o", "a.safetensors", "--text", two, naming="is written twice")
    box.works("synth", "--classes", 3, "--dim", 8, "-o", "a.safetensors", "--text", "b.safetensors")  # each is replaced
    check(box.read("a.safetensors") != box.read("b.safetensors"), "rows and text")


@test
def replaces_an_older_output(box):
    prepare(box)
    before = box.read("m.safetensors")
    box.works("fit", "s.safetensors", "--dim", 2, "-o", "m.safetensors")
    check(box.read("m.safetensors") != before, "the file is new")


@test
def an_older_output_keeps_its_place_and_mode(box):
    prepare(box)
    os.mkdir(box.path("real"))
    for words in writers("link.safetensors"):
        box.write("real/o.safetensors", "old")
        os.chmod(box.path("real/o.safetensors"), 0o640)
        if not os.path.islink(box.path(words[-1])):
            os.symlink("real/o.safetensors", box.path(words[-1]))
        box.works(*words)
        check(os.path.islink(box.path(words[-1])), f"{words[0]}: the link is gone")
        check(box.read("real/o.safetensors") != b"old", f"{words[0]}: the target is as it was")
        equal(os.stat(box.path("real/o.safetensors")).st_mode & 0o7777, 0o640, f"{words[0]}: mode")
        equal(os.listdir(box.path("real")), ["o.safetensors"], f"{words[0]}: files")


@test
def a_new_output_has_the_usual_mode(box):
    prepare(box)
    mask = os.umask(0)
    os.umask(mask)
    for words in writers("o.safetensors"):
        box.works(*words)
        equal(os.stat(box.path(words[-1])).st_mode & 0o7777, 0o666 & ~mask, f"{words[0]}: mode")
        os.unlink(box.path(words[-1]))


@test
def a_link_into_a_closed_folder(box):
    prepare(box)
    box.write("closed/o.safetensors", "old")
    for link in ("link.safetensors", text_name("link.safetensors")):
        os.symlink("closed/o.safetensors", box.path(link))
    os.chmod(box.path("closed"), 0o500)
    box.become_nobody()
    try:
        for words in writers("link.safetensors"):
            box.refuses(IO, *words, naming=f"{words[-1]}: cannot be created")
    finally:
        os.chmod(box.path("closed"), 0o700)


@test
def places_that_cannot_be(box):
    prepare(box)
    for ending in (".safetensors", text_name(".safetensors")):
        os.mkdir(box.path("folder" + ending))
        os.mkfifo(box.path("pipe" + ending))
    for output in ("folder.safetensors", "pipe.safetensors", "absent/o.safetensors", "x.safetensors/o.safetensors",
                   "/proc/o.safetensors", "/dev/null", "/dev/stdout"):
        for words in writers(output):
            box.refuses(IO, *words, naming=words[-1])
    for words in writers("-"):
        if words[0] not in ("classify", "search"):
            box.refuses(USAGE, *words, naming="file name")


@test
def folder_without_permission(box):
    prepare(box)
    os.mkdir(box.path("closed"))
    os.chmod(box.path("closed"), 0o500)
    box.become_nobody()
    try:
        for words in writers("closed/o.safetensors"):
            box.refuses(IO, *words, naming=words[-1])
    finally:
        os.chmod(box.path("closed"), 0o700)


@test
def unreadable_input(box):
    prepare(box)
    os.chmod(box.path("x.safetensors"), 0)
    box.become_nobody()
    box.refuses(IO, "stats", "x.safetensors", "-o", "o.safetensors", naming="x.safetensors")


@test
def disk_full_on_stdout(box):
    prepare(box)
    for words in (["classify", "m.safetensors", "x.safetensors"], ["eval", "m.safetensors", "x.safetensors"],
                  ["search", "g.safetensors", "x.safetensors"], ["search", "g.safetensors", "--itself", "--json"],
                  ["info", "x.safetensors"], ["help"], ["version"], ["fit", "--help"]):
        with open("/dev/full", "wb") as full:
            result = box.run(*words, stdout=full)
        equal(result.status, IO, f"{result}")
        check("standard output" in result.err and result.err.count("\n") == 1, f"{result}")


@test
def files_beyond_their_limit(box):
    prepare(box)
    for words in writers("o.safetensors"):
        box.refuses(IO, *words, naming=[f"{words[-1]}: cannot be written", "File too large"],
                    limits={resource.RLIMIT_FSIZE: 100})
    with open(box.path("out.txt"), "wb") as file:
        result = box.run("classify", "m.safetensors", "x.safetensors", stdout=file, limits={resource.RLIMIT_FSIZE: 100})
    equal(result.status, IO, f"{result}")
    check("standard output: cannot be written: File too large" in result.err, f"{result}")


@test
def disk_full(box):
    os.mkdir(box.path("disk"))
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8k", "none", box.path("disk")], capture_output=True, check=False)
    if mounted.returncode != 0:
        raise Skipped("a small file system cannot be mounted here")
    try:
        box.write("x.safetensors", data_set(n=600, dim=32))
        box.works("stats", "x.safetensors", "-o", "s.safetensors")
        box.works("fit", "s.safetensors", "-o", "m.safetensors")
        box.works("index", "x.safetensors", "-o", "g.safetensors")
        for words in writers("disk/o.safetensors"):
            more = ["--per-class", 1000] if words[0] == "synth" else []
            box.refuses(IO, *words, *more, naming=words[-1])
            equal(os.listdir(box.path("disk")), [], f"the disk after {words[0]}")
    finally:
        subprocess.run(["umount", box.path("disk")], check=False)


@test
def keeps_the_old_file_when_it_fails(box):
    prepare(box)
    rows, labels = world()
    rows[50] = [float("nan")] * 8
    box.write("bad.npy", npy(rows))
    box.write("y.txt", "".join(f"{k}\n" for k in labels))
    for name in ("o.safetensors", text_name("o.safetensors")):
        box.write(name, "old")
    for words in (["convert", "bad.npy", "--labels", "y.txt"], ["stats", "bad.npy", "--labels", "y.txt"],
                  ["fit", "bad.npy", "--labels", "y.txt"], ["transform", "m.safetensors", "bad.npy"],
                  ["classify", "m.safetensors", "bad.npy"], ["add-class", "m.safetensors", "new", "bad.npy"],
                  ["index", "bad.npy"], ["search", "g.safetensors", "bad.npy"]):
        output = "o.safetensors" if words[0] != "classify" else text_name("o.safetensors")
        box.refuses(3, *words, "-o", output, naming="bad.npy")
        equal(box.read(output), b"old", "the old file")


def children_seconds():
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def at_work(box, words):
    """A long-running process at work: it has files open and has run for a while."""
    process = box.start(*words)
    check(box.wait_for(process, lambda: box.open_files(process) and seconds_of(process) > 0.1), f"{words[0]} is over too soon")
    return process


def stopped(box, number, words, leaves, soon=10):
    """Runs a long command and stops it once it is at work; soon: in seconds of the processor."""
    process = at_work(box, words)
    begun = seconds_of(process)
    process.send_signal(number)
    before = children_seconds()
    try:
        out, err = process.communicate(timeout=600)
    finally:
        process.kill()  # whatever happens, it does not continue writing
    took = children_seconds() - before - begun  # what was waited for counts whole
    equal(process.returncode, -number, f"status of a stopped {words[0]}, with stderr {err!r}")
    equal(err.decode(), f"koofu {words[0]}: interrupted\n", "message")
    equal(box.files(), leaves, "files")
    check(took < soon, f"it took {took:.2f} s to stop")


@test
def stopped_by_a_signal(box):
    long = ["--dim", 1024, "--classes", 1000, "--per-class", 100000]
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        stopped(box, number, ["synth", *long, "-o", "o.safetensors"], set())
    size = 3_000_000
    with open(box.path("big.fbin"), "wb") as file:  # sparse zeros are bad rows, which are skipped
        file.write(size.to_bytes(4, "little") + (512).to_bytes(4, "little"))
        file.truncate(8 + size * 512 * 4)
    box.write("y.npy", npy([0, 1] * (size // 2), "<i4"))
    words = ["big.fbin", "--labels", "y.npy", "--skip-bad", "--threads", "1", "--isa", "plain", "-o", "o.safetensors"]
    for command in ("stats", "fit", "convert"):
        stopped(box, signal.SIGTERM, [command, *words], {"big.fbin", "y.npy"})


def long_classify(box):
    """The words of a classify that takes long: of many rows."""
    box.works("synth", "--classes", 1000, "--dim", 768, "--per-class", 60, "--dtype", "f16", "-o", "x.safetensors")
    box.works("fit", "x.safetensors", "--lambda", "0.3x", "-o", "m.safetensors")
    return ["classify", "m.safetensors", "x.safetensors", "--isa", "plain", "--threads", 1]


@test
def classify_stops_soon(box):
    words = long_classify(box)
    box.works("synth", "--classes", 1000, "--dim", 768, "--per-class", 1, "-o", "y.safetensors")
    begun = children_seconds()
    box.works("classify", "m.safetensors", "y.safetensors", *words[-4:])
    whole = 6 * (children_seconds() - begun)  # 6000 rows; sanitizers are slow
    stopped(box, signal.SIGINT, [*words, "-o", "o.tsv"], {"x.safetensors", "y.safetensors", "m.safetensors"}, soon=1 + whole / 4)


@test
def search_stops_soon(box):
    box.works("synth", "--classes", 1000, "--dim", 256, "--per-class", 50, "--dtype", "f16", "-o", "x.safetensors")
    box.works("index", "x.safetensors", "-o", "g.safetensors")
    how = ["-k", 5, "--isa", "plain", "--threads", 1]
    before = box.files()
    stopped(box, signal.SIGINT, ["search", "g.safetensors", "--itself", *how, "-o", "near.npy"], before)
    stopped(box, signal.SIGTERM, ["search", "g.safetensors", "x.safetensors", *how, "-o", "near.safetensors"], before)


@test
def killed_at_once_leaves_nothing(box):
    try:
        os.close(os.open(box.folder, os.O_TMPFILE | os.O_WRONLY))
    except OSError as reason:
        raise Skipped("this file system has no unnamed files (O_TMPFILE)") from reason
    classify = long_classify(box)
    before = box.files()
    for words in (["synth", "--dim", 1024, "--per-class", 100000, "-o", "o.safetensors"], [*classify, "-o", "o.tsv"]):
        process = at_work(box, words)
        process.kill()
        process.communicate()
        equal(box.files(), before, f"files after {words[0]}")
