"""Words and pictures as queries on the command line, and the answers as a page."""

import json
import re
from html.parser import HTMLParser

from files import data_set, npy, read_safetensors
from harness import IO, USAGE, check, equal, test
from photos import CLIP, TEXT, VISION, photos


def prepare(box):
    """A gallery in the original space and one of a model, with paths as ids."""
    paths = photos(box, "p", ["ant", "owl", "red fox"], 6)
    box.works("embed", CLIP, "p", "-o", "x.safetensors")
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.works("index", "x.safetensors", "-o", "raw.safetensors")
    box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    return paths


def table(text):
    return [line.split("\t") for line in text.splitlines()]


@test
def words_are_queries(box):
    """They find what their embeddings find, whatever the other queries, in the order of the command line."""
    paths = prepare(box)
    box.write("prompts.txt", "a red fox\ntwo owls?\n")
    box.works("embed-text", CLIP, "--prompts", "prompts.txt", "-o", "t.safetensors")
    by_rows = table(box.works("search", "raw.safetensors", "t.safetensors", "-k", 3).out)
    words = table(box.works("search", "raw.safetensors", "a red fox", "two owls?", "--encoder", CLIP, "-k", 3).out)
    equal([line[0] for line in words], ["query", "a red fox", "two owls?"], "queries")
    equal([line[1:] for line in words], [line[1:] for line in by_rows], "answers")
    for gallery in ("raw", "g"):
        alone = {q: table(box.works("search", f"{gallery}.safetensors", q, "--encoder", CLIP, "-k", 2).out)[1]
                 for q in ("a red fox", "two owls?", paths[3], paths[7])}
        order = [paths[3], "a red fox", "two owls?", paths[7]]
        mixed = table(box.works("search", f"{gallery}.safetensors", *order, "--encoder", CLIP, "-k", 2).out)
        equal(mixed[1:], [alone[q] for q in order], "mixed")
        box.works("search", f"{gallery}.safetensors", *order, "--encoder", CLIP, "-k", 2, "-o", "a.safetensors")
        about = json.loads(box.works("search", f"{gallery}.safetensors", *order, "--encoder", CLIP, "-k", 2, "--json").out)
        equal([a["id"] for a in about["answers"]], order, "in JSON")
        equal([a["text"] for a in about["answers"]], [False, True, True, False], "which are text")
        equal([list(row) for row in read_safetensors(box.read("a.safetensors"))[0]["rows"]],
              [[n["row"] for n in a["neighbours"]] for a in about["answers"]], "as arrays")
        equal([n["id"] for a in about["answers"] for n in a["neighbours"]], [v for line in mixed[1:] for v in line[1::3]], "ids")
        equal((about["text_queries"], about["text_mean"]), (2, "everyday texts" if gallery == "g" else None), "the mean")
    box.works("search", "raw.safetensors", "a red fox", "--encoder", CLIP, "-q")


@test
def what_is_done_about_text_is_said(box):
    paths = prepare(box)
    box.write("prompts.txt", "".join(f"a photo of a thing {i}\n" for i in range(12)))
    box.works("embed-text", CLIP, "--prompts", "prompts.txt", "-o", "t.safetensors")
    words = ["search", "g.safetensors", "a red fox", "--encoder", CLIP, "-k", 3]
    plain = box.works(*words)
    check("the mean of everyday texts is subtracted" in plain.err, plain.err)
    other = box.works(*words, "--text-mean", "t.safetensors")
    check("the mean of t.safetensors is subtracted" in other.err, other.err)
    check(other.out != plain.out, "another mean, another score")
    equal(box.works("search", "raw.safetensors", "a red fox", "--encoder", CLIP).err, "", "the original space")
    equal(box.works("search", "g.safetensors", paths[0], "--encoder", CLIP).err, "", "a picture")
    box.refuses(USAGE, "search", "g.safetensors", paths[0], "--encoder", CLIP, "--text-mean", "t.safetensors", naming="--text-mean")
    box.refuses(USAGE, *words, "--text-queries", naming="--text-queries")


@test
def files_are_files(box):
    """An existing file is never words, nor is a name that can only be that of a missing file."""
    paths = prepare(box)
    box.write("a red fox", box.read(paths[0]))
    line = table(box.works("search", "raw.safetensors", "a red fox", "--encoder", CLIP, "-k", 1).out)[1]
    equal(line[1], paths[0], "the picture of this name")
    check(line[3].startswith("1.0"), f"{line}")
    equal(len(table(box.works("search", "raw.safetensors", "p/ant/*.png", "--encoder", CLIP, "-k", 1).out)), 7, "a pattern")
    equal(len(table(box.works("search", "raw.safetensors", "p/ant", "--encoder", CLIP, "-k", 1).out)), 7, "a folder")
    for name in ("gone.jpg", "gone.PNG", "gone/fox", "x.npy"):
        box.refuses(IO, "search", "raw.safetensors", name, "--encoder", CLIP, naming=name)
    box.refuses(USAGE, "search", "raw.safetensors", "two owls", naming=["'two owls' is not a file", "--encoder"])
    box.refuses(USAGE, "search", "raw.safetensors", "x.safetensors", "owl", naming=["'owl' is not a file", "--encoder"])
    box.refuses(IO, "search", "raw.safetensors", "gone.npy", naming="gone.npy")
    box.refuses(USAGE, "search", "raw.safetensors", "two owls", "--encoder", VISION, naming=["clip-vision", "text tower"])
    box.refuses(USAGE, "search", "raw.safetensors", paths[0], "--encoder", TEXT, naming="image tower")


class Page(HTMLParser):
    """Its elements, and its text; every element that is opened is closed."""

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.images, self.text = [], set(), [], []
        self.feed(text)
        self.close()
        equal(self.open, [], "open elements")

    def handle_starttag(self, tag, attrs):
        self.tags.add(tag)
        check(not any(name.startswith("on") or name == "href" for name, _ in attrs), f"{tag} {attrs}")
        if tag != "meta":
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.add(tag)
        if tag == "img":
            self.images.append(dict(attrs)["src"])

    def handle_endtag(self, tag):
        equal(self.open.pop(), tag, f"at {self.getpos()}")

    def handle_data(self, data):
        if self.open and self.open[-1] != "style":
            self.text.append(data.strip())


@test
def a_page_of_answers(box):
    paths = prepare(box)
    result = box.works("search", "g.safetensors", "a red <fox>", paths[4], "--encoder", CLIP, "-k", 3, "--html", "a.html", "--title", "T & \"t\"")
    check("a page of 2 queries, with 7 pictures" in result.err and "KiB" in result.err, result.err)
    equal(result.out, "", "the answers are on the page")
    text = box.read("a.html").decode()
    page = Page(text)
    equal(len(page.images), 7, "pictures")
    check(all(re.fullmatch(r"data:image/(jpeg|png);base64,[A-Za-z0-9+/]+=*", uri) for uri in page.images), "URIs")
    check(page.tags <= {"html", "head", "meta", "title", "style", "body", "main", "header", "h1", "h2", "p", "dl", "div", "dt", "dd", "bdi",
                        "section", "ol", "li", "span", "b", "img", "footer"}, f"{page.tags}")
    check("img-src data:" in text and "default-src 'none'" in text, "the policy")
    check("http:" not in text.replace("http-equiv", "") and "https:" not in text, "no address")
    answers = table(box.works("search", "g.safetensors", "a red <fox>", paths[4], "--encoder", CLIP, "-k", 3).out)[1:]
    shown = [t for t in page.text if t]
    for line in answers:
        for value in (line[0], line[1], line[2], f"{float(line[3]):.4f}".replace("-", "−")):
            check(value in shown, f"{value} is not among {shown}")
    check("The mean of everyday texts is subtracted from text." in shown and "T & \"t\"" in shown, f"{shown}")
    box.works("search", "g.safetensors", paths[4], "--encoder", CLIP, "--html", "b.html", "-o", "b.tsv")
    check(box.read("b.tsv").startswith(b"query\t"), "both")
    box.refuses(USAGE, "search", "g.safetensors", paths[4], "--encoder", CLIP, "--title", "t", naming="--html")
    box.refuses(USAGE, "search", "g.safetensors", paths[4], "--encoder", CLIP, "--html", "-", naming="--html")
    box.refuses(USAGE, "search", "g.safetensors", paths[4], "--encoder", CLIP, "--html", "g.safetensors", naming="g.safetensors")


@test
def ids_of_a_stranger(box):
    """Markup, remote addresses, devices, folders and files that are no pictures: shown as text, or not at all."""
    prepare(box)
    box.write("secret.txt", "the secret")
    ids = ["<script>alert(1)</script>", "http://localhost/a.png", "//localhost/a.png", "/dev/zero", "/etc/passwd", "secret.txt", "p", "../../x.png",
           "javascript:alert(1)", "\" onerror=\"alert(1)", "data:text/html,<b>", "\u202ereversed"]
    box.write("rows.safetensors", data_set(n=len(ids), dim=8, classes=2))
    box.write("ids.txt", "".join(i + "\n" for i in ids))
    box.works("index", "rows.safetensors", "--ids", "ids.txt", "-o", "s.safetensors")
    box.works("search", "s.safetensors", "rows.safetensors", "-k", len(ids), "--html", "s.html")
    text = box.read("s.html").decode()
    page = Page(text)
    equal(page.images, [], "no picture")
    check("the secret" not in text and "\u202e" not in text and "root:" not in text, "nothing of the files")
    check("<script>alert(1)</script>" in page.text and "\" onerror=\"alert(1)" in page.text, "as text")


@test
def pages_are_bounded(box):
    """200 pictures, 1,000 rows; --pictures says where relative ids start."""
    paths = prepare(box)
    box.works("index", "x.safetensors", "-o", "r.safetensors")
    rows = read_safetensors(box.read("x.safetensors"))[0]["embeddings"]
    box.write("q.npy", npy([list(map(float, rows[i % 18])) for i in range(120)]))
    result = box.works("search", "r.safetensors", "q.npy", "-k", 10, "--html", "a.html")
    check("a page of the first 100 of 120 queries, with 200 pictures" in result.err, result.err)
    page = Page(box.read("a.html").decode())
    equal((len(page.images), "the first 100 of 120" in page.text), (200, True), "what is shown")
    box.write("ids.txt", "".join(path.removeprefix("p/") + "\n" for path in paths))
    box.works("index", "x.safetensors", "--ids", "ids.txt", "-o", "s.safetensors")
    for more, n in (([], 0), (["--pictures", "p"], 120)):
        result = box.works("search", "s.safetensors", "q.npy", "-k", 1, "--html", "a.html", *more)
        check(f"with {n} pictures" in result.err, result.err)
    box.refuses(USAGE, "search", "r.safetensors", "q.npy", "--pictures", "p", naming=["--pictures", "--html"])
