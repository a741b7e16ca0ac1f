"""Real CLIP embeddings: the accuracies of an independent float64 program, to the last digit given, and
nearest neighbours that equal a brute-force search, row numbers and bits of scores.

usage: real_data.py KOOFU FOLDER

The folder holds embeddings/NAME_x.npy and NAME_y.npy; where it is absent the test is left out.
"""

import json
import os
import subprocess
import sys
import tempfile

# training set, test set, lambda, raw top-1, raw top-5, Koo-Fu top-1, Koo-Fu top-5, raw 1/10/15-NN
SETS = [
    ("imagenet1k_vitb32_4shot", "imagenet1k_vitb32_1plus2shot", "0.465696", .4710, .7290, .5483, .8117,
     (.4023, .3990, .3903)),
    ("oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test", "0.180928", .7498, .9749, .8664, .9956,
     (.6222, .6626, .6607)),
    ("caltech101_vitb32_16shot", "caltech101_vitb32_test", "0.14994", .9136, .9895, .9424, .9911,
     (.9002, .9022, .8905)),
    ("oxford_flowers_vitb32_16shot", "oxford_flowers_vitb32_test", "0.0808964", .9233, .9919, .9626, .9951,
     (.9054, .8944, .8835)),
    ("dtd_vitb32_val", "dtd_vitb32_test", "0.162344", .6330, .8676, .6944, .9048, (.5957, .5957, .5952)),
]
# dimensions, top-1 and 1/10/15-NN on the first set
REDUCED = [(384, .5537, (.4703, .4727, .4610)), (256, .5567, (.4870, .4913, .4760)),
           (128, .5570, (.5080, .4933, .4767)), (64, .5267, (.4807, .4643, .4413)),
           (32, .4333, (.4077, .3863, .3710))]


def canonical(product, dim):
    """The sum over columns as koofu takes it: eight lanes in f64, then a fixed tree. product(i, j) gives
    the products of columns i to j - 1, in the last axis."""
    lane = [0.0] * 8
    for i in range(0, dim, 8):
        part = product(i, min(i + 8, dim))
        for j in range(part.shape[-1]):
            lane[j] = lane[j] + part[..., j]
    return ((lane[0] + lane[4]) + (lane[2] + lane[6])) + ((lane[1] + lane[5]) + (lane[3] + lane[7]))


def brute_force(np, rows, queries, k):
    """By cosine: the canonical dot product over the root of the product of squared lengths."""
    x, q = (a.astype(np.float32).astype(np.float64) for a in (rows, queries))
    x2, q2 = (canonical(lambda i, j: a[:, i:j] * a[:, i:j], a.shape[1]) for a in (x, q))
    score = canonical(lambda i, j: q[:, None, i:j] * x[None, :, i:j], x.shape[1])
    score /= np.sqrt(q2[:, None] * x2)
    best = np.argsort(-score, axis=1, kind="stable")[:, :k]
    return best, np.take_along_axis(score, best, axis=1)


def main():
    koofu, folder = sys.argv[1:3]
    embeddings = os.path.join(folder, "embeddings")
    if not os.path.isdir(embeddings):
        print(f"left out: there is no folder {embeddings}")
        return 77
    failed = passed = 0

    def check(what, got, want, n):
        """Equal in the digits given, or one sample away (a tie that rounding breaks)."""
        nonlocal failed, passed
        ok = abs(got - want) <= 0.00005 + 1.0 / n + 1e-12
        exact = round(got, 4) == want
        print(f"{'ok  ' if ok else 'FAIL'} {what:55} {got:.4f}  reference {want:.4f}"
              f"{'' if exact else '  (one sample)'}")
        passed, failed = passed + ok, failed + (not ok)

    def run(*arguments):
        return subprocess.run([koofu, *arguments], check=True, stdout=subprocess.PIPE).stdout

    def files(name):
        x = os.path.join(embeddings, name)
        return [x + "_x.npy", "--labels", x + "_y.npy"]

    def evaluate(train, test, options, mapped, work):
        """Prototypes, and neighbours in a gallery of the training rows, mapped or raw."""
        model, gallery = (os.path.join(work, name) for name in ("model.safetensors", "gallery.safetensors"))
        run("fit", *files(train), "--method", "paper", "-q", "-o", model, *options)
        run("index", *files(train), "-q", "-o", gallery, *(["--model", model] if mapped else []))
        return json.loads(run("eval", model, *files(test), "--gallery", gallery, "-k", "1,10,15", "--json"))

    def check_neighbours(what, r, wanted):
        for knn, want in zip(r["knn"], wanted):
            check(f"{what} {knn['k']}-NN", knn["top1"], want, r["knn_n"])

    def check_exact(train, test, work):
        nonlocal failed, passed
        try:
            import numpy as np
        except ImportError:
            print("left out: numpy is not there to search by brute force")
            return
        gallery, out = os.path.join(work, "raw.safetensors"), os.path.join(work, "near.npy")
        run("index", files(train)[0], "-q", "-o", gallery)
        rows, queries = (np.load(files(name)[0]) for name in (train, test))
        want = brute_force(np, rows, queries[::97], 15)
        some = os.path.join(work, "some.npy")
        np.save(some, queries[::97])
        for isa in ("plain", "avx2", "avx512", "amx"):
            searched, step = (some, 1) if isa == "plain" else (files(test)[0], 97)  # plain is slow
            if subprocess.run([koofu, "search", gallery, searched, "-k", "15", "-q", "-o", out, "--isa", isa],
                              stderr=subprocess.DEVNULL).returncode == 2:
                print(f"skipped: no {isa} here")
                continue
            got = np.load(out)[::step], np.load(out.replace(".npy", "_scores.npy"))[::step]
            ok = all(np.array_equal(a, b) for a, b in zip(got, want))
            print(f"{'ok  ' if ok else 'FAIL'} {test} neighbours by brute force, {isa}")
            passed, failed = passed + ok, failed + (not ok)

    with tempfile.TemporaryDirectory() as work:
        for train, test, *_ in SETS:
            check_exact(train, test, work)
        for train, test, lam, raw1, raw5, top1, top5, knn in SETS:
            r = evaluate(train, test, ["--lambda", lam], False, work)
            for what, got, want in (("raw top-1", "raw_top1", raw1), ("raw top-5", "raw_top5", raw5),
                                    ("Koo-Fu top-1", "top1", top1), ("Koo-Fu top-5", "top5", top5)):
                check(f"{test} {what}", r[got], want, r["n"])
            check_neighbours(f"{test} raw", r, knn)
        train, test, lam = SETS[0][:3]
        for dim, top1, knn in REDUCED:
            r = evaluate(train, test, ["--lambda", lam, "--dim", str(dim)], True, work)
            check(f"{test} top-1 at {dim} dimensions", r["top1"], top1, r["n"])
            check_neighbours(f"{test} at {dim} dimensions", r, knn)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
