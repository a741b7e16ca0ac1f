"""Wrong command lines: one line, status 2, and a suggestion where one is near."""

from harness import USAGE, check, equal, test
from files import data_set


@test
def unknown_command(box):
    box.refuses(USAGE, "fitt", naming=["'fitt'", "did you mean 'fit'", "see 'koofu --help'"])
    box.refuses(USAGE, "classfy", naming="did you mean 'classify'")
    box.refuses(USAGE, "frobnicate", naming="'frobnicate'")
    box.refuses(USAGE, "--frobnicate", naming="'--frobnicate'")
    box.refuses(USAGE, "help", "stat", naming="did you mean 'stats'")
    for word in ("knn", "nn"):
        box.refuses(USAGE, word, naming="did you mean 'search'")
    for words in (["-q", "index", "x"], ["--threads", "3", "fit"]):
        box.refuses(USAGE, *words, naming=[f"'{words[0]}'", "options go after the command"])


@test
def unknown_option(box):
    box.refuses(USAGE, "fit", "x", "--lamda", "3", naming=["--lamda", "did you mean '--lambda'", "see 'koofu fit --help'"])
    box.refuses(USAGE, "fit", "x", "--skip-unlabeled", naming="did you mean '--skip-unlabelled'")
    box.refuses(USAGE, "fit", "x", "-Z", naming="'-Z'")
    box.refuses(USAGE, "fit", "x", "-qZ", naming="'-Z'")
    for word in ("--k", "--topk", "--top-k", "--top"):
        box.refuses(USAGE, "search", "g", "q", word, "3", naming=f"no option '{word}' (did you mean '-k'?)")
    box.refuses(USAGE, "search", "g", "q", "--neighbors", "3", naming="did you mean '--neighbours'")
    box.refuses(USAGE, "classify", "m", "x", "--topk", "3", naming="did you mean '--top'")


@test
def options_given_twice(box):
    box.write("x.safetensors", data_set())
    for words, option in ((["search", "g", "q", "-k", 1, "-k", 2], "-k"), (["search", "g", "q", "-k", 1, "--neighbours=1"], "--neighbours"),
                          (["eval", "m", "q", "-k", "1,2", "-k", 2], "-k"), (["index", "x", "--ids", "a", "--ids", "b", "-o", "o"], "--ids"),
                          (["fit", "x", "-o", "a", "-o", "b"], "-o"), (["fit", "x", "-o", "a", "--output", "a"], "--output"),
                          (["eval", "m", "x", "--metric", "cosine", "--metric", "cosine"], "--metric"),
                          (["eval", "m", "x", "--temperature", 1, "--temperature", 2], "--temperature")):
        box.refuses(USAGE, *words, naming=f": {option} is given twice")
    box.works("info", "x.safetensors", "-q", "-q", "-v", "-v", "--json", "--json")


@test
def missing_things(box):
    for command in ("convert", "info", "stats", "merge", "fit", "transform", "classify", "eval", "add-class", "index",
                    "search"):
        box.refuses(USAGE, command, naming=["missing", f"see 'koofu {command} --help'"])
    for words in (["convert", "x"], ["stats", "x"], ["merge", "x"], ["fit", "x"], ["transform", "m", "x"],
                  ["add-class", "m", "n", "x"], ["index", "x"], ["synth"]):
        box.refuses(USAGE, *words, naming="option -o")
    for words in (["classify", "m"], ["eval", "m"], ["transform", "m"], ["add-class", "m", "n"], ["search", "g"]):
        box.refuses(USAGE, *words, naming="missing")
    box.refuses(USAGE, "classify", "m", naming=": the data to classify are missing")
    box.refuses(USAGE, "classify", "m", "--gallery", "g", naming=": the data to classify are missing")
    box.refuses(USAGE, "transform", "m", "-o", "o.npy", naming=": the data to map are missing")
    box.refuses(USAGE, "fit", "x", "-o", naming="-o needs a value")
    box.refuses(USAGE, "fit", "x", "--lambda", "--dim", "3", "-o", "m", naming="--lambda needs a value")
    box.refuses(USAGE, "demo", "x", naming="'x'")
    box.refuses(USAGE, "fit", "", "-o", "m", naming="empty")
    box.refuses(USAGE, "fit", "x", "-o", "", naming="empty")


@test
def numbers_are_strict(box):
    for text in ("3x", "", "0", "-1", "65537", "1e3", "99999999999999999999", " 3", "+3", "0x10"):
        box.refuses(USAGE, "fit", "x", "-o", "m.safetensors", f"--dim={text}", naming=["--dim", "from 1 to 65536", repr(text)])
    for text in ("0", "1025", "two"):
        box.refuses(USAGE, "info", "x", "--threads", text, naming=["--threads", "from 1 to 1024"])
    box.refuses(USAGE, "info", "x", "--quiet=1", naming="--quiet takes no value")


@test
def lambda_is_strict(box):
    box.write("x.safetensors", data_set())
    for text in ("-1", "nan", "inf", "1y", "x", "0.3xx", " 1"):
        box.refuses(USAGE, "fit", "x.safetensors", "-o", "m.safetensors", "--lambda", text, naming="lambda")


@test
def choices_are_strict(box):
    box.refuses(USAGE, "convert", "x", "-o", "y.safetensors", "--dtype", "f64", naming=["--dtype", "f32, f16 or bf16", "'f64'"])
    box.refuses(USAGE, "eval", "m", "x", "--metric", "cos", naming=["--metric", "cosine or euclidean"])
    for text, meant in (("l2", "euclidean"), ("ip", "inner"), ("dot", "inner"), ("cos", "cosine")):
        box.refuses(USAGE, "index", "x", "-o", "g.safetensors", "--metric", text, naming=[f"not '{text}' (did you mean '{meant}'?)"])
    box.refuses(USAGE, "fit", "x", "-o", "m.safetensors", "--centre", "median", naming="--centre")
    box.refuses(USAGE, "info", "x", "--isa", "sse9", naming=["--isa", "'sse9'"])


@test
def environment(box):
    box.write("x.safetensors", data_set())
    box.refuses(USAGE, "info", "x.safetensors", env={"KOOFU_THREADS": "many"}, naming="KOOFU_THREADS")
    box.refuses(USAGE, "info", "x.safetensors", env={"KOOFU_ISA": "sse9"}, naming="KOOFU_ISA")
    used = box.works("info", "x.safetensors", "-v", env={"KOOFU_THREADS": "3", "KOOFU_ISA": "plain"})
    check("3 threads" in used.err and "plain" in used.err, f"the environment is not heard: {used}")
    used = box.works("info", "x.safetensors", "-v", "--threads", "1", "--isa=plain",
                     env={"KOOFU_THREADS": "many", "KOOFU_ISA": "sse9"})
    check("1 thread," in used.err and "plain" in used.err, f"the options do not win: {used}")
    box.works("info", "x.safetensors", env={"KOOFU_THREADS": "", "KOOFU_ISA": ""})


@test
def options_in_all_forms(box):
    box.write("-x.safetensors", data_set())
    wanted = box.works("info", "./-x.safetensors", "--json").out.replace("./-x", "-x")
    equal(box.works("info", "--json", "--", "-x.safetensors").out, wanted, "-- ends the options")
    box.works("stats", "./-x.safetensors", "-qos.safetensors")
    check(box.read("s.safetensors"), "-o with its value attached")


@test
def options_that_do_not_fit(box):
    box.write("x.safetensors", data_set())
    box.works("stats", "x.safetensors", "-o", "s.safetensors")
    box.refuses(USAGE, "stats", "x.safetensors", "-o", "t.safetensors", "--exponent", "3", naming="--no-normalize")
    box.refuses(USAGE, "stats", "x.safetensors", "-o", "t.safetensors", "--skip-unknown", naming="--classes")
    box.refuses(USAGE, "fit", "s.safetensors", "-o", "m.safetensors", "--skip-bad", naming=["s.safetensors", "statistics"])
    box.refuses(USAGE, "fit", "x.safetensors", "-o", "m.safetensors", "--dim", "9", naming="dim")
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    box.refuses(USAGE, "classify", "m.safetensors", "x.safetensors", "--top", "4", naming="top")
    box.refuses(USAGE, "transform", "m.safetensors", "x.safetensors", "-o", "y.txt", naming="y.txt")
    for output in ("y.npy", "y", "y.safetensors.txt"):
        box.refuses(USAGE, "convert", "x.safetensors", "-o", output, naming=[f"{output}:", ".safetensors"])
        box.refuses(USAGE, "synth", "--classes", 3, "--dim", 8, "-o", output, naming=[f"{output}:", ".safetensors"])
        box.refuses(USAGE, "synth", "--classes", 3, "--dim", 8, "-o", "y.safetensors", "--text", output,
                    naming=[f"{output}:", ".safetensors"])
    box.refuses(USAGE, "transform", "m.safetensors", "x.safetensors", "-o", "y.npy", "--dtype", "bf16", naming="bf16")
