"""Wrong calls, each with its message."""

import pathlib

import numpy as np
import pytest

import koofu
from test_arrays import NAMES, X, Y

MODEL = koofu.fit(X, Y)
NAMED = koofu.fit(X, NAMES)
GALLERY = koofu.Gallery.build(X)
SUMS = koofu.Stats.of(X, Y)


def changed(row, column, value):
    rows = X.copy()
    rows[row, column] = value
    return rows


def zeroed(row):
    rows = X.copy()
    rows[row] = 0
    return rows


def labels(row, value):
    y = Y.astype(object)
    y[row] = value
    return y


ANY = "it must be a 2-D array (numpy, or anything with the buffer protocol, DLPack or Arrow) or a path"
FLOATS = ("rows are float16, float32 or float64 (or bfloat16, by DLPack), in the byte order of the "
          "machine")

IS_NO_MODEL = "{} is of type Stats; it must be a koofu.Model or the path of its file"

WRONG = [
    # rows
    (lambda: koofu.fit(X[0], Y), ValueError,
     "X has 1 dimension; it must have 2, rows and columns (one row is reshape(1, -1))"),
    (lambda: koofu.fit(X[None], Y), ValueError,
     "X has 3 dimensions; it must have 2, rows and columns"),
    (lambda: koofu.fit(X[:0], Y[:0]), ValueError, "X has no rows"),
    (lambda: koofu.fit(X[:, :0], Y), ValueError,
     "X has 0 columns; there must be 1 to 65536"),
    (lambda: koofu.fit(X.astype("i4"), Y), TypeError, f"X has the dtype int32; {FLOATS}"),
    (lambda: koofu.fit(X.astype(">f4"), Y), TypeError, f"X has the dtype >f4; {FLOATS}"),
    (lambda: koofu.fit(X.astype("c8"), Y), TypeError, f"X has the dtype complex64; {FLOATS}"),
    (lambda: koofu.fit(X.astype(object), Y), TypeError, f"X has the dtype object; {FLOATS}"),
    (lambda: koofu.fit(None, Y), TypeError, f"X is of type NoneType; {ANY}"),
    (lambda: koofu.fit({"a": 1}, Y), TypeError, f"X is of type dict; {ANY}"),
    (lambda: koofu.fit(changed(7, 3, np.nan), Y), ValueError, "row 7: column 3 is NaN"),
    (lambda: koofu.fit(changed(7, 3, -np.inf), Y), ValueError, "row 7: column 3 is infinite"),
    (lambda: koofu.fit(zeroed(7), Y), ValueError,
     "row 7: every column is zero; zero_rows='skip' leaves such rows out"),
    (lambda: koofu.fit(X, Y, zero_rows="drop"), ValueError,
     "zero_rows is 'drop'; it must be one of 'error', 'skip'"),
    # labels
    (lambda: koofu.fit(X, Y[:-1]), ValueError, "X has 120 rows, but y has 119 labels"),
    (lambda: koofu.fit(X), koofu.KooFuError, None),
    (lambda: koofu.fit(X, Y - 1), ValueError,
     "y[0] is -1; labels must be class numbers from 0 on (unlabelled='skip' leaves such rows out)"),
    (lambda: koofu.fit(X, Y + 0.0), TypeError,
     "y has the dtype float64; labels must be integers, strings or categories"),
    (lambda: koofu.fit(X, Y * 3_000_000), ValueError,
     "y[2] is 6000000; class numbers are at most 4194303"),
    (lambda: koofu.fit(X, np.stack([Y, Y])), ValueError,
     "y has 2 dimensions; labels must be a list, one for each row"),
    (lambda: koofu.fit(X, labels(5, 1.5)), TypeError,
     "y holds 1.5; labels must be integers, strings or categories, all of one kind"),
    (lambda: koofu.fit(X, labels(5, "ant")), TypeError,
     "y holds 'ant'; labels must be integers, strings or categories, all of one kind"),
    (lambda: koofu.fit(X, NAMES, classes=["ant", "eel"]), ValueError,
     "y[2] is 'öre', which is not in classes (unknown='skip' leaves such rows out)"),
    (lambda: koofu.fit(X, Y, classes=["ant", "eel"]), ValueError,
     "y[2] is 2, but there are only 2 classes"),
    (lambda: koofu.fit(X, Y, classes="ant"), TypeError,
     "classes is a path, but X is an array; give the names as a list"),
    (lambda: koofu.fit(X, Y, classes=["a", "b", "a"]), ValueError, "classes holds 'a' twice"),
    (lambda: koofu.fit(X, "labels.txt"), TypeError,
     "y is a path, but X is an array; give the labels as a list"),
    (lambda: koofu.fit("x.npy", Y), TypeError,
     "y is a list, but X is a file; give a label file"),
    (lambda: koofu.fit(koofu.Data(X, Y), Y), ValueError,
     "X is a Data, which has its own labels and options; give y to it"),
    (lambda: koofu.Data(X, Y, tensor="t"), ValueError, "tensor is for files, but X is an array"),
    (lambda: koofu.Data(X, Y, ids=["a"]), ValueError, "there are 1 ids for 120 rows"),
    # settings
    (lambda: koofu.fit(X, Y, lambda_=-1), ValueError,
     "lambda_ is -1; it must be finite and not negative"),
    (lambda: koofu.fit(X, Y, lambda_=[1]), TypeError,
     "lambda_ is [1]; it must be a number, 'auto', 'gda', 'ledoit-wolf', or a multiple of the mean "
     "eigenvalue such as '0.3x'"),
    (lambda: koofu.fit(X, Y, lambda_="much"), ValueError, None),
    (lambda: koofu.fit(X, Y, n_components=0), ValueError,
     "n_components is 0; it must be at least 1"),
    (lambda: koofu.fit(X, Y, n_components=17), ValueError, None),
    (lambda: koofu.fit(X, Y, n_components=2.5), TypeError,
     "n_components is 2.5; it must be None, an integer or 'auto'"),
    (lambda: koofu.fit(X, Y, metric="manhattan"), ValueError,
     "metric is 'manhattan'; it must be one of None, 'cosine', 'euclidean'"),
    (lambda: koofu.fit(X, Y, reject=2), ValueError, "reject is 2; it must be between 0 and 1"),
    (lambda: koofu.fit(X, Y, groups=[1, 2]), ValueError,
     "X has 120 rows, but groups has the shape (2,)"),
    (lambda: koofu.fit(SUMS, Y), ValueError,
     "X is a Stats, which has its own labels; y must be None"),
    (lambda: koofu.fit(X, Y * 0), ValueError, None),
    (lambda: koofu.Stats.of(X, Y, exponent=4), ValueError, "exponent needs normalize=False"),
    (lambda: SUMS + koofu.Stats.of(X, NAMES), ValueError, None),
    (lambda: SUMS + koofu.Stats.of(X[:, :8], Y), ValueError, None),
    (lambda: SUMS.merge(MODEL), TypeError, "a Model cannot be merged into Stats"),
    # use
    (lambda: MODEL.predict(X[:, :8]), ValueError, "X has 8 columns, but the model takes 16"),
    (lambda: MODEL.transform(changed(9, 1, np.nan)), ValueError, "row 9: column 1 is NaN"),
    (lambda: MODEL.classify(X, top=0), ValueError, "top is 0; it must be at least 1"),
    (lambda: MODEL.classify(X, top=4), ValueError,
     "the 4 nearest classes were requested, but only 3 of the model take part"),
    (lambda: MODEL.classify(X, top="all"), TypeError, "top is 'all'; it must be an integer"),
    (lambda: MODEL.probabilities(X, temperature=-1), ValueError,
     "temperature is -1; it must be positive and finite"),
    (lambda: koofu.fit(SUMS).probabilities(X), ValueError, None),
    (lambda: NAMED.with_class("ant", X), ValueError, None),
    (lambda: GALLERY.search(X, k=0), ValueError, "k is 0; it must be 1 to 1024"),
    (lambda: GALLERY.search(X[:, :3], k=1), ValueError,
     "X has 3 columns, but the gallery takes 16"),
    (lambda: GALLERY.search(X, leave_out=[1]), ValueError,
     "X has 120 rows, but leave_out has the shape (1,)"),
    (lambda: GALLERY.classify(X), ValueError, None),
    (lambda: GALLERY.append(X), ValueError,
     "this gallery is in memory and cannot change; build it with path=, or save it and load it"),
    (lambda: GALLERY.remove("row 1"), ValueError,
     "this gallery is in memory and cannot change; build it with path=, or save it and load it"),
    (lambda: GALLERY.compact(), ValueError,
     "this gallery is in memory and cannot change; build it with path=, or save it and load it"),
    (lambda: GALLERY.filter(classes=["ant"]), ValueError, None),
    (lambda: GALLERY.filter(ids=["a"]), ValueError, None),
    (lambda: GALLERY.filter(ids="a"), TypeError, "ids is 'a'; it must be a list"),
    (lambda: GALLERY.filter(ids=[1]), TypeError, "ids holds 1; it must hold strings"),
    (lambda: GALLERY.filter(classes="ant"), TypeError, "classes is 'ant'; it must be a list"),
    (lambda: GALLERY.filter(classes=[3]), ValueError, "classes holds 3, but there are 0 classes"),
    (lambda: GALLERY.filter(classes=[1.5]), TypeError, "classes holds 1.5; it must hold strings"),
    (lambda: koofu.Gallery.build(X, Y).filter(classes=["ant"]), ValueError, None),
    (lambda: GALLERY.search(X, only=["ant"]), TypeError,
     "only is of type list; it must be a Filter, made by Gallery.filter"),
    (lambda: GALLERY.within(X, "near"), TypeError, "limit is 'near'; it must be a number"),
    (lambda: GALLERY.within(X, float("nan")), ValueError, "limit is NaN; it must be a number"),
    (lambda: GALLERY.within(X[:, :3], 0.5), ValueError,
     "X has 3 columns, but the gallery takes 16"),
    (lambda: GALLERY.within(changed(9, 1, np.nan), 0.5), ValueError, None),
    (lambda: GALLERY.within_itself(0.5, first=100, n=30), ValueError,
     "rows 100 to 129 of a gallery of 120 rows"),
    (lambda: GALLERY.unique(None), TypeError, "limit is None; it must be a number"),
    (lambda: koofu.Gallery.build(X, dtype="float64"), ValueError,
     "dtype is 'float64'; it must be one of 'float32', 'float16', 'bfloat16'"),
    (lambda: koofu.Gallery.load("a.safetensors", also="b.safetensors"), OSError, None),
    (lambda: koofu.verify("absent.npy"), OSError, None),
    (lambda: koofu.info("absent.npy"), OSError, None),
    (lambda: GALLERY.id(120), IndexError, "row 120 of a gallery of 120 rows"),
    (lambda: koofu.sweep(X, Y, lambdas="0.3x"), TypeError, "lambdas is '0.3x'; it must be a list"),
    # models and the like
    (lambda: koofu.evaluate("absent.safetensors", X, Y), OSError, None),
    (lambda: koofu.evaluate(SUMS, X, Y), TypeError, IS_NO_MODEL.format("model")),
    (lambda: koofu.compare(MODEL, "absent.safetensors", X, Y), OSError, None),
    (lambda: koofu.compare(SUMS, MODEL, X, Y), TypeError, IS_NO_MODEL.format("a")),
    (lambda: koofu.report("page.html", X, Y, model=SUMS), TypeError, IS_NO_MODEL.format("model")),
    (lambda: koofu.fit(X, Y, like=SUMS), TypeError, IS_NO_MODEL.format("like")),
    (lambda: koofu.Gallery.build(X, model=SUMS), TypeError, IS_NO_MODEL.format("model")),
    (lambda: koofu.Text.of_model(SUMS), TypeError, IS_NO_MODEL.format("model")),
    (lambda: koofu.Text.of_prompts("absent", ["ant"]), OSError, None),
    (lambda: koofu.fit(X, Y, stats=MODEL), TypeError,
     "stats is of type Model; it must be a koofu.Stats or the path of its file"),
    (lambda: koofu.fit(X, Y, text=X[:3]), TypeError,
     "text is of type ndarray; it must be a koofu.Text or the path of its file"),
    (lambda: MODEL.zero_shot(X[:3]), TypeError,
     "text is of type ndarray; it must be a koofu.Text or the path of its file"),
    (lambda: koofu.sweep(X, Y, truth=3), TypeError,
     "truth is of type int; it must be a koofu.Truth or the path of its file"),
    (lambda: koofu.configure(threads=0), ValueError, "threads is 0; it must be 1 to 1024"),
    (lambda: koofu.configure(device="gpu"), ValueError,
     "invalid device 'gpu': it must be auto, cpu, cuda, or a list such as cuda:0,cuda:1"),
    (lambda: koofu.configure(device="cuda", device_plugin="/nowhere.so"), OSError,
     "no device: /nowhere.so: cannot open shared object file: No such file or directory"),
    # files
    (lambda: koofu.fit("absent.npy"), OSError, None),
    (lambda: koofu.Model.load("absent.safetensors"), OSError, None),
    (lambda: koofu.Encoder("absent"), OSError, None),
    (lambda: MODEL.save("model.npz"), ValueError, None),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong(number, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    call, kind, message = WRONG[number]
    with pytest.raises(kind) as caught:
        call()
    said = str(caught.value)
    if message is not None:
        assert said == message
    else:  # the library's own words, which its tests know
        assert isinstance(caught.value, koofu.KooFuError) and caught.value.code > 0
    assert said[-1] not in ".\n" and "--" not in said and "kf_" not in said, said


def test_all_hints_are_worded():
    """Every kf_hint of koofu_files.h has a hint for Python."""
    header = pathlib.Path(__file__).parents[2] / "include" / "koofu_files.h"
    if not header.is_file():
        pytest.skip("koofu_files.h is not at hand")
    text = header.read_text(encoding="utf-8")
    numbers = {int(line.split("=")[1].split(",")[0].split("/")[0])
               for line in text.splitlines() if line.strip().startswith("KF_HINT_")}
    from koofu._errors import _HINTS

    assert set(_HINTS) == numbers - {0}


def test_errors_travel():
    import pickle

    with pytest.raises(koofu.KooFuError) as caught:
        koofu.Model.load("absent.safetensors")
    again = pickle.loads(pickle.dumps(caught.value))
    assert type(again) is koofu.KooFuOSError and str(again) == str(caught.value)
    assert (again.status, again.code, again.hint) == ("input/output error", 3, 0)


def test_wrong_capsules():
    from koofu import _koofu

    with pytest.raises(TypeError, match="^a koofu.model is needed$"):
        _koofu.model_info(SUMS._capsule)
    with pytest.raises(TypeError, match="^stats_of takes 2 arguments, not 1$"):
        _koofu.stats_of(1)
