"""koofu quickstart: from a folder of pictures to a classifier."""

import fcntl
import json
import os
import random
import re

from files import png, read_safetensors
from harness import BAD_DATA, IO, USAGE, Skipped, check, equal, test
from photos import CLIP, TEXT, VISION, photos

FILES = {"embeddings.safetensors", "text.safetensors", "model.safetensors", "report.html", "about.txt"}


def left_out(rows, labels):
    """How often the nearest class mean is right when each row is left out of its own, by the definition."""
    unit = [[x / sum(y * y for y in row) ** 0.5 for x in row] for row in rows]
    dim, classes = len(rows[0]), max(labels) + 1
    sums = [[sum(u[d] for u, k in zip(unit, labels) if k == c) for d in range(dim)] for c in range(classes)]
    right = 0
    for u, own in zip(unit, labels):
        means = [[s - x for s, x in zip(sums[c], u)] if c == own else sums[c] for c in range(classes)]
        cosines = [sum(m * x for m, x in zip(mean, u)) / sum(m * m for m in mean) ** 0.5 for mean in means]
        right += cosines.index(max(cosines)) == own
    return right


def by_names(rows, labels, text):
    """How often the text with the largest cosine is that of the row's class."""
    unit = [[x / sum(y * y for y in t) ** 0.5 for x in t] for t in text]
    nearest = [max(range(len(text)), key=lambda k: sum(x * y for x, y in zip(row, unit[k]))) for row in rows]
    return sum(n == k for n, k in zip(nearest, labels))


@test
def from_a_folder_to_a_classifier(box):
    paths = photos(box, "photos", ["n01440764_tench", "red_fox", "017.Night_Owl"], 12)
    result = box.works("quickstart", "photos/", "--encoder", CLIP)
    equal(set(os.listdir(box.path("photos-koofu"))), FILES | {"names.json"}, "files")
    check("names.json" in box.read("photos-koofu/about.txt").decode(), "what it says about the names")
    equal(json.loads(box.read("photos-koofu/names.json")), {"n01440764_tench": "tench", "red_fox": "red fox", "017.Night_Owl": "Night Owl"}, "names")
    for text in ("36 pictures in 3 classes", "embeddings as they are", "Koo-Fu and class names together", "zero-shot",
                 "photos-koofu", "report.html", "koofu classify photos-koofu/model.safetensors photo.jpg --encoder"):
        check(text in result.out, f"{text!r} in {result.out}")
    data = read_safetensors(box.read("photos-koofu/embeddings.safetensors"))[0]
    raw = left_out(data["embeddings"], data["labels"])
    printed = re.search(r"as they are +([0-9.]+) %", result.out).group(1)
    equal(printed, f"{100 * raw / 36:.2f}", "the raw space, left out one by one")
    printed = dict(re.findall(r"^  (\S.*\S) +([0-9.]+) %", result.out, re.M))
    text = read_safetensors(box.read("photos-koofu/text.safetensors"))[0]["embeddings"]
    equal(printed["class names alone (zero-shot)"], f"{100 * by_names(data['embeddings'], data['labels'], text) / 36:.2f}", "names")
    page = box.read("photos-koofu/report.html").decode()
    both, names = re.search(r"together are right for <b>([0-9.]+).{,200}text alone for ([0-9.]+)", page).groups()
    equal((printed["Koo-Fu and class names together"], printed["class names alone (zero-shot)"]), (both, names), "as on the page")
    best = re.search(r"most likely at .{,120} At this λ <b>([0-9.]+)", page).group(1)
    equal(printed["nearest class mean, Koo-Fu"], best, "Koo-Fu, as on the page")
    box.works("embed", CLIP, "photos/", "-o", "e.safetensors")
    equal(box.read("e.safetensors"), box.read("photos-koofu/embeddings.safetensors"), "as koofu embed does it")
    check(box.read("photos-koofu/report.html").startswith(b"<!"), "a page")
    # the command that it suggests next
    line = re.search(r"^  koofu (classify .*)$", result.out, re.M).group(1).replace("photo.jpg", paths[0])
    answer = box.works(*line.split()).out.splitlines()[1].split("\t")
    equal(answer[0], paths[0], "the picture")
    check((answer[1], answer[2]) in (("n01440764_tench", "tench"), ("red_fox", "red fox"), ("017.Night_Owl", "Night Owl")), "a class and its name")
    page = box.read("photos-koofu/report.html").decode()
    check("Night Owl" in page and not re.search("017.Night_Owl(?!/)", page), "the page shows names, beside paths")
    check("  Night Owl" in result.out and not re.search("017.Night_Owl(?!/)", result.out), f"names on the terminal: {result.out}")
    # the names that were embedded
    box.write("names.txt", "017.Night_Owl\nn01440764_tench\nred_fox\n")
    box.write("spoken.txt", "017.Night_Owl\tNight Owl\nn01440764_tench\ttench\nred_fox\tred fox\n")
    box.works("embed-text", CLIP, "--classes", "names.txt", "--names", "spoken.txt", "-o", "t.safetensors")
    (tensors, metadata), (own, named) = (read_safetensors(box.read(name)) for name in ("photos-koofu/text.safetensors", "t.safetensors"))
    check(metadata.pop("made_with") != named.pop("made_with"), "made with both towers, and with one")
    equal((own, named), (tensors, metadata), "names are cleaned")
    before = {name: box.read(f"photos-koofu/{name}") for name in FILES}
    for threads in (1, 3):
        again = box.works("quickstart", "photos/", "--encoder", CLIP, "--threads", threads, "--no-resume")
        equal(again.out, result.out, "the same figures")
        equal({name: box.read(f"photos-koofu/{name}") for name in FILES}, before, "the same bytes")


@test
def pictures_that_go_wrong(box):
    """Two pictures in wrong folders are found by leaving them out, in what is printed and on the page."""
    paths = photos(box, "photos", ["ant", "fox", "owl"], 10)
    for moved, (path, folder) in {"photos/fox/stray.png": (paths[0], "ant"), "photos/owl/lost.png": (paths[1], "ant")}.items():
        check(f"/{folder}/" in path, path)
        os.rename(box.path(path), box.path(moved))
    out = box.works("quickstart", "photos", "--encoder", CLIP, "--no-text", "--wrong", "wrong.csv").out
    right = re.search(r"nearest class mean, Koo-Fu +([0-9.]+) %", out).group(1)
    n, wrong = map(int, re.search(r"Of (\d+) pictures left out in turn, the model gets (\d+) wrong:", out).groups())
    equal((n, f"{100 * (n - wrong) / n:.2f}"), (30, right), "as the figures say")
    lines = out[out.index("wrong by the widest margin:"):].split("\n\n")[0].splitlines()[1:]
    equal(len(lines), min(wrong, 10), "all that are wrong")
    check("  photos/fox/stray.png  fox  ->  ant" in lines and "  photos/owl/lost.png  owl  ->  ant" in lines, out)
    listed = [line.split(",") for line in box.read("wrong.csv").decode().splitlines()]
    equal(listed[0][:4], ["row", "id", "truth", "answer"], "the table")
    equal(sorted((i, t, a) for _, i, t, a, *_ in listed[1:])[:10],
          sorted(tuple(re.split("  ->  |  ", line.strip())) for line in lines) if wrong <= 10 else None, "all of them")
    confusions = re.findall(r"^ +(\d+)  (\w+)  ->  (\w+)$", out, re.M)
    equal(sum(int(number) for number, _, _ in confusions), wrong, "confusions")
    shares = re.findall(r"^ +([0-9.]+) % +[0-9.]+ % +(\d+) +(\d+)  (\w+)$", out, re.M)
    equal(sorted((name, int(rows)) for _, rows, _, name in shares), [("ant", 8), ("fox", 11), ("owl", 11)], "classes")
    equal(sum(round(float(share) * int(rows) / 100) for share, rows, _, _ in shares), n - wrong, "their shares")
    page = box.read("photos-koofu/report.html").decode()
    equal(page.count("These are 30 training rows, each <b>left out</b> in turn.</p>"), 5, "what the sections are about")
    worst = page[page.index('id="worst"'):]
    equal(worst.count('<tr><th scope="row"><img src="data:image/'), min(wrong, 12), "thumbnails")
    for path in ("photos/fox/stray.png", "photos/owl/lost.png"):
        check(f"<bdi>{path}</bdi>" in worst, f"{path} in {worst[:1000]}")
    box.refuses(USAGE, "quickstart", "photos", "--encoder", "nowhere", "--wrong", "-", naming="--wrong")
    # Classes that are far apart: nothing goes wrong.
    rng = random.Random(1)
    for i in range(12):
        box.write(f"plain/{'red' if i % 2 else 'blue'}/{i}.png", png(bytes((250 if i % 2 else 9, rng.randrange(9), 9 if i % 2 else 250)) * 4, 2, 2))
    out = box.works("quickstart", "plain", "--encoder", CLIP, "--no-text").out
    check("Of 12 pictures left out in turn, the model gets 0 wrong.\n\nWritten to" in out, out)
    check('id="worst"' not in box.read("plain-koofu/report.html").decode(), "nothing to show")


@test
def all_figures_are_of_the_same_rows(box):
    """With many classes, fewer rows are left out while lambda is chosen than for the figures that are printed."""
    rng = random.Random(5)
    for i in range(900):
        box.write(f"photos/kind {i % 300}/{i // 300}.png", png(rng.randbytes(12), 2, 2))
    out = box.works("quickstart", "photos", "--encoder", CLIP, "--no-text").out
    check("900 pictures in 300 classes. Accuracy on left-out pictures (900):" in out, out)
    data = read_safetensors(box.read("photos-koofu/embeddings.safetensors"))[0]
    printed = dict(re.findall(r"^  (\S.*\S) +([0-9.]+) %", out, re.M))
    equal(printed["nearest class mean, embeddings as they are"], f"{100 * left_out(data['embeddings'], data['labels']) / 900:.2f}", "raw")
    about = json.loads(box.works("fit", "photos-koofu/embeddings.safetensors", "-o", "m.safetensors", "--json", "-q").out)
    check(about["by_lambda"]["n"] < 900, "all rows are left out for every lambda")
    equal((about["n"], printed["nearest class mean, Koo-Fu"]), (900, f"{100 * about['top1']:.2f}"), "as koofu fit says")


@test
def folders_with_the_same_name(box):
    """They stay two classes."""
    photos(box, "photos", ["n02012849_crane", "n03126707_crane", "fox"], 8)
    box.works("quickstart", "photos", "--encoder", CLIP, "-o", "out", "-q")
    equal(json.loads(box.read("out/names.json")),
          {"fox": "fox", "n02012849_crane": "crane (n02012849_crane)", "n03126707_crane": "crane (n03126707_crane)"}, "names")
    photos(box, "plain", ["crane", "fox"], 8)
    box.works("quickstart", "plain", "--encoder", CLIP, "-o", "other", "-q")
    equal(set(os.listdir(box.path("other"))), FILES, "folders that are called by their names need no file")
    box.works("quickstart", "plain", "--encoder", CLIP, "-o", "out", "--no-text", "-q")
    equal(set(os.listdir(box.path("out"))), FILES - {"text.safetensors"}, "names and text of the run before are gone")


@test
def one_at_a_time(box):
    photos(box, "photos", ["a", "b"], 8)
    os.mkdir(box.path("out"))
    lock = os.open(box.path("out"), os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        box.refuses(IO, "quickstart", "photos", "--encoder", CLIP, "-o", "out", naming=["out: another process"])
    finally:
        os.close(lock)
    box.works("quickstart", "photos", "--encoder", CLIP, "-o", "out")


@test
def model_and_page_go_together(box):
    """The page cannot be replaced, which is noticed only when everything else is done."""
    photos(box, "photos", ["a", "b"], 8)
    if os.geteuid() != 0:
        raise Skipped("only root can make a file of another user")
    box.works("quickstart", "photos", "--encoder", CLIP, "-o", "out", "--no-text")
    box.become_nobody()
    before = box.read("out/model.safetensors")
    for path, mode in (("out", 0o1777), ("out/report.html", 0o644)):
        os.chown(box.path(path), 0, 0)
        os.chmod(box.path(path), mode)
    photos(box, "photos", ["c"], 8)
    result = box.run("quickstart", "photos", "--encoder", CLIP, "-o", "out", "--no-text")
    equal(result.status, IO, f"{result}")
    check("report.html: cannot be replaced" in result.err, f"{result}")
    equal(box.read("out/model.safetensors"), before, "the model")


@test
def by_pictures_alone(box):
    photos(box, "photos", ["a", "b"], 8)
    result = box.works("quickstart", "photos", "--encoder", CLIP, "--no-text", "-o", "out", "--title", "My <photos>")
    equal(set(os.listdir(box.path("out"))), FILES - {"text.safetensors"}, "files")
    check("names" not in result.out and "the model" in result.out, result.out)
    check(b"My &lt;photos&gt;" in box.read("out/report.html"), "the title")
    box.works("fit", "out/embeddings.safetensors", "-o", "fit.safetensors")
    check(box.read("fit.safetensors") == box.read("out/model.safetensors"), "the model of koofu fit has other bytes")
    result = box.works("quickstart", "photos", "--encoder", VISION, "-o", "vision")
    check("has no text tower" in result.err, f"{result}")
    equal(set(os.listdir(box.path("vision"))), FILES - {"text.safetensors"}, "files")


@test
def with_names_as_fit_does_it(box):
    photos(box, "photos", ["ant", "owl", "fox"], 8)
    box.works("quickstart", "photos", "--encoder", CLIP, "-o", "out")
    box.works("fit", "out/embeddings.safetensors", "--text", "out/text.safetensors", "-o", "fit.safetensors")
    check(box.read("fit.safetensors") == box.read("out/model.safetensors"), "the model of koofu fit has other bytes")


@test
def names_that_say_nothing(box):
    photos(box, "photos", ["n01440764", "n01443537", "0003"], 4)
    result = box.works("quickstart", "photos", "--encoder", CLIP)
    check("mean nothing to the encoder" in result.err and "zero-shot" not in result.out, f"{result}")


@test
def little_to_go_on(box):
    paths = photos(box, "photos", ["a", "b", "c"], 5)
    box.write("photos/lonely/x.png", box.read(paths[3]))
    result = box.works("quickstart", "photos", "--encoder", CLIP)
    check("1 picture is alone in its class" in result.out, result.out)
    box.write("single/a/x.png", box.read(paths[0]))
    box.refuses(BAD_DATA, "quickstart", "single", "--encoder", CLIP, naming="single: only one class has pictures")
    box.write("single/b/x.png", box.read(paths[1]))
    box.refuses(BAD_DATA, "quickstart", "single", "--encoder", CLIP, naming="every class has a single picture")
    box.refuses(BAD_DATA, "quickstart", "photos/a", "--encoder", CLIP, naming=["photos/a: no class folders", "--labels"])
    box.refuses(BAD_DATA, "quickstart", paths[0], "--encoder", CLIP, naming=[paths[0], "no class folders"])
    box.refuses(IO, "quickstart", "gone", "--encoder", CLIP, naming="gone")
    box.refuses(USAGE, "quickstart", "photos", naming="--encoder")
    box.refuses(USAGE, "quickstart", "photos", "--encoder", TEXT, "-o", "t", naming="no image tower")
    box.refuses(IO, "quickstart", "photos", "--encoder", CLIP, "-o", box.write("file", "x"), naming="file: is not a folder")
    box.refuses(IO, "quickstart", "photos", "--encoder", CLIP, "-o", "gone/out", naming="gone/out")
    os.mkdir(box.path("empty"))
    box.refuses(BAD_DATA, "quickstart", "empty", "--encoder", CLIP, naming="empty: no JPEG, PNG or WebP picture")
    for name in os.listdir(box.path("photos/a")):
        box.write(f"photos/a/{name}", "nothing")
    result = box.run("quickstart", "photos", "--encoder", CLIP, "-o", "bad")
    equal(result.status, BAD_DATA, f"{result}")
    box.refuses(IO, "quickstart", "photos", "--encoder", CLIP, "--skip-bad", "--templates", "gone", "-o", "bad", naming="gone")
    check(not os.path.exists(box.path("bad")), "no empty folder, and no pictures before a mistake")
    result = box.works("quickstart", "photos", "--encoder", CLIP, "--skip-bad", "-o", "bad")
    check("left out 5 pictures that cannot be read" in result.err, f"{result}")
    info = json.loads(box.works("info", "--json", "bad/model.safetensors").out)
    equal(info["classes"], 4, "a class that cannot be read stays one")


@test
def awkward_names(box):
    photos(box, "my photos", ["it's, a <b>", "æøå\u200d", "a\tb"], 4)
    result = box.works("quickstart", "my photos", "--encoder", CLIP)
    check("'my photos-koofu/model.safetensors'" in result.out, result.out)
    check(b"it's, a <b>" not in box.read("my photos-koofu/report.html"), "no text of others as HTML")


@test
def what_can_be_seen_before_the_work(box):
    photos(box, "photos", ["ant", "owl"], 3)
    os.makedirs(box.path("out/model.safetensors"))
    box.refuses(IO, "quickstart", "photos", "--encoder", CLIP, "-o", "out", naming="out/model.safetensors")
    equal(os.listdir(box.path("out")), ["model.safetensors"], "nothing was embedded")
    photos(box, "numbers", ["1", "2"], 3)
    box.refuses(IO, "quickstart", "numbers", "--encoder", "nowhere", "--templates", "none.txt", naming="none.txt")
    # Two classes are needed, which is checked before the encoder is loaded.
    photos(box, "one", ["ant"], 3)
    box.refuses(BAD_DATA, "quickstart", "one", "--encoder", "nowhere", naming="one: only one class has pictures")
    photos(box, "singles", ["ant", "owl"], 1)
    box.refuses(BAD_DATA, "quickstart", "singles", "--encoder", "nowhere", naming="every class has a single picture")


# --- where it writes ------------------------------------------------------------------------------


@test
def nothing_is_written_among_the_pictures(box):
    photos(box, "in/photos", ["ant", "owl"], 3)
    before = [name for name in sorted(box.files()) if name.startswith("in/photos/")]
    box.works("quickstart", ".", "--encoder", CLIP, cwd="in/photos")
    equal(sorted(os.listdir(box.path("in"))), ["photos", "photos-koofu"], "beside the pictures")
    check("Written to ../photos-koofu\n" in box.works("quickstart", "./", "--encoder", CLIP, cwd="in/photos").out, "where")
    out = box.works("quickstart", "..", "--encoder", CLIP, cwd="in/photos/ant").out
    check("Written to ../../photos-koofu\n" in out, out)
    equal(sorted(os.listdir(box.path("in"))), ["photos", "photos-koofu"], "the same folder")
    box.works("quickstart", ".", "--encoder", CLIP, "-o", "../../out", cwd="in/photos")
    os.symlink("in/photos", box.path("link"))
    for folder in ("in/photos", "in/photos/", "in/photos/out", "in/photos/ant", "in/photos/ant/out", "link/out"):
        box.refuses(USAGE, "quickstart", "in/photos", "--encoder", "nowhere", "-o", folder, naming=[folder, "among the pictures"])
        box.refuses(USAGE, "quickstart", "link", "--encoder", "nowhere", "-o", folder, naming=[folder, "among the pictures"])
    box.works("quickstart", "link", "--encoder", CLIP)
    check(os.path.exists(box.path("link-koofu")), "by the name that was given")
    box.works("quickstart", "in/photos", "--encoder", CLIP, "-o", "in/photos-2")  # begins like the folder
    equal([name for name in sorted(box.files()) if name.startswith("in/photos/")], before, "the pictures")


@test
def what_others_made_is_not_replaced(box):
    photos(box, "photos", ["ant", "owl"], 3)
    for name in sorted(FILES):
        box.write(f"other/{name}", "mine")
        box.refuses(USAGE, "quickstart", "photos", "--encoder", "nowhere", "-o", "other", naming=["other: holds", name, "another folder"])
        os.remove(box.path(f"other/{name}"))
    box.write("other/notes.txt", "mine")
    box.works("quickstart", "photos", "--encoder", CLIP, "-o", "other")  # other names do not matter
    equal(set(os.listdir(box.path("other"))), FILES | {"notes.txt"}, "files")
    check("the pictures in photos\n" in box.read("other/about.txt").decode(), "what it is")
    check("replaced" not in box.works("quickstart", "photos", "--encoder", CLIP, "-o", "other").err, "our own")
    photos(box, "more", ["fox", "owl"], 3, seed=5)
    result = box.works("quickstart", "more", "--encoder", CLIP, "-o", "other")
    check("other: replaces what was made from photos" in result.err, f"{result}")
    # A first run that was stopped after the pictures left a folder of ours.
    for name in FILES - {"about.txt", "embeddings.safetensors"}:
        os.remove(box.path(f"other/{name}"))
    box.works("quickstart", "more", "--encoder", CLIP, "-o", "other")


# --- what is finished is not done again -----------------------------------------------------------


@test
def another_title_takes_a_moment(box):
    paths = photos(box, "photos", ["red_ant", "night_owl", "fox"], 8)
    words = ["quickstart", "photos", "--encoder", CLIP, "-o", "out"]
    box.works(*words)
    before = {name: (box.read(f"out/{name}"), os.stat(box.path(f"out/{name}")).st_ino) for name in FILES}
    result = box.works(*words, "--title", "Another")
    check("out/embeddings.safetensors is up to date: 24 pictures, none changed; --no-resume" in result.err, f"{result}")
    for name in ("embeddings.safetensors", "text.safetensors"):
        equal((box.read(f"out/{name}"), os.stat(box.path(f"out/{name}")).st_ino), before[name], f"{name} was not touched")
    equal(box.read("out/model.safetensors"), before["model.safetensors"][0], "the same model from text that was read")
    check(b"Another" in box.read("out/report.html"), "the title")
    # Other templates are other text, the pictures stay; without text the image tower is the same.
    box.write("templates.txt", "a {}\n")
    result = box.works(*words, "--templates", "templates.txt")
    check("up to date" in result.err, f"{result}")
    check(box.read("out/text.safetensors") != before["text.safetensors"][0], "other text")
    check("up to date" in box.works(*words, "--no-text").err, "without text")
    # One more picture, and everything is made again.
    box.write("photos/fox/new.png", box.read(paths[0]))
    box.write("photos/fox/newer.png", png(bytes(range(192)), 8, 8))
    result = box.works(*words)
    check("25 pictures were taken from out/embeddings.safetensors as it was" in result.err, f"{result}")
    check("pictures" not in box.works(*words, "--no-resume").err, "everything anew")
    # Text that is damaged, or not koofu's, is made again.
    text = box.read("out/text.safetensors")
    for content in (b"x", text[:-1]):
        box.write("out/text.safetensors", content)
        box.works(*words)
        equal(box.read("out/text.safetensors"), text, "made again")
