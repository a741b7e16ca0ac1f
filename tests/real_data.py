"""Real CLIP embeddings: the accuracies of an independent float64 program, to the last digit given.

usage: real_data.py KOOFU FOLDER

The folder holds embeddings/NAME_x.npy and NAME_y.npy; where it is absent the test is left out.
"""

import json
import os
import subprocess
import sys
import tempfile

# training set, test set, lambda, raw top-1, raw top-5, Koo-Fu top-1, Koo-Fu top-5
SETS = [
    ("imagenet1k_vitb32_4shot", "imagenet1k_vitb32_1plus2shot", "0.465696", .4710, .7290, .5483, .8117),
    ("oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test", "0.180928", .7498, .9749, .8664, .9956),
    ("caltech101_vitb32_16shot", "caltech101_vitb32_test", "0.14994", .9136, .9895, .9424, .9911),
    ("oxford_flowers_vitb32_16shot", "oxford_flowers_vitb32_test", "0.0808964", .9233, .9919, .9626, .9951),
    ("dtd_vitb32_val", "dtd_vitb32_test", "0.162344", .6330, .8676, .6944, .9048),
]
# dimensions and top-1 on the first set
REDUCED = [(384, .5537), (256, .5567), (128, .5570), (64, .5267), (32, .4333)]


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

    def evaluate(train, test, options, work):
        model = os.path.join(work, "model.safetensors")
        x = os.path.join(embeddings, train)
        subprocess.run([koofu, "fit", x + "_x.npy", "--labels", x + "_y.npy", "-q", "-o", model, *options],
                       check=True)
        x = os.path.join(embeddings, test)
        run = subprocess.run([koofu, "eval", model, x + "_x.npy", "--labels", x + "_y.npy", "--json"],
                             check=True, stdout=subprocess.PIPE)
        return json.loads(run.stdout)

    with tempfile.TemporaryDirectory() as work:
        for train, test, lam, raw1, raw5, top1, top5 in SETS:
            r = evaluate(train, test, ["--lambda", lam], work)
            for what, got, want in (("raw top-1", "raw_top1", raw1), ("raw top-5", "raw_top5", raw5),
                                    ("Koo-Fu top-1", "top1", top1), ("Koo-Fu top-5", "top5", top5)):
                check(f"{test} {what}", r[got], want, r["n"])
        train, test, lam = SETS[0][:3]
        for dim, top1 in REDUCED:
            r = evaluate(train, test, ["--lambda", lam, "--dim", str(dim)], work)
            check(f"{test} top-1 at {dim} dimensions", r["top1"], top1, r["n"])
    print(f"{passed} passed, {failed} failed")
    return 1 if failed else 0


sys.exit(main())
