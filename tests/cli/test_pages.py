"""The commands on the pages of docs/ work, and print what the pages say."""

import json
import os
import random
import re
import shutil
import struct
import subprocess

from files import npy
from harness import SLOWNESS, check, equal, test
from photos import CLIP, photos, picture

DOCS = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "..", "docs"))


def read_page(name):
    with open(os.path.join(DOCS, name), encoding="utf-8") as file:
        return file.read()


def sections(page):
    """{heading: text}, without the text above the first heading."""
    parts = re.split(r"^##+ (.*)\n", page, flags=re.M)
    return dict(zip(parts[1::2], parts[2::2]))


def commands(text):
    """The lines of its indented blocks that begin with `koofu` or `ls`, with those they continue on."""
    blocks = re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S).replace("\\\n", " ")
    return re.findall(r"^    (?:  )?((?:koofu|ls) .*)$", blocks, flags=re.M)


def shown(text):
    """Its fenced blocks without a language."""
    return [block for language, block in re.findall(r"^```(.*)\n((?s:.*?))^```$", text, flags=re.M) if not language]


class Shell:
    """Runs command lines as a reader of the page would, in a folder of a box."""

    def __init__(self, box, folder="."):
        self.folder, self.out, self.err = box.path(folder), "", ""
        os.makedirs(box.path("bin"), exist_ok=True)
        if not os.path.exists(box.path("bin/koofu")):
            os.symlink(box.program, box.path("bin/koofu"))
        self.environment = box.environment(PATH=box.path("bin") + os.pathsep + os.environ["PATH"])

    def run(self, line, fails=False):
        done = subprocess.run(["sh", "-c", line], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              capture_output=True, text=True, timeout=120 * SLOWNESS, check=False)
        failed = done.returncode != 0 or re.search(r"^koofu( \S+)?: ", done.stderr, re.M) is not None  # in a pipe, too
        equal(failed, fails, f"whether {line!r} fails\n{done.stderr}")
        self.out += done.stdout
        self.err += done.stderr
        return done

    def works(self, text, least, which="koofu|ls"):
        """Runs all commands of a section that begin so."""
        lines = [line for line in commands(text) if re.match(which, line)]
        check(len(lines) >= least, f"{len(lines)} commands in {text[:200]!r}")
        for line in lines:
            self.run(line)
        return self

    def shows(self, text, least=1):
        """The output shown in the section is among what its commands printed."""
        blocks = shown(text)
        check(len(blocks) >= least, f"{len(blocks)} blocks of output in {text[:200]!r}")
        for block in blocks:
            check(block in self.out, f"the page shows\n{block}\nbut the commands print\n{self.near(block)}")

    def near(self, block):
        """What was printed where the block begins, or at the end."""
        at = self.out.rfind(block.split("\n", 1)[0])
        return self.out[max(at, 0):][:len(block)] if at >= 0 else self.out[-2000:]


def embeddings(box, name):
    """The bytes of the rows of a data set, and the bytes per row."""
    data = box.read(name)
    length = struct.unpack("<Q", data[:8])[0]
    entry = json.loads(data[8:8 + length])["embeddings"]
    begin, end = entry["data_offsets"]
    return data[8 + length + begin:8 + length + end], 4 * entry["shape"][1]


def examples(box, classes=100, per_class=16, dim=512):
    """The files that the pages take as given: rows, labels and names of the synthetic world."""
    synth = ["synth", "--classes", classes, "--dim", dim, "-q"]
    box.works(*synth, "--per-class", per_class, "-o", "train.safetensors", "--text", "text.safetensors")
    box.works(*synth, "--per-class", 20, "--split", 1, "-o", "test.safetensors")
    box.works("fit", "train.safetensors", "--lambda", "1x", "-q", "-o", "other.safetensors")
    rows, size = embeddings(box, "train.safetensors")
    test_rows, _ = embeddings(box, "test.safetensors")
    text, _ = embeddings(box, "text.safetensors")
    names = [f"c{k:04d}" for k in range(classes)]

    def table(name, content):
        box.write(name, npy([], shape=(len(content) // size, size // 4)) + content)

    def lines(name, items):
        box.write(name, "".join(f"{item}\n" for item in items))

    half = len(rows) // 2
    table("x.npy", rows)
    table("x_test.npy", test_rows)
    table("monday.npy", rows[:half])
    table("tuesday.npy", rows[half:])
    table("photos.npy", test_rows[:50 * size])
    table("more.npy", test_rows[50 * size:60 * size])
    table("okapi.npy", test_rows[:3 * size])
    table("other.npy", text)
    table("val.npy", test_rows)
    table("prompts.npy", b"".join(text[k:k + size] * 7 for k in range(0, len(text), size)))
    lines("names.txt", names)
    lines("y.txt", names * per_class)
    lines("y_test.txt", names * 20)
    lines("monday.txt", names * (per_class // 2))
    lines("tuesday.txt", names * (per_class // 2))
    lines("photos.txt", [f"photo {i}" for i in range(50)])
    lines("more.txt", [f"more {i}" for i in range(10)])
    lines("gone.txt", ["photo 7", "more 3"])
    lines("dogs.txt", names[:5])
    lines("wordnet.txt", [f"thing {name}" for name in names])
    lines("1k.txt", names[:10])
    lines("21k.txt", names)
    box.write("real.json", json.dumps([[i % classes] for i in range(20 * classes)]))
    if not os.path.exists(box.path("clip")):
        os.symlink(CLIP, box.path("clip"))


@test
def the_guide(box):
    page = sections(read_page("guide.md"))
    examples(box)
    first = Shell(box).works(page["Fit, evaluate, classify"], 8)
    first.shows(page["Fit, evaluate, classify"])
    said = re.findall(r"\*(lambda [^*]*)\*", page["Fit, evaluate, classify"])
    check(said, "what fit says of lambda")
    for words in said:
        check(" ".join(words.split()) in first.err, f"the page says that fit prints {words!r}, but it prints\n{first.err}")
    search = Shell(box).works(page["Search"], 10)
    search.shows(page["Search"], 2)
    raw = Shell(box)
    raw.run("koofu index train.safetensors -o raw.safetensors")
    raw.run("koofu eval raw.safetensors test.safetensors -k 1,15")
    figures = re.search(r"1-NN and 15-NN are right for ([\d.]+) % and ([\d.]+)\s%", page["Search"])
    equal(list(figures.groups()), re.findall(r"-NN +\d+ +([\d.]+) %", raw.out), "neighbours in a raw gallery")


@test
def the_rest_of_the_guide(box):
    """What shows no figures (or those of ImageNet, which tests/few_shot.py has), in a small world, for its time."""
    page = sections(read_page("guide.md"))
    examples(box, 20, 8, 64)
    for command in ("fit train.safetensors -o model.safetensors",
                    "index train.safetensors --model model.safetensors -o gallery.safetensors"):
        box.works(*command.split())
    for heading, least in {"Shards": 5, "Adding a class": 1, "Names and pictures together": 6, "Choosing and judging": 10,
                           "In other programs": 4}.items():
        Shell(box).works(page[heading], least)


@test
def the_guide_with_pictures(box):
    page = sections(read_page("guide.md"))
    photos(box, "photos", ["night_owl", "red_fox", "tench"], 8)
    shutil.copy(box.path("photos/red_fox/0001.png"), box.path("new.jpg"))
    photos(box, "test-photos", ["night_owl", "tench"], 2)
    photos(box, "okapi-photos", ["herd"], 3)
    os.symlink(CLIP, box.path("clip"))
    shell = Shell(box).works(page["Pictures"], 7)
    check("red_fox" in shell.out, shell.out)


@test
def the_questions(box):
    page = sections(read_page("questions.md"))
    examples(box, 100, 8, 128)
    box.write("photos.csv", ",0,1,species\n0,1,0.5,owl\n1,-1,2,fox\n")
    for heading, least in {"My embeddings are in a DataFrame. Can koofu read them?": 1, "How many labelled rows do I need?": 1, "How do I use it with Qdrant, Milvus or pgvector?": 3,
                           "How do I update a model?": 4}.items():
        Shell(box).works(page[heading], least)


@test
def the_page_about_text(box):
    page = sections(read_page("text.md"))["From names to accuracy"]
    examples(box, 20, 8, 64)
    Shell(box).works(page, 1, "koofu sweep")  # in a small world, for its time
    examples(box)
    Shell(box).run("koofu fit train.safetensors --lambda 1x -o model.safetensors")  # one to begin with
    Shell(box).works(page, 8, "koofu (?!sweep)").shows(page)


@test
def the_example_by_hand(box):
    page = sections(read_page("method.md"))["An example by hand"]
    offsets = [[2, 0], [-2, 0], [0, 1], [0, -1]]
    box.write("x.npy", npy([[a + m, b + m] for m in (4, 6) for a, b in offsets]))
    box.write("y.npy", npy([0, 0, 0, 0, 1, 1, 1, 1], dtype="<i8"))
    box.write("query.npy", npy([[7, 4]]))
    shell = Shell(box).works(page, 8)
    equal(shown(page), [shell.out[:len(block) - 1].replace("\nrow", "\n\nrow") for block in shown(page)], "what is printed")


@test
def the_session_with_pictures(box):
    """Of docs/encoder.md: after each `$ command`, what it prints on standard output and standard error."""
    text = read_page("encoder.md").split("## Models\n", 1)[0]
    rng = random.Random(4)
    colours = {}
    for name in ("n01440764_tench", "night_owl", "red_fox"):
        colours[name] = [rng.randrange(256) for _ in range(48)]
        for i in range(20):
            box.write(f"photos/{name}/{i:04d}.png", picture(rng, colours[name], noise=100))
    box.write("new.png", picture(rng, colours["night_owl"], noise=100))
    box.write("said.tsv", "n01440764_tench\ttench\nnight_owl\tnight owl\nred_fox\tred fox\n")
    os.symlink(CLIP, box.path("clip"))
    shell, ran = Shell(box), 0
    broken = box.path("photos/red_fox/broken.png")
    for line, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ |```).*\n)*)", text, flags=re.M):
        if line.startswith("koofu embed ") and not os.path.exists(broken):
            box.write(broken, box.read("new.png")[:200])
        if line.startswith("ls "):
            os.remove(broken)
        if line.startswith("koofu eval "):
            shutil.copy(box.path("train.safetensors"), box.path("test.safetensors"))
        done = shell.run(line, fails=printed.startswith("koofu embed: "))
        if printed:
            plain = [re.sub(r"\d+\.\d+ s\)|[\d,]+ pictures/s", "…", words) for words in (printed, done.stdout + done.stderr)]
            equal(plain[1], plain[0], line)
            ran += 1
    check(ran >= 8, f"{ran} commands with output")
