"""Zero-shot classification of real CLIP embeddings: the accuracies of an independent float64 program, and what each
prompt strategy makes of the real lists of names.

usage: zero_shot.py KOOFU FOLDER

The folder holds embeddings/, imagenet/ and wordnet/; where it is absent the test is left out.
"""

import json
import os
import subprocess
import sys
import tempfile

RAW = .6107
# multiple of the mean eigenvalue, accuracy without centring, with each modality centred on its own
# mean
WHITENED = [("0.1x", .0077, .4987), ("1x", .3973, .5787), ("10x", .6137, .5937)]
# dimensions at 0.3x, without centring: the paper's recovery; with centring
REDUCED = [(512, .0823, .5513), (384, .3757, .5610), (256, .4773, .5543), (192, .4933, .5390), (128, .4627, .5147)]


def main():
    koofu, folder = sys.argv[1:3]
    if not os.path.isdir(os.path.join(folder, "embeddings")):
        print(f"left out: there is no folder {folder}")
        return 77
    failed = 0

    def check(ok, what):
        nonlocal failed
        print(f"{'ok  ' if ok else 'FAIL'} {what}")
        failed += not ok

    def near(what, got, want, n=3000):
        """Equal in the digits given, or one row away (a tie that rounding breaks)."""
        check(abs(got - want) <= 0.00005 + 1.0 / n + 1e-12, f"{what:50} {got:.4f}  reference {want:.4f}")

    def run(*arguments):
        return subprocess.run([koofu, *map(str, arguments)], check=True, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, universal_newlines=True)

    def file(*parts):
        return os.path.join(folder, *parts)

    def rows(name):
        return [file("embeddings", f"imagenet1k_vitb32_{name}_x.npy"),
                "--labels", file("embeddings", f"imagenet1k_vitb32_{name}_y.npy")]

    def evaluate(model, text, *words):
        return json.loads(run("eval", model, *rows("1plus2shot"), "--text", text, "--json", *words).stdout)

    def check_accuracies(work):
        text, model = (os.path.join(work, name) for name in ("text.safetensors", "m.safetensors"))
        run("text-prototypes", file("embeddings", "imagenet1k_vitb32_text_photo_of_a.npy"), "--per-class", 1, "-o", text)
        for lam, none, modality in WHITENED:
            run("fit", *rows("4shot"), "--method", "paper", "--lambda", lam, "-o", model)
            result = evaluate(model, text)
            near("raw", result["raw_text_top1"], RAW)
            near(f"{lam}, each modality centred", result["text_top1"], modality)
            near(f"{lam}, no centring", evaluate(model, text, "--text-centre", "none")["text_top1"], none)
        for dim, none, modality in REDUCED:
            run("fit", *rows("4shot"), "--method", "paper", "--lambda", "0.3x", "--dim", dim, "-o", model)
            result = evaluate(model, text)
            near(f"0.3x, {dim} dimensions, each modality centred", result["text_top1"], modality)
            near(f"0.3x, {dim} dimensions, no centring", evaluate(model, text, "--text-centre", "none")["text_top1"], none)
            if dim == 512:
                check(result["text_top1"] >= .55, "0.3x as it comes: at least 0.55")

    def check_search(work):
        """Text as queries of galleries, less its mean: a model does not make it worse than the original space."""
        model, raw, mapped = (os.path.join(work, name) for name in ("m.safetensors", "raw.safetensors", "mapped.safetensors"))
        text, other = (file("embeddings", f"imagenet1k_vitb32_text_{name}.npy") for name in ("photo_of_a", "v1"))

        def hits(gallery, *words):
            answers = json.loads(run("search", gallery, text, "-k", 1, "--json", *words).stdout)["answers"]
            return sum(a["neighbours"][0]["label"] == a["query"] for a in answers)
        for name, want in (("1plus2shot", 647), ("4shot", 660)):
            run("index", *rows(name), "-o", raw)
            original = hits(raw, "--text-queries")
            check(abs(original - want) <= 1, f"text finds its class in {name}: {original} of 1,000, reference {want}")
            for words in ("--method paper --centre none", "--method paper --centre mean", "--method shrunk"):
                run("fit", *rows("4shot"), *words.split(), "-o", model)
                run("index", *rows(name), "--model", model, "-o", mapped)
                plain, own, others = hits(mapped), hits(mapped, "--text-queries"), hits(mapped, "--text-queries", "--text-mean", other)
                check(plain < original <= min(own, others), f"in Koo-Fu's space, {words}: {plain}; less its mean {own}, less another {others}")

    def check_prompts():
        """The paper's synset, synset_7 and mod_7."""
        with open(file("wordnet", "node_names.txt"), encoding="utf-8") as names:
            first = {line.split("\t")[0]: line.split("\t")[1].split(",")[0].strip() for line in names}
        with open(file("wordnet", "imagenet_synsets.txt"), encoding="utf-8") as ids:
            wanted = [first[line.strip()] for line in ids]
        synset = ["prompts", "--classes", file("wordnet", "imagenet_synsets.txt"), "--names", file("wordnet", "node_names.txt")]
        check(run(*synset, "--templates", "builtin1").stdout.splitlines() == [f"image of {name}" for name in wanted],
              "synset: image of the first name, 1,000 classes")
        seven = run(*synset, "--templates", "builtin7").stdout.splitlines()
        check(len(seven) == 7000 and seven[7:14:3] == [f"itap of a {wanted[1]}.", f"a photo of the large {wanted[1]}.",
                                                       f"a photo of the small {wanted[1]}."], "synset_7")
        mod = ["prompts", "--classes", file("imagenet", "modified_classnames.txt"), "--templates"]
        refused = subprocess.run([koofu, *mod, "builtin7"], stderr=subprocess.PIPE, universal_newlines=True)
        check(refused.returncode == 3 and "line 745 repeats the class name 'missile' of line 658" in refused.stderr,
              "mod_7: two pairs of classes have one name, which is said")
        lines = run(*mod, "builtin7", "--repeats").stdout.splitlines()
        clean = not any(c in line for line in lines for c in "#\"")
        check(len(lines) == 7000 and clean and lines[445 * 7] == "itap of a bikini.", "mod_7: comments and marks are gone")
        with open(file("imagenet", "imagenet_classes_templates.json"), encoding="utf-8") as known:
            openai = json.load(known)
        eighty = run(*mod, "builtin80", "--repeats").stdout.splitlines()
        check(eighty[:80] == [t.replace("{}", "tench") for t in openai["templates"]], "OpenAI's 80 templates")

    with tempfile.TemporaryDirectory() as work:
        check_accuracies(work)
        check_search(work)
    check_prompts()
    return 1 if failed else 0


sys.exit(main())
