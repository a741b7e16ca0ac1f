"""--names: what to call classes for people."""

import json
import re

from files import npy
from harness import BAD_DATA, check, equal, test

LABELS = ["n1", "n2", "n3", "n4"]


def make(box):
    rows = [[float(4 * (k == d)) + 0.1 * ((i * 7 + d * 3) % 5) for d in range(6)] for k in range(4) for i in range(6)]
    box.write("x.npy", npy(rows))
    box.write("y.txt", "".join(f"{LABELS[i // 6]}\n" for i in range(24)))
    box.works("fit", "x.npy", "--labels", "y.txt", "-o", "m.safetensors", "-q")


def names_of(box, *words):
    """The names of the four classes, by class, as JSON has them; classes stay labels."""
    lines = json.loads(box.works("classify", "m.safetensors", "x.npy", "--json", *words).out)["answers"]
    found = {}
    for line in lines:
        check(set(line["classes"]) == set(LABELS), f"classes are labels: {line}")
        found |= dict(zip(line["classes"], line["names"]))
    return [found[label] for label in LABELS]


@test
def forms(box):
    make(box)
    wanted = ["tench", "crane (n2)", "crane (n3)", "black swan, big"]
    box.write("a.txt", "n3\tcrane, Grus\nn0\tother\nn1\ttench\nn2\tcrane\nn4\t'black swan, big'\n")
    box.write("b.csv", 'label,name\nn3,crane\nn1,tench\nn2,crane\nn4,"black swan, big"\n')
    box.write("c.json", json.dumps({"n4": "black swan, big", "n2": "crane", "n3": "crane", "n1": "tench", "n9": "x"}))
    box.write("d.txt", "tench, Tinca tinca\ncrane\ncrane\n'black swan, big'\n")
    box.write("odd.txt", "".join(f"{'dog, big' if i < 6 else LABELS[i // 6]}\n" for i in range(24)))
    box.works("fit", "x.npy", "--labels", "odd.txt", "-o", "odd.safetensors", "-q")
    box.write("odd.csv", '"dog, big","a ""dog"", big"\n')
    odd = json.loads(box.works("classify", "odd.safetensors", "x.npy", "--names", "odd.csv", "--json", "--top", 1).out)
    equal((odd["answers"][0]["classes"], odd["answers"][0]["names"]), (["dog, big"], ['a "dog", big']), "quotation marks of a .csv")
    for name in ("a.txt", "b.csv", "c.json", "d.txt"):
        equal(names_of(box, "--names", name), wanted, name)
    box.write("part.txt", "n3\tcrane\n")
    equal(names_of(box, "--names", "part.txt"), ["n1", "n2", "crane", "n4"], "classes without a name")
    said = box.works("classify", "m.safetensors", "x.npy", "--names", "part.txt").err
    check("part.txt: does not name 3 of the 4 classes, such as 'n1'" in said, said)


@test
def refused(box):
    make(box)
    for name, text, naming in (("a.txt", "tench\ncrane\n", "has 2 names for 4 classes"), ("b.txt", "n1\ttench\ncrane\n", "line 2 has no tab"),
                               ("c.txt", "n7\ttench\n", "names none of the 4 classes"), ("d.txt", "n1\ta\nn1\tb\n", "line 2 repeats"),
                               ("e.json", '{"n1": 3}', "the name of 'n1'"), ("f.json", "[]", "object"), ("g.txt", "", "is empty"),
                               ("h.csv", "n1,a\nn2\n", "line 2 has 1 field")):
        box.write(name, text)
        for words in (["classify", "m.safetensors", "x.npy"], ["report", "x.npy", "--labels", "y.txt", "-o", "page.html"]):
            box.refuses(BAD_DATA, *words, "--names", name, naming=[name, naming])


@test
def tables(box):
    make(box)
    box.write("n.txt", "n1\ttench\nn2\tcrane\nn3\tcrane\n")
    plain = box.works("classify", "m.safetensors", "x.npy", "--top", 2).out.splitlines()
    named = box.works("classify", "m.safetensors", "x.npy", "--top", 2, "--names", "n.txt").out.splitlines()
    equal(named[0].split("\t"), ["row", "class1", "name1", "cosine1", "class2", "name2", "cosine2"], "the columns")
    words = {"n1": "tench", "n2": "crane (n2)", "n3": "crane (n3)", "n4": "n4"}
    for one, two in zip(plain[1:], named[1:]):
        cells = two.split("\t")
        equal([cells[0], *cells[1::3], *cells[3::3]], [one.split("\t")[i] for i in (0, 1, 3, 2, 4)], "the rest is the same")
        equal([words[label] for label in cells[1::3]], cells[2::3], "names")
    box.works("classify", "m.safetensors", "x.npy", "--names", "n.txt", "-o", "a.parquet", "-q")
    box.works("index", "x.npy", "--labels", "y.txt", "-o", "g.safetensors", "-q")
    voted = box.works("classify", "g.safetensors", "x.npy", "--names", "n.txt", "--top", 1, "-k", 3).out.splitlines()
    equal(voted[7].split("\t")[1:3], ["n2", "crane (n2)"], "with votes")


@test
def numbers(box):
    """Classes without names are called by number."""
    make(box)
    box.write("y.txt", "".join(f"{i // 6}\n" for i in range(24)))
    box.write("y.npy", npy([i // 6 for i in range(24)], "<i4"))
    box.works("fit", "x.npy", "--labels", "y.npy", "-o", "m.safetensors", "-q")
    box.write("n.txt", "tench\ncrane\ncrane\nswan\n")
    box.write("n.json", '{"0": "tench", "2": "crane"}')
    lines = json.loads(box.works("classify", "m.safetensors", "x.npy", "--names", "n.txt", "--json", "--top", 1).out)["answers"]
    equal({line["classes"][0]: line["names"][0] for line in lines}, {0: "tench", 1: "crane (1)", 2: "crane (2)", 3: "swan"}, "in their order")
    lines = json.loads(box.works("classify", "m.safetensors", "x.npy", "--names", "n.json", "--json", "--top", 1).out)["answers"]
    equal({line["classes"][0]: line["names"][0] for line in lines}, {0: "tench", 1: 1, 2: "crane", 3: 3}, "by number")


@test
def report(box):
    make(box)
    box.write("n.txt", "n1\ttench <b>\nn2\tcrane\nn3\tcrane\n")
    words = ["report", "x.npy", "--labels", "y.txt", "--test", "x.npy", "--test-labels", "y.txt", "-q"]
    box.works(*words, "-o", "plain.html")
    box.works(*words, "--names", "n.txt", "-o", "named.html")
    page = box.read("named.html").decode()
    for wanted in ("tench &lt;b&gt;", "crane (n2)", "crane (n3)", ">n4<"):
        check(wanted in page, f"{wanted} is not in the page")
    check(not re.search(r">n[123]<", page) and "tench <b>" not in page, "labels are shown, or names are not escaped")
    box.works("fit", "x.npy", "--labels", "y.txt", "-o", "m.safetensors", "-q")
    box.works(*words, "--model", "m.safetensors", "--names", "n.txt", "-o", "given.html")
    check("crane (n3)" in box.read("given.html").decode(), "with a model")


@test
def prompts_read_the_same_files(box):
    box.write("ids.txt", "n2\nn1\n")
    box.write("n.json", '{"n1": "crane, big", "n2": "swan"}')
    box.write("n.csv", 'n1,"crane, big"\nn2,swan\n')
    for name in ("n.json", "n.csv"):
        out = box.works("prompts", "--classes", "ids.txt", "--names", name, "--templates", "builtin1").out
        equal(out, "image of swan\nimage of crane, big\n", name)
    box.write("n.json", '{"n1": "crane"}')
    box.refuses(BAD_DATA, "prompts", "--classes", "ids.txt", "--names", "n.json", "--templates", "builtin1", naming=["n.json", "'n2'"])
