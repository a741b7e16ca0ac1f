"""ReaL and the cleaner validation set, and class sets in WordNet: koofu against an independent count.

usage: real_labels.py KOOFU FOLDER

A world is made in which the answers of koofu are known: 1000 prototypes, and for each validation image
a row whose five nearest are computed here, in float64. ReaL and cleaner accuracies are then counted here
from the label files, in a few lines that share nothing with koofu, and must agree to the last row. The
groups of class sets are found here by walking the hierarchy from every class, and must be the same lists.

The folder holds imagenet/ and wordnet/; where these are absent the test is left out.
"""

import csv
import json
import os
import subprocess
import sys
import tempfile

IMAGES, CLASSES, DIM = 50000, 1000, 48


def main():
    koofu, folder = sys.argv[1:3]
    imagenet, wordnet = os.path.join(folder, "imagenet"), os.path.join(folder, "wordnet")
    if not (os.path.isdir(imagenet) and os.path.isdir(wordnet)):
        print(f"left out: there are no folders {imagenet} and {wordnet}")
        return 77
    try:
        import numpy as np
    except ImportError:
        print("left out: numpy is not installed")
        return 77
    failed = passed = 0

    def check(what, got, want):
        nonlocal failed, passed
        print(f"{'ok  ' if got == want else 'FAIL'} {what:62} {got}" + ("" if got == want else f", not {want}"))
        passed, failed = passed + (got == want), failed + (got != want)

    def run(*arguments):
        return subprocess.run([koofu, *arguments], check=True, stdout=subprocess.PIPE).stdout

    # --- labels -----------------------------------------------------------------------------------

    def make_world(real, rng):
        """Prototypes, rows, and the five nearest prototypes of each row. Rows whose order could depend
        on rounding are drawn again."""
        unit = lambda x: x / np.linalg.norm(x, axis=1, keepdims=True)
        prototypes = unit(rng.standard_normal((CLASSES, DIM))).astype(np.float32)
        wanted = np.array([(rng.choice(labels) if labels and rng.random() < .7 else rng.integers(CLASSES))
                           for labels in real])
        rows = np.empty((IMAGES, DIM), np.float32)
        best = np.empty((IMAGES, 5), np.int64)
        left = np.arange(IMAGES)
        while len(left):
            noise = rng.standard_normal((len(left), DIM)) / np.sqrt(DIM)
            x = (prototypes[wanted[left]] + 2 * noise).astype(np.float32)
            cosine = unit(x.astype(np.float64)) @ unit(prototypes.astype(np.float64)).T
            first = np.argpartition(-cosine, 6, axis=1)[:, :6]
            value = np.take_along_axis(cosine, first, 1)
            order = np.argsort(-value, axis=1)
            value = np.take_along_axis(value, order, 1)
            safe = (value[:, :-1] - value[:, 1:]).min(axis=1) > 1e-5
            rows[left[safe]] = x[safe]
            best[left[safe]] = np.take_along_axis(first, order, 1)[safe, :5]
            left = left[~safe]
        return prototypes, rows, best

    def count(best, sets):
        """Rows with a set, and hits among them, first and among five."""
        scored = [(list(answers), right) for answers, right in zip(best, sets) if right]
        return (len(scored), sum(a[0] in right for a, right in scored),
                sum(any(x in right for x in a) for a, right in scored))

    def check_accuracy(what, got, rows, want):
        n, top1, top5 = want
        check(f"{what}: rows", got["n"], n)
        check(f"{what}: rows left out", got["n_excluded"], rows - n)
        for space in ("", "raw_"):
            check(f"{what}: {space}top-1", round(got[space + "top1"] * got["n"]), top1)
            check(f"{what}: {space}top-5", round(got[space + "top5"] * got["n"]), top5)

    def check_labels(work):
        with open(os.path.join(imagenet, "real.json")) as file:
            real = json.load(file)
        with open(os.path.join(imagenet, "clean_validation.csv"), newline="") as file:
            clean = {int(line["id"][15:23]): [int(x) for x in line["proposed_labels"].split(",") if x.strip()]
                     for line in csv.DictReader(file)}
        check("validation images in ReaL", len(real), IMAGES)
        prototypes, rows, best = make_world(real, np.random.default_rng(5))
        path = lambda name: os.path.join(work, name)
        np.save(path("prototypes.npy"), prototypes)
        np.save(path("y.npy"), np.arange(CLASSES))
        # One row a class: no scatter within, so that the map is a rotation.
        run("fit", path("prototypes.npy"), "--labels", path("y.npy"), "--lambda", "1", "--method", "paper", "-q",
            "-o", path("m.safetensors"))
        np.save(path("all.npy"), rows)
        evaluate = lambda data, *options: json.loads(run("eval", path("m.safetensors"), path(data), "--json", *options))

        got = evaluate("all.npy", "--truth", os.path.join(imagenet, "real.json"))
        check_accuracy("ReaL, in order", got, IMAGES, count(best, [set(x) for x in real]))

        # A subset of the images, in another order, by ids.
        some = np.random.default_rng(6).permutation(IMAGES)[:20000]
        np.save(path("some.npy"), rows[some])
        with open(path("ids.txt"), "w") as file:
            for at, i in enumerate(some):
                file.write(f"{'val/' if at % 2 else ''}ILSVRC2012_val_{i + 1:08d}{'.JPEG' if at % 3 else ''}\n")
        got = evaluate("some.npy", "--truth", os.path.join(imagenet, "real.json"), "--ids", path("ids.txt"))
        check_accuracy("ReaL, by ids", got, len(some), count(best[some], [set(real[i]) for i in some]))
        cleaner = os.path.join(imagenet, "clean_validation.csv")
        got = evaluate("some.npy", "--truth", cleaner, "--ids", path("ids.txt"))
        check_accuracy("cleaner, a part", got, len(some),
                       count(best[some], [set(clean.get(i + 1, [])) for i in some]))
        with open(path("ids.txt"), "w") as file:
            file.writelines(f"ILSVRC2012_val_{i + 1:08d}.JPEG\n" for i in range(IMAGES))
        got = evaluate("all.npy", "--truth", cleaner, "--ids", path("ids.txt"))
        check_accuracy("cleaner", got, IMAGES, count(best, [set(clean.get(i + 1, [])) for i in range(IMAGES)]))

    # --- class sets -------------------------------------------------------------------------------

    def read_list(path):
        with open(path) as file:
            return file.read().split("\n")[:-1]

    def check_groups(work):
        parents = {}
        for line in read_list(os.path.join(wordnet, "class_hierarchy.txt")):
            parent, child = line.split()
            parents.setdefault(child, set()).add(parent)

        def ancestors(of):
            found, left = set(), [of]
            while left:
                new = parents.get(left.pop(), set()) - found
                found |= new
                left += new
            return found

        first = read_list(os.path.join(wordnet, "imagenet_synsets.txt"))
        for name in ("imagenet12k_synsets", "imagenet21k_miil_w21_synsets", "imagenet22k_synsets"):
            second = read_list(os.path.join(wordnet, name + ".txt"))
            above = {c: ancestors(c) for c in set(first) | set(second)}
            one = set(first)
            up = set().union(*(above[c] for c in first))
            inner = set().union(*above.values())

            def group(c):
                if c in one:
                    return "both" if c in second_set else "only"
                return ("ancestors" if c in up else "descendants" if above[c] & one
                        else "other" if c in inner else "leaves")

            second_set = set(second)
            wanted = {g: [] for g in ("only", "both", "leaves", "ancestors", "descendants", "other")}
            for c in first + [c for c in second if c not in one]:
                wanted[group(c)].append(c)
            prefix = os.path.join(work, name)
            table = json.loads(run("classes", "--hierarchy", os.path.join(wordnet, "class_hierarchy.txt"),
                                   "--set", os.path.join(wordnet, "imagenet_synsets.txt"),
                                   "--all", os.path.join(wordnet, name + ".txt"),
                                   "--names", os.path.join(wordnet, "node_names.txt"), "-o", prefix, "--json"))
            lists = {g: read_list(f"{prefix}-{g}.txt") for g in wanted}
            for g, classes in wanted.items():
                check(f"{name}: {g}", table[g], len(classes))
                check(f"{name}: {g}, as a list", lists[g] == classes, True)
            members = [c for classes in lists.values() for c in classes]
            check(f"{name}: disjoint", len(set(members)), len(members))
            check(f"{name}: they cover both lists", set(members) == one | second_set, True)
            exclusive = set(read_list(f"{prefix}-exclusive.txt"))
            check(f"{name}: exclusive", exclusive == set(lists["only"] + lists["both"] + lists["leaves"]), True)
            check(f"{name}: exclusive, pairs of ancestor and descendant",
                  sum(len(above[c] & exclusive) for c in exclusive), 0)

    with tempfile.TemporaryDirectory() as work:
        check_labels(work)
        check_groups(work)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
