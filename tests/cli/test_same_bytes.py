"""The same input gives the same bytes, however it is cut, ordered and computed."""

import json
import random

from harness import check, equal, test
from files import data_set, npy, world

N, NAMES = 420, ["ant", "bee", "cat", "dog", "eel"]


def shards(box, count):
    """The same rows in `count` .npy files with text labels."""
    rows, labels = world(n=N, dim=24, classes=5, seed=3)
    step = N // count
    names = []
    for i in range(count):
        part = slice(i * step, (i + 1) * step if i + 1 < count else N)
        box.write(f"{count}/x{i}.npy", npy(rows[part]))
        box.write(f"{count}/y{i}.txt", "".join(NAMES[k] + "\n" for k in labels[part]))
        names.append((f"{count}/x{i}.npy", f"{count}/y{i}.txt"))
    return names


def words(pairs):
    return [x for x, _ in pairs] + [w for _, y in pairs for w in ("--labels", y)]


@test
def convert_of_any_number_of_shards(box):
    wanted = None
    for count in (1, 2, 7):
        box.works("convert", *words(shards(box, count)), "-o", f"c{count}.safetensors")
        box.works("convert", f"{count}/x*.npy", "--labels", f"{count}/y*.txt", "-o", f"g{count}.safetensors")
        wanted = wanted or box.read(f"c{count}.safetensors")
        equal(box.read(f"c{count}.safetensors") == wanted, True, f"{count} shards")
        equal(box.read(f"g{count}.safetensors") == wanted, True, f"a pattern of {count} shards")


@test
def stats_of_any_shards_in_any_order(box):
    rng = random.Random(5)
    box.works("stats", *words(shards(box, 1)), "-o", "one.safetensors")
    wanted = box.read("one.safetensors")
    for count in (2, 7):
        pairs = shards(box, count)
        for _ in range(3):
            rng.shuffle(pairs)
            box.works("stats", *words(pairs), "-o", "s.safetensors")
            equal(box.read("s.safetensors") == wanted, True, f"{count} shards shuffled")


@test
def merge_in_any_tree(box):
    rng = random.Random(7)
    box.works("stats", *words(shards(box, 1)), "-o", "one.safetensors")
    wanted = box.read("one.safetensors")
    for count in (2, 7):
        parts = []
        for i, pair in enumerate(shards(box, count)):
            box.works("stats", *words([pair]), "-o", f"part{i}.safetensors")
            parts.append(f"part{i}.safetensors")
        for tree in range(4):
            todo = parts[:]
            rng.shuffle(todo)
            step = 0
            while len(todo) > 1:
                taken, todo = todo[:rng.randint(2, len(todo))], todo
                todo = todo[len(taken):]
                name = f"tree{tree}-{step}.safetensors"
                box.works("merge", *taken, "-o", name)
                todo.insert(rng.randint(0, len(todo)), name)
                step += 1
            equal(box.read(todo[0]) == wanted, True, f"{count} parts, tree {tree}")


def instruction_sets(box):
    available = [line.split()[0] for line in box.works("version", "-v").out.splitlines()[1:] if line.endswith(" available")]
    check("plain" in available, "plain is everywhere")
    return available


@test
def any_threads_and_instruction_set(box):
    box.write("x.safetensors", data_set(n=3000, dim=70, classes=7))
    wanted = {}
    for isa in instruction_sets(box):
        for threads in (1, 2, 3, 8):
            how = ["-q", "--isa", isa, "--threads", threads]
            box.works("stats", "x.safetensors", "-o", "s.safetensors", *how)
            box.works("fit", "s.safetensors", "--dim", 33, "-o", "m.safetensors", *how)
            box.works("transform", "m.safetensors", "x.safetensors", "-o", "z.npy", *how)
            got = {name: box.read(name) for name in ("s.safetensors", "m.safetensors", "z.npy")}
            got["classify"] = box.works("classify", "m.safetensors", "x.safetensors", *how).out
            got["eval"] = box.works("eval", "m.safetensors", "x.safetensors", "--json", *how).out
            wanted = wanted or got
            equal([k for k in got if got[k] != wanted[k]], [], f"what differs with {isa}, {threads} threads")


@test
def galleries_with_any_threads_and_instruction_set(box):
    box.write("x.safetensors", data_set(n=3000, dim=70, classes=7))
    box.write("q.npy", npy(world(n=500, dim=70, classes=7, seed=4)[0]))
    box.write("one.npy", npy(world(n=1, dim=70, classes=7, seed=5)[0]))
    box.works("fit", "x.safetensors", "--dim", 33, "-o", "m.safetensors")
    wanted = {}
    for isa in instruction_sets(box):
        for threads in (1, 2, 5):
            how = ["-q", "--isa", isa, "--threads", threads]
            box.works("index", "x.safetensors", "--model", "m.safetensors", "-o", "g.safetensors", *how)
            box.works("search", "g.safetensors", "q.npy", "-k", 20, "-o", "near.npy", *how)
            box.works("search", "g.safetensors", "--itself", "-k", 3, "-o", "itself.safetensors", *how)
            got = {name: box.read(name) for name in ("g.safetensors", "near.npy", "near_scores.npy", "itself.safetensors")}
            got["one query"] = box.works("search", "g.safetensors", "one.npy", "-k", 20, *how).out
            votes = ["--gallery", "g.safetensors", "--weighted"]
            got["classify"] = box.works("classify", "m.safetensors", "q.npy", *votes, *how).out
            got["eval"] = box.works("eval", "m.safetensors", *votes, *how).out
            wanted = wanted or got
            equal([k for k in got if got[k] != wanted[k]], [], f"what differs with {isa}, {threads} threads")


@test
def galleries_of_any_number_of_shards(box):
    wanted = None
    for count in (1, 2, 7):
        box.works("index", *words(shards(box, count)), "-o", f"g{count}.safetensors")
        wanted = wanted or box.read(f"g{count}.safetensors")
        equal(box.read(f"g{count}.safetensors") == wanted, True, f"{count} shards")


@test
def synth_is_the_same_every_time(box):
    how = ["--classes", 30, "--dim", 40, "--per-class", 5]
    box.works("synth", *how, "-o", "a.safetensors", "--text", "ta.safetensors", "--threads", 1, "--isa", "plain")
    box.works("synth", *how, "-o", "b.safetensors", "--text", "tb.safetensors", "--threads", 8)
    equal(box.read("a.safetensors") == box.read("b.safetensors"), True, "rows")
    equal(box.read("ta.safetensors") == box.read("tb.safetensors"), True, "text")
    for more in (["--seed", 1], ["--split", 1]):
        box.works("synth", *how, *more, "-o", "c.safetensors")
        equal(box.read("a.safetensors") == box.read("c.safetensors"), False, f"{more}")
    about = json.loads(box.works("info", "--json", "a.safetensors").out)
    equal((about["rows"], about["dim"], about["classes"]), (150, 40, 30), "shape")
