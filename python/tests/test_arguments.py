"""The functions of the extension with wrong arguments of every kind: an exception, never a crash.

In most calls only one or two arguments are wrong, so that they get as far as possible. The classes
of the package would refuse many of them earlier. `make sanitize` runs all of this under
AddressSanitizer and UBSan."""

import gc
import pathlib
import re

import numpy as np
import pytest

import koofu
from koofu import _errors, _koofu, _progress

ROUNDS = 60
MODELS = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "models"
N, DIM, CLASSES = 24, 4, 3


class Odd:
    """Answers every request with a wrong type."""

    def __index__(self):
        return "no number"

    def __float__(self):
        raise KeyError("no float")


class Emptier:
    """A number that empties its list while the list is read."""

    def __init__(self):
        self.list = [self, 2, 3]

    def __index__(self):
        self.list.clear()
        gc.collect()
        return 1


NUMBERS = [0, 1, -1, 2, 3, 7, 77, 255, 1024, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**62, 2**63, 2**64 - 1,
           2**64, -2**31, -2**63, 10**40, 0.0, 0.5, -1.5, 1e300, float("nan"), float("inf"), True]
OPTIONS = ("again all_names allow_unlabelled centre choose_dim criterion dim dtype exponent fixed_exponent folders "
           "folds fuse images include_mapped include_prototypes include_raw inline_bytes inner_labels k lambda "
           "lambda_unit leave_one_out margin max_pixels method metric normalize one_se order part per_class precision "
           "priors raw reject repeats replace sample single skip_bad temperature text top unit_mean unit_rows "
           "weighted").split()


def rubbish(rng):
    """A random object."""
    arrays = [np.zeros(0, "f4"), np.zeros((0, DIM), "f4"), np.zeros((N, DIM), "f4"), np.ones((N, DIM)),
              np.ones((N, DIM), "f2")[::2], np.ones((N, DIM + 1), "f4"), np.zeros(N, "i4"), np.zeros(N, "i8"),
              np.full(N, -1), np.full(N, 2**40), np.zeros((N, CLASSES)), np.zeros(DIM), np.array(1.0),
              np.zeros((2, 2, 3), "u1"), np.zeros(3, "M8[s]"), np.zeros((N, DIM), "f4").T,
              np.broadcast_to(np.float32(1), (1000, DIM)), np.frombuffer(bytes(96), "i4")]
    emptier = Emptier()
    others = [None, "", "x", "a\0b", "\ud800", b"", b"x", b"a\0b", b"\xff", "cosine", object(), Odd(), emptier, [], (),
              {}, set(), [None], [1, 2], (1, "x"), ["x", b"y", 3], [[1]], [(1.0, 1)], [(1,)], [(1, 2, 3)], ["a"] * N,
              emptier.list, [np.zeros((2, 2, 3), "u1"), b"x"], {"k": 1}, {"dim": "x"}, {1: 2}, {"folds": 2**40},
              {"metric": 77, "raw": -1, "part": 9}, {"normalize": 5, "exponent": -400}, bytearray(8), memoryview(b"xy"),
              range(3), print, type, 1j, koofu]
    pool = [NUMBERS, arrays, others, list(CAPSULES.values())][rng.integers(4)]
    return pool[rng.integers(len(pool))]


def similar(rng, right):
    """A random object similar to a right argument."""
    number = NUMBERS[rng.integers(len(NUMBERS))]
    if isinstance(right, (int, float)):
        return number
    if isinstance(right, dict):
        return {**right, OPTIONS[rng.integers(len(OPTIONS))]: number}
    if isinstance(right, list):
        items = [similar(rng, item) if rng.random() < 0.5 else item for item in right]
        return items[: rng.integers(len(items) + 1)] + items[: rng.integers(len(items) + 1)]
    if isinstance(right, np.ndarray):
        wild = right.copy()
        wild.view("u1")[:] = [0, 0x7F, 0x80, 0xFF][rng.integers(4)]
        return [wild, right[1:], right[:0], np.repeat(right, 2, axis=0), np.repeat(right, 2, axis=0)[::2],
                right.astype("f4" if right.dtype == "f8" else "f8")][rng.integers(6)]
    if isinstance(right, bytes):
        return right[: rng.integers(len(right) + 1)] + right[rng.integers(len(right) + 1) :]
    return list(CAPSULES.values())[rng.integers(len(CAPSULES))] if right is not None else rubbish(rng)


CAPSULES = {}
VALID = {}


def make_valid():
    """A right call of each function, except those that change settings."""
    rng = np.random.default_rng(0)
    y = np.arange(N, dtype="i4") % CLASSES
    X = (rng.normal(size=(CLASSES, DIM))[y] + 0.3 * rng.normal(size=(N, DIM))).astype("f4")
    names = ["ant", "bee", "cat"]
    data = koofu.Data(X, [names[k] for k in y], ids=[f"row {i}" for i in range(N)])
    stats, model = koofu.Stats.of(data), koofu.fit(data)
    text = koofu.Text.of(X[:CLASSES], names)
    gallery = koofu.Gallery.build(data, path="gallery.safetensors")
    D, S, M, T, G = data._capsule, stats._capsule, model._capsule, text._capsule, gallery._capsule
    F = gallery.filter(classes=["ant"])._capsule
    R, C = _koofu.rows(X, "X"), _koofu.class_set(names)
    V = _koofu.verdicts(M, D, {}, None, None)
    for name, thing in [("data", data), ("stats", stats), ("model", model)]:
        thing.save(f"{name}.safetensors")
    np.savetxt("truth.txt", y, "%d")
    pathlib.Path("classes.txt").write_text("ant\nbee\ncat\n", encoding="utf-8")
    truth = _koofu.truth_load(b"truth.txt", {"classes": b"classes.txt"})
    CAPSULES.update(data=D, stats=S, model=M, text=T, gallery=G, filter=F, rows=R, set=C, verdicts=V, truth=truth)

    def bring(first, n, view):
        np.copyto(np.frombuffer(view, "f4"), X[first : first + n].ravel())
        return True

    def out(*shape, dtype="f8"):
        return np.zeros(shape, dtype)

    VALID.update({
        "status_name": [1], "threads": [], "rows": [X, "X"], "shape": [X, "X"], "count": [R],
        "data_open": [[b"data.safetensors"], None, {"skip_bad": 0}],
        "data_arrays": [X, y, names, 3, 0, [str(i) for i in range(N)], "X"],
        "data_callback": [bring, N, DIM, y, names, 3, 0],
        "data_info": [D], "data_names": [D], "data_labels": [D, out(N, dtype="i4")],
        "data_rows": [D, 2, out(N - 2, DIM, dtype="f4")], "data_save": [D, 0, b"saved.safetensors"],
        "stats_of": [D, {"normalize": 1}], "stats_merged": [[S, S]], "stats_less": [S, S],
        "stats_save": [S, b"saved.safetensors"], "stats_load": [b"stats.safetensors"],
        "stats_to_bytes": [S], "stats_from_bytes": [stats.to_bytes()], "stats_info": [S], "stats_names": [S],
        "stats_counts": [S, out(3, dtype="i8")],
        "stats_scatter": [S, out(DIM, DIM), out(DIM, DIM), out(DIM)],
        "fit": [D, {"lambda": 0.1, "lambda_unit": 1}, T, 1.0, None, None, np.arange(N, dtype="u4") % 4, None], "parse_lambda": ["0.3x"],
        "model_save": [M, b"saved.safetensors"], "model_export": [M, {"part": 0}, b"saved.onnx"],
        "model_load": [b"model.safetensors"], "model_to_bytes": [M], "model_from_bytes": [model.to_bytes()],
        "model_with_class": [M, "dog", D], "model_with_text": [M, T, 0, 3], "model_names": [M], "model_info": [M],
        "model_array": [M, "mean"], "model_counts": [M, out(3, dtype="i8")],
        "transform": [M, X, 0, out(N, model.dim_out, dtype="f4")],
        "transform_data": [M, D, 0, 0, b"saved.safetensors"],
        "classify": [M, X, 2, 0, 0, 0, 0.0, out(N, 2, dtype="i4"), out(N, 2), out(N, 2)],
        "score_table": [M, X, 0, 0, 0, 0.0, 1, 1.0, 0.0, out(N, 3)],
        "text_of": [_koofu.data_arrays(X[:3], None, None, 0, 0, None, "X"), names, {"per_class": 1}],
        "text_of_model": [koofu.fit(data, text=text)._capsule],
        "text_save": [T, b"saved.safetensors"], "text_info": [T], "text_mean": [D, out(DIM)],
        "gallery_new": [D, M, {"k": 3}], "gallery_save": [D, M, {"k": 3}, b"saved.safetensors"],
        "gallery_load": [[b"gallery.safetensors"], 0], "gallery_info": [G],
        "gallery_labels": [G, out(N, dtype="i4")], "gallery_id": [G, 3], "gallery_ids": [G],
        "gallery_files": [G, np.arange(3), out(3, dtype="i8"), out(3, dtype="i8")],
        "gallery_search": [G, X, 2, np.arange(N), out(DIM), F, out(N, 2, dtype="i8"), out(N, 2)],
        "gallery_itself": [G, 3, 5, 2, out(5, 2, dtype="i8"), out(5, 2)],
        "gallery_vote": [G, X, {"k": 3, "top": 2}, F, out(N, 2, dtype="i4"), out(N, 2)],
        "gallery_remove": [b"gallery.safetensors", ["no row"]], "gallery_compact": [b"gallery.safetensors"],
        "filter_new": [G, ["ant"], ["row 3"]],
        "gallery_within": [G, X, 0.5, np.arange(N), out(DIM), F], "gallery_within_itself": [G, 3, 5, 0.5, F],
        "gallery_unique": [G, 0.9, out(N, dtype="i8")], "choose_k": [D, M],
        "class_set": [names], "truth_load": [b"truth.txt", {"classes": b"classes.txt"}], "truth_info": [truth],
        "evaluate": [M, D, {"include_raw": 1}, None, C], "interval95": [3, 7],
        "gallery_evaluate": [G, D, 3, 1, 0.5, None, C], "verdicts": [M, D, {"raw": 0}, None, C],
        "compare": [V, V],
        "sweep": [S, D, D, {"folds": 2}, None, T, [(0.1, 1)], [2], [1], [1]],
        "report": [D, b"page.html", {"seeds": 1}, {}, D, None, None, None, [2], [1], [1]],
        "file_info": [b"data.safetensors", 1],
        "encoder_load": [b"absent", {"precision": 0}],
    })
    folder = MODELS / "clip-bf16"
    if folder.is_dir():
        encoder = koofu.Encoder(folder, precision="float32")
        E = CAPSULES["encoder"] = encoder._capsule
        picture = np.zeros((8, 8, 3), "u1")
        VALID.update({
            "encoder_info": [E], "encode_paths": [E, [b"absent.png"], 1, out(1, encoder.dim, dtype="f4")],
            "encode_pictures": [E, [picture], 1, out(1, encoder.dim, dtype="f4")],
            "encode_texts": [E, ["a cat"], out(1, encoder.dim, dtype="f4")],
            "tokenize": [E, "a cat", out(encoder.context or 0, dtype="i4")],
            "encoder_text_mean": [E, out(encoder.dim)], "embed": [E, [b"absent"], None, {}, b"saved.safetensors"],
            "text_of_prompts": [E, names, {"templates": b"builtin1"}],
        })


@pytest.fixture(scope="module", autouse=True)
def folder(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("arguments"))
        make_valid()
        yield
        koofu.configure()
        _koofu.set_hooks(_errors._make, _errors._note, _progress.report)


FUNCTIONS = sorted(name for name in dir(_koofu) if callable(getattr(_koofu, name)) and name[0] != "_")


def arity(name):
    with pytest.raises(TypeError) as caught:
        getattr(_koofu, name)(*[None] * 20)
    return int(re.fullmatch(f"{name} takes ([0-9]+) arguments, not 20", str(caught.value))[1])


def attempt(name, arguments):
    """Calls a function; it may succeed, or raise anything but a SystemError."""
    try:
        getattr(_koofu, name)(*arguments)
    except SystemError as error:
        pytest.fail(f"{name}{tuple(arguments)!r}: {error!r}")
    except Exception:
        return False
    return True


@pytest.mark.parametrize("name", FUNCTIONS)
def test_wrong_arguments(name):
    rng = np.random.default_rng(FUNCTIONS.index(name))
    n = arity(name)
    valid = VALID.get(name)
    if valid is not None:
        assert len(valid) == n
        assert attempt(name, valid) or name in ("encoder_load", "embed"), name
    for _ in range(ROUNDS if n > 0 else 0):
        if valid is None or rng.random() < 0.2:
            arguments = [rubbish(rng) for _ in range(n)]
        else:
            arguments = list(valid)
            for at in rng.integers(0, n, 1 + int(rng.random() < 0.3)):
                arguments[at] = rubbish(rng) if rng.random() < 0.4 else similar(rng, valid[at])
        attempt(name, arguments)
        if name in ("configure", "set_hooks"):
            attempt("model_load", [b"absent"])  # they are used
            koofu.configure()
            _koofu.set_hooks(_errors._make, _errors._note, _progress.report)


def test_every_function_is_tried():
    missing = set(FUNCTIONS) - set(VALID) - {"configure", "set_hooks"}
    assert not missing or "encoder" not in CAPSULES and missing <= {
        "encoder_info", "encode_paths", "encode_pictures", "encode_texts", "tokenize", "encoder_text_mean", "embed",
        "text_of_prompts"}


# --- one by one -----------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [None, 5, "S", {}, object()])
def test_merging_what_is_no_list(parts):
    with pytest.raises(TypeError, match="^a list or tuple is needed, not a "):
        _koofu.stats_merged(parts)


def test_merging_nothing():
    with pytest.raises(ValueError, match="^there are no statistics to merge$"):
        _koofu.stats_merged([])
    with pytest.raises(TypeError, match="^a koofu.stats is needed$"):
        _koofu.stats_merged([CAPSULES["stats"], CAPSULES["model"]])
    assert _koofu.stats_to_bytes(_koofu.stats_merged((CAPSULES["stats"],))) == _koofu.stats_to_bytes(CAPSULES["stats"])


def test_options_that_are_no_dictionary():
    with pytest.raises(TypeError, match="^a dictionary of options is needed, not a int$"):
        _koofu.stats_of(CAPSULES["data"], 5)


def swept(k):
    """The numbers of neighbours in the cells of a sweep over k."""
    cells = _koofu.sweep(CAPSULES["stats"], CAPSULES["data"], CAPSULES["data"],
                         {"include_raw": 2, "include_prototypes": 2}, None, None, None, None, k, None)
    return [cell[5] for cell in cells]


def test_a_list_that_changes_while_it_is_read():
    """The numbers are those at the beginning."""
    emptier = Emptier()
    assert swept(emptier.list) == [1, 2, 3] and emptier.list == []


def test_lists_that_iterate_over_something_else():
    class Numbers(list):
        def __iter__(self):
            return iter([5, 6, 7, 8])

    class Names(list):
        def __iter__(self):
            return (str(i) * 99 for i in range(9))  # freed as soon as they have been seen

    assert swept(Numbers([1, 3])) == [1, 3]
    text = _koofu.text_of(VALID["text_of"][0], Names(["ant", "bee", "cat"]), {"per_class": 1})
    assert _koofu.text_info(text)[2] == ["ant", "bee", "cat"]


def test_no_top():
    """To the library 0 means 1: it writes one answer per row."""
    D, M = CAPSULES["data"], CAPSULES["model"]
    with pytest.raises(ValueError, match="^a buffer has the wrong size$"):
        _koofu.classify(M, D, 0, 0, 0, 0, 0.0, np.zeros(0, "i4"), None, None)
    answers = np.zeros((N, 1), "i4"), np.zeros((N, 1), "i4")
    for top in 0, 1:
        _koofu.classify(M, D, top, 0, 0, 0, 0.0, answers[top], None, None)
    assert (answers[0] == answers[1]).all()


def test_a_part_that_no_model_has():
    with pytest.raises(ValueError, match="^invalid part 77$"):
        _koofu.score_table(CAPSULES["model"], CAPSULES["data"], 0, 0, 77, 0.0, 0, 1.0, 0.0, np.zeros((N, CLASSES)))


def test_more_answers_than_numbers_count():
    """2^40 rows of 2^24 answers are 2^64, which must not wrap to 0."""
    rows = np.broadcast_to(np.float32(1), (2**40, DIM))
    with pytest.raises(ValueError, match="^a buffer has the wrong size$"):
        _koofu.gallery_search(CAPSULES["gallery"], rows, 2**24, None, None, None, np.zeros(0, "i8"), np.zeros(0))


@pytest.mark.parametrize("hook", [lambda *_: 5, lambda *_: KeyError, 5])
def test_hooks_that_make_no_exception(hook):
    _koofu.set_hooks(hook, print, print)
    try:
        with pytest.raises(TypeError):
            _koofu.model_load(b"absent")
    finally:
        _koofu.set_hooks(_errors._make, _errors._note, _progress.report)
