"""Standard input, pipes and FIFOs where files are read."""

import json
import os
import resource
import signal
import subprocess
import threading

from harness import BAD_DATA, IO, USAGE, check, equal, test
from files import data_set, fvecs, npy, png, world
from photos import CLIP



def prepare(box):
    rows, labels = world()
    box.write("x.npy", npy(rows))
    box.write("y.txt", "".join(f"class {k}\n" for k in labels))
    box.write("names.txt", "class 0\nclass 1\nclass 2\n")
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.works("index", "x.safetensors", "-o", "g.safetensors")


@test
def files_through_a_pipe(box):
    """Every file that a command reads may come from standard input instead, with the same result."""
    prepare(box)
    box.works("classify", "m.safetensors", "x.safetensors", "-o", "answers.tsv")
    box.write("only.txt", "class 0\nclass 1\n")
    box.write("templates.txt", "a {}\nthe {}\n")
    box.write("groups.txt", "".join(f"{i // 2}\n" for i in range(60)))
    for words, path in ((["classify", "m.safetensors", "x.npy"], "x.npy"), (["classify", "m.safetensors", "x.npy"], "m.safetensors"),
                        (["classify", "m.safetensors", "x.safetensors"], "x.safetensors"),
                        (["search", "g.safetensors", "x.npy"], "x.npy"), (["search", "g.safetensors", "x.npy"], "g.safetensors"),
                        (["eval", "m.safetensors", "x.npy", "--labels", "y.txt"], "y.txt"),
                        (["eval", "m.safetensors", "x.npy", "--labels", "y.txt", "--classes", "names.txt"], "names.txt"),
                        (["eval", "m.safetensors", "x.npy", "--truth", "y.txt"], "y.txt"),
                        (["compare", "answers.tsv", "m.safetensors", "x.safetensors"], "answers.tsv"),
                        (["sweep", "x.safetensors", "--dims", 4, "--lambdas", "1x"], "x.safetensors"),
                        (["prompts", "--classes", "names.txt", "--templates", "templates.txt"], "names.txt"),
                        (["prompts", "--classes", "names.txt", "--templates", "templates.txt"], "templates.txt"),
                        (["info", "x.npy"], "x.npy"), (["info", "s.safetensors", "--json"], "s.safetensors")):
        wanted = box.works(*words).out
        piped = ["-" if word == path else word for word in words]
        got = box.works(*piped, feed=box.read(path)).out
        check("/dev/fd" not in got, f"{piped} names the copy: {got[:300]!r}")
        equal(got.replace("standard input", path).split(), wanted.split(), f"{piped} < {path}")
    for words, path in ((["fit", "x.npy", "--labels", "y.txt", "--groups", "groups.txt"], "groups.txt"),
                        (["fit", "x.npy", "--labels", "y.txt", "--groups", "groups.txt"], "x.npy"),
                        (["fit", "s.safetensors"], "s.safetensors"), (["stats", "x.safetensors", "--only", "only.txt"], "only.txt"),
                        (["text-prototypes", "x.npy", "--classes", "names.txt"], "names.txt"),
                        (["text-prototypes", "x.npy", "--classes", "names.txt"], "x.npy"),
                        (["merge", "s.safetensors"], "s.safetensors"), (["index", "x.npy", "--ids", "y.txt"], "y.txt")):
        box.works(*words, "-o", "a.safetensors")
        box.works(*["-" if word == path else word for word in words], "-o", "b.safetensors", feed=box.read(path))
        equal(box.read("b.safetensors"), box.read("a.safetensors"), f"{words} with {path} from a pipe")


@test
def texts_for_an_encoder(box):
    box.write("t.txt", "fox\ndog\n")
    box.works("embed-text", CLIP, "--prompts", "t.txt", "-o", "a.safetensors")
    for words in ([CLIP, "-"], [CLIP, "--prompts", "-"], [CLIP, "t.txt"], [CLIP, "/dev/stdin"]):
        box.works("embed-text", *words, "-o", "b.safetensors", feed=b"fox\ndog\n")
        equal(box.read("b.safetensors"), box.read("a.safetensors"), f"embed-text {words}")
    box.works("embed-text", CLIP, "--classes", "t.txt", "-o", "a.safetensors")
    box.works("embed-text", CLIP, "--classes", "-", "-o", "b.safetensors", feed=b"fox\ndog\n")
    equal(box.read("b.safetensors"), box.read("a.safetensors"), "classes")
    box.refuses(USAGE, "embed-text", CLIP, "-", "--prompts", "t.txt", "-o", "c.safetensors", feed=b"fox\n", naming="--prompts")


@test
def a_redirected_file(box):
    """It is read from its current position: a shell may have read its first lines."""
    prepare(box)
    wanted = box.works("classify", "m.safetensors", "x.npy").out
    with open(box.path("x.npy"), "rb") as file:
        equal(box.works("classify", "m.safetensors", "-", stdin=file).out, wanted, "a file")
    box.write("more.txt", b"a header\n" + box.read("names.txt"))
    wanted = box.works("prompts", "--classes", "names.txt", "--templates", "builtin1").out
    with open(box.path("more.txt"), "rb", buffering=0) as file:
        file.read(len("a header\n"))
        equal(box.works("prompts", "--classes", "-", "--templates", "builtin1", stdin=file).out, wanted, "the rest of a file")


def feed_descriptor(content):
    """The end of a pipe that gives `content`, as <(...) of a shell does."""
    ours, theirs = os.pipe()
    def write():
        with os.fdopen(theirs, "wb") as file:
            file.write(content)
    threading.Thread(target=write, daemon=True).start()
    return ours


@test
def process_substitution(box):
    prepare(box)
    wanted = box.works("eval", "m.safetensors", "x.npy", "--labels", "y.txt", "--json").out
    rows, labels = feed_descriptor(box.read("x.npy")), feed_descriptor(box.read("y.txt"))
    got = box.works("eval", "m.safetensors", f"/dev/fd/{rows}", "--labels", f"/dev/fd/{labels}", "--json", pass_fds=(rows, labels)).out
    equal(got, wanted, "rows and labels from two pipes")
    empty, theirs = os.pipe()
    os.close(theirs)  # its writer is gone before the program begins
    box.refuses(BAD_DATA, "prompts", "--classes", f"/dev/fd/{empty}", "--templates", "builtin1", pass_fds=(empty,),
                naming=[f"/dev/fd/{empty}: ", "empty"])
    for fd in (rows, labels, empty):
        os.close(fd)


@test
def a_fifo(box):
    prepare(box)
    os.mkfifo(box.path("pipe"))
    def write():
        with open(box.path("pipe"), "wb") as file:
            file.write(box.read("names.txt"))
    thread = threading.Thread(target=write)
    thread.start()
    got = box.works("prompts", "--classes", "pipe", "--templates", "builtin1").out
    thread.join()
    equal(got, "image of class 0\nimage of class 1\nimage of class 2\n", "classes from a FIFO")


@test
def a_signal_ends_waiting(box):
    """A FIFO that nobody writes to, and a pipe that stays open."""
    prepare(box)
    os.mkfifo(box.path("pipe"))
    for words in (["prompts", "--classes", "pipe", "--templates", "builtin1"],
                  ["prompts", "--classes", "names.txt", "--templates", "pipe"],
                  ["stats", "x.npy", "--labels", "pipe", "-o", "o.safetensors"], ["classify", "m.safetensors", "pipe"],
                  ["embed", CLIP, "--list", "pipe", "-o", "o.safetensors"]):
        for number in (signal.SIGTERM, signal.SIGINT):
            process = box.start(*words)
            waits = box.wait_for(process, lambda: "pipe" in box.open_files(process))
            check(waits, f"{words} does not wait")
            process.send_signal(number)
            try:
                _, err = process.communicate(timeout=120)
            except subprocess.TimeoutExpired:
                process.kill()
                check(False, f"{words} survives signal {number}")
            equal((process.returncode, err.decode().split(": ")[-1]), (-number, "interrupted\n"), f"{words}")


@test
def twice(box):
    prepare(box)
    for words in (["classify", "-", "-"], ["eval", "m.safetensors", "-", "--labels", "-"], ["eval", "-", "x.npy", "--labels", "/dev/stdin"],
                  ["prompts", "--classes", "-", "--templates", "/dev/fd/0"]):
        box.refuses(USAGE, *words, feed=b"class 0\n", naming=["standard input", "twice"])
    pipe = feed_descriptor(b"a\n")
    box.refuses(USAGE, "prompts", "--classes", f"/dev/fd/{pipe}", "--templates", f"/dev/fd/{pipe}", pass_fds=(pipe,), naming="twice")
    os.close(pipe)


@test
def what_no_stream_can_be(box):
    prepare(box)
    for words, what in ((["embed", "-", "x", "-o", "o.safetensors"], "folder"), (["embed", CLIP, "-", "-o", "o.safetensors"], "pictures"),
                        (["quickstart", "-", "--encoder", CLIP], "folder"), (["quickstart", "x", "--encoder", "-"], "--encoder"),
                        (["classify", "m.safetensors", "-", "--encoder", CLIP], "pictures"),
                        (["search", "g.safetensors", "-", "--encoder", CLIP], "words"),
                        (["index", "x.npy", "--append", "-", "-o", "o.safetensors"], "--append")):
        box.refuses(USAGE, *words, feed=b"x", naming=["standard input", what])
    for device in ("/dev/null", "/dev/zero"):
        with open(device, "rb") as file:
            box.refuses(BAD_DATA, "classify", "m.safetensors", "-", stdin=file, naming=["standard input", "device"])
        box.refuses(BAD_DATA, "prompts", "--classes", device, "--templates", "builtin1", naming=[device, "regular"])
    box.refuses(BAD_DATA, "classify", "m.safetensors", "-", feed=b"", naming=["standard input", "empty"])
    box.refuses(BAD_DATA, "classify", "m.safetensors", "-", feed=b"nothing", naming=["standard input", ".npy", "magic bytes"])
    box.refuses(BAD_DATA, "classify", "m.safetensors", "-", feed=fvecs(world()[0]), naming=["standard input", "magic bytes"])
    box.refuses(BAD_DATA, "classify", "m.safetensors", "-", feed=box.read("x.npy")[:-1], naming=["standard input", "cut short"])
    for ending in (".csv", ".fvecs"):
        os.mkfifo(box.path("pipe" + ending))
        box.refuses(BAD_DATA, "stats", "x.npy", "--labels", "pipe" + ending, "-o", "o.safetensors", naming=["pipe", ending])
    box.works("add-class", "m.safetensors", "-", "x.npy", "-o", "more.safetensors")  # a name
    check("-" in json.loads(box.works("info", "more.safetensors", "--json").out)["metadata"]["classes"], "the class has that name")


@test
def a_list_of_pictures(box):
    """Relative paths start at the program's working directory."""
    for name in ("a", "b"):
        box.write(f"pictures/{name}.png", png(name.encode() * 3 * 64, 8, 8))
    lines = "pictures/a.png\npictures/b.png\n"
    box.write("list.txt", lines)
    box.works("embed", CLIP, "--list", "list.txt", "-o", "a.safetensors")
    box.works("embed", CLIP, "--list", "-", "-o", "b.safetensors", feed=lines.encode())
    equal(box.read("b.safetensors"), box.read("a.safetensors"), "the same rows and ids")


@test
def room_for_the_copy(box):
    prepare(box)
    wanted = box.works("classify", "m.safetensors", "x.npy").out
    os.mkdir(box.path("tmp"))
    for folder in (box.path("tmp"), "/does/not/exist", ""):
        got = box.works("classify", "m.safetensors", "-", feed=box.read("x.npy"), env={"TMPDIR": folder})
        equal(got.out, wanted, f"TMPDIR={folder}")
    equal(os.listdir(box.path("tmp")), [], "nothing is left")
    box.refuses(IO, "classify", "m.safetensors", "-", feed=box.read("x.npy"), limits={resource.RLIMIT_FSIZE: 1000},
                naming=["standard input: cannot be kept in", "large"])
