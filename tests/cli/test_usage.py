"""Wrong command lines: one line, status 2, and a suggestion if there is a close match."""

from harness import BAD_DATA, USAGE, check, equal, test
from files import data_set, f32, npy, safetensors, world


@test
def unknown_command(box):
    box.refuses(USAGE, "fitt", naming=["'fitt'", "did you mean 'fit'", "see 'koofu help'"])
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
def the_last_of_repeated_options_wins(box):
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "a.safetensors", "--dim", 5, "--lambda", 3, "--output", "b.safetensors", "--dim=2", "--lambda", "0.5x")
    box.works("fit", "x.safetensors", "-o", "c.safetensors", "--dim", "auto", "--lambda", "0.5x", "--dim", 2)
    equal(box.files(), {"x.safetensors", "b.safetensors", "c.safetensors"}, "what was written")
    equal(box.read("b.safetensors"), box.read("c.safetensors"), "the model with the last dim and lambda")
    eval_k = ["eval", "b.safetensors", "x.safetensors", "--gallery", "g.safetensors", "--json"]
    box.works("index", "x.safetensors", "--model", "b.safetensors", "-o", "g.safetensors")
    equal(box.works(*eval_k, "-k", "1,2,5", "-k", "3").out, box.works(*eval_k, "-k", 3).out, "the last list of numbers")
    by_metric = ["eval", "b.safetensors", "x.safetensors", "--json", "--metric"]
    equal(box.works(*by_metric, "euclidean", "--metric", "cosine").out, box.works(*by_metric, "cosine").out, "the last choice")
    box.refuses(USAGE, "fit", "x.safetensors", "-o", "m", "--dim", "0", "--dim", "2", naming=["--dim", "from 1 to 65536"])
    box.works("info", "x.safetensors", "-q", "-q", "-v", "-v", "--json", "--json")


@test
def words_of_other_programs(box):
    for word, command in (("train", "fit"), ("predict", "classify"), ("query", "search"), ("encode", "embed"), ("test", "eval"),
                          ("infer", "classify"), ("score", "eval"), ("inspect", "info"), ("build", "index"), ("project", "transform"),
                          ("tune", "sweep"), ("add", "add-class"), ("evaluate", "eval")):
        box.refuses(USAGE, word, "x", naming=f"there is no command '{word}' (did you mean '{command}'?)")


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
    box.refuses(USAGE, "classify", "m", naming=": missing argument: DATA or PICTURES")
    box.refuses(USAGE, "classify", "m", "--gallery", "g", naming=": missing argument: DATA or PICTURES")
    box.refuses(USAGE, "transform", "m", "-o", "o.npy", naming=": missing argument: DATA")
    box.refuses(USAGE, "fit", "x", "-o", naming="-o needs a value")
    box.refuses(USAGE, "fit", "x", "--lambda", "--dim", "3", "-o", "m", naming="--lambda needs a value")
    box.refuses(USAGE, "demo", "x", naming="unexpected argument 'x'")
    box.refuses(USAGE, "fit", naming=": missing argument: DATA or STATS;")
    box.refuses(USAGE, "fit", "x", naming=": missing option -o MODEL.safetensors")
    box.refuses(USAGE, "help", "nope", naming="see 'koofu help'")
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
    box.refuses(USAGE, "info", "x.safetensors", env={"KOOFU_PROGRESS": "-1"}, naming="KOOFU_PROGRESS")
    logged = box.works("stats", "x.safetensors", "-o", "s.safetensors", env={"KOOFU_PROGRESS": "0"})
    check("\nstats       100 %" in "\n" + logged.err and "\r" not in logged.err, f"no lines of progress: {logged}")
    silent = box.works("stats", "x.safetensors", "-o", "s.safetensors")
    check("100 %" not in silent.err, f"progress where there is no terminal: {silent}")


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
    for ending in (".npy", ".parquet"):
        box.refuses(USAGE, "transform", "m.safetensors", "x.safetensors", "-o", f"y{ending}", "--dtype", "bf16",
                    naming=f"y{ending}: a {ending} cannot hold bf16; use .safetensors")


@test
def errors_name_the_option_that_helps(box):
    """What the library hints at, in the words of the command line."""
    rows, labels = world()
    box.write("x.npy", npy(rows))
    box.write("y.txt", "".join(f"{k}\n" for k in labels))
    box.write("bad.npy", npy([[float("nan")] * 8, *rows[1:]]))
    box.write("numbers.npy", npy(labels, "<i4"))
    box.write("gap.npy", npy([k - 1 for k in labels], "<i4"))
    box.write("pair.safetensors", safetensors({name: ("F32", [60, 8], f32(rows)) for name in ("a", "b")}))
    box.write("names.safetensors", data_set())
    box.write("real.json", str([[k] for k in labels]))
    box.works("stats", "x.npy", "--labels", "y.txt", "-o", "s.safetensors")
    for exponent in (10, 12):
        box.works("stats", "x.npy", "--labels", "y.txt", "--no-normalize", "--exponent", exponent, "-o", f"s{exponent}.safetensors")
    box.works("fit", "names.safetensors", "-o", "m.safetensors")
    out = ["-o", "o.safetensors"]
    for status, words, option in (
            (BAD_DATA, ["stats", "bad.npy", "--labels", "y.txt", *out], "; --skip-bad leaves out such rows"),
            (BAD_DATA, ["stats", "x.npy", "--labels", "gap.npy", *out], "; --skip-unlabelled leaves out such rows"),
            (BAD_DATA, ["convert", "x.npy", "--labels", "gap.npy", *out], "; --keep-unlabelled keeps such rows"),
            (BAD_DATA, ["stats", "x.npy", *out], "; give --labels, or name the tensor with --label-tensor"),
            (BAD_DATA, ["convert", "pair.safetensors", *out], "; name it with --tensor"),
            (BAD_DATA, ["text-prototypes", "x.npy", *out], "--per-class"),
            (BAD_DATA, ["fit", "x.npy", "--labels", "numbers.npy", "--text", "names.safetensors", *out], "give class names with --classes"),
            (BAD_DATA, ["eval", "m.safetensors", "names.safetensors", "--truth", "real.json"], "; give class names with --truth-classes"),
            (BAD_DATA, ["merge", "s10.safetensors", "s12.safetensors", *out], "; make both with the smaller --exponent"),
            (USAGE, ["fit", "s.safetensors", "--dim", "auto", *out], "give the data instead of a statistics file"),
            (BAD_DATA, ["fit", "s.safetensors", "--text", "x.npy", *out], "text-prototypes")):
        box.refuses(status, *words, naming=option)
    box.write("text.npy", npy(rows[:3]))
    box.works("text-prototypes", "text.npy", "--per-class", 1, "-o", "text.safetensors")
    box.refuses(USAGE, "fit", "s.safetensors", "--text", "text.safetensors", *out, naming="give it as a number with --fuse")


@test
def options_that_need_or_exclude_others(box):
    """In plain English: what an option needs, or cannot be used with."""
    box.write("x.safetensors", data_set())
    box.works("fit", "x.safetensors", "-o", "m.safetensors")
    for words, said in (
            (["fit", "x.safetensors", "--fuse", 1, "-o", "o.safetensors"], "--fuse needs --text TEXT"),
            (["stats", "x.safetensors", "--exponent", 3, "-o", "o.safetensors"], "--exponent needs --no-normalize"),
            (["classify", "m.safetensors", "x.safetensors", "-k", 3], "-k needs --gallery GALLERY"),
            (["classify", "m.safetensors", "x.safetensors", "--part", "text", "--raw"], "--part cannot be used with --raw"),
            (["eval", "m.safetensors", "x.safetensors", "--gallery", "g", "--metric", "cosine"], "--metric cannot be used with --gallery"),
            (["eval", "m.safetensors", "--gallery", "g", "--errors"], "--errors needs data"),
            (["sweep", "x.safetensors", "--leave-one-out", "-k", 3], "-k cannot be used with --leave-one-out"),
            (["sweep", "x.safetensors", "--truth", "t.txt"], "--truth needs --test DATA"),
            (["index", "x.safetensors", "--append", "g", "--model", "m"], "--model cannot be used with --append"),
            (["search", "g", "--itself", "--encoder", "e"], "--encoder cannot be used with --itself")):
        box.refuses(USAGE, *words, naming=f": {said}")


@test
def no_output_replaces_a_file_that_an_option_names(box):
    box.write("x.safetensors", data_set())
    box.write("only.safetensors", "class 0\nclass 1\n")
    for words in (["stats", "x.safetensors", "--only"], ["sweep", "x.safetensors", "--class-set"],
                  ["sweep", "x.safetensors", "--test", "x.safetensors", "--truth"]):
        box.refuses(USAGE, *words, "only.safetensors", "-o", "only.safetensors", naming="is both an input and the output")
