"""koofu report: one page out of data."""

from harness import IO, USAGE, check, equal, test


def make_data(box):
    box.works("synth", "--classes", 12, "--dim", 24, "--per-class", 8, "-o", "train.safetensors")
    box.works("synth", "--classes", 12, "--dim", 24, "--per-class", 6, "--split", 1, "-o", "test.safetensors")


SECTIONS = ("summary", "lambda", "dimensions", "neighbours", "map")
OF_ERRORS = ("classes", "confusions", "margins")


@test
def with_test_data(box):
    make_data(box)
    result = box.works("report", "train.safetensors", "--test", "test.safetensors", "--title", "Twelve <b>", "-o", "a.html")
    check("wrote a.html: 96 rows, 12 classes, 24 ->" in result.err and "top-1 accuracy: raw" in result.err, result.err)
    page = box.read("a.html").decode()
    for section in SECTIONS + OF_ERRORS:
        check(f'id="{section}"' in page, f"{section} is not in the page")
    check("Twelve &lt;b&gt;" in page and "Twelve <b>" not in page, "the title")
    check("of 72 test rows" in page and "train.safetensors" in page and "c0003" in page, "what it is about")
    box.works("report", "train.safetensors", "--test", "test.safetensors", "--title", "Twelve <b>", "-o", "b.html",
              "--threads", 1, "--isa", "plain")
    equal(box.read("b.html"), page.encode(), "the page on one thread and with plain kernels")


@test
def with_folds(box):
    make_data(box)
    box.works("report", "train.safetensors", "--dims", "4,8,24", "--dim", 8, "-k", "1,3", "-o", "page.html")
    page = box.read("page.html").decode()
    for section in SECTIONS:
        check(f'id="{section}"' in page, f"{section} is not in the page")
    for section in OF_ERRORS:
        check(f'id="{section}"' not in page, f"{section} is in the page, without test rows")
    check("of 96 held-out rows" in page and "3-NN" in page and "24 → 8" in page, "what was asked for")


@test
def of_a_model(box):
    make_data(box)
    box.works("fit", "train.safetensors", "--lambda", "2x", "--dim", 6, "--no-normalize", "-o", "model.safetensors")
    box.works("report", "train.safetensors", "--model", "model.safetensors", "--test", "test.safetensors", "-o", "page.html")
    page = box.read("page.html").decode()
    check("24 → 6" in page and "= 2x" in page, "dimensions and lambda of the model")


@test
def refusals(box):
    make_data(box)
    box.works("fit", "train.safetensors", "-o", "model.safetensors")
    box.refuses(USAGE, "report", "train.safetensors", naming="-o")
    box.refuses(USAGE, "report", "-o", "page.html", naming="the training data are missing")
    box.refuses(USAGE, "report", "train.safetensors", "-o", "-", naming="file name")
    box.refuses(USAGE, "report", "train.safetensors", "-o", "train.safetensors", naming="both input and output")
    box.refuses(USAGE, "report", "train.safetensors", "--test", "test.safetensors", "-o", "test.safetensors",
                naming="both input and output")
    box.refuses(USAGE, "report", "train.safetensors", "--test-labels", "y.txt", "-o", "page.html", naming="--test")
    box.refuses(USAGE, "report", "train.safetensors", "--model", "model.safetensors", "--dim", 3, "-o", "page.html",
                naming="--dim")
    box.refuses(IO, "report", "train.safetensors", "-o", "absent/page.html", naming="absent/page.html")
    box.refuses(IO, "report", "absent.npy", "-o", "page.html", naming="absent.npy")
