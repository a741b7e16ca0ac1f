"""Rows and labels of every kind give the same statistics, to the bit."""

import array
import gc

import numpy as np
import pytest

import koofu
from arrow_c import BFloat16, Chunks, Expanded, One, Tensor


def world(n=120, dim=16, classes=3, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    return (rng.normal(size=(classes, dim))[y] + rng.normal(size=(n, dim))).astype("f4"), y


X, Y = world()
NAMES = np.array(["eel", "ant", "öre"])[Y]


def stats(rows, labels=Y):
    return koofu.Stats.of(rows, labels).to_bytes()


REFERENCE = stats(X)


def padded(columns):
    wide = np.zeros((len(X), 16 + columns), "f4")
    wide[:, :16] = X
    return wide[:, :16]


@pytest.mark.parametrize("rows", [
    X, np.asfortranarray(X), padded(1), np.repeat(X, 3, axis=0)[::3], X[::-1][::-1],
    np.repeat(X, 2, axis=1)[:, ::2], X.astype("f8"), np.asfortranarray(X.astype("f8")),
    memoryview(X), X.tolist(), Tensor(X), Tensor(X.T.copy().T), Chunks([X]),
    Chunks([X[:7], X[7:8], X[8:]]), Chunks([X[:0], X]), Chunks([X[:50], X[50:]], "list"),
    Chunks([X], "large"), One([X]), Chunks([X.astype("f8")]),
], ids=lambda rows: type(rows).__name__)
def test_rows_of_any_kind(rows):
    assert stats(rows) == REFERENCE


def test_half_floats():
    half = X.astype("f2")
    want = stats(half.astype("f4"))
    for rows in half, half[:, ::-1][:, ::-1], Tensor(half), Chunks([half[:3], half[3:]]):
        assert stats(rows) == want


def columns_of_arrays(rows):
    """The rows as pandas and other engines have them: an array of objects that are arrays or lists."""
    column = np.empty(len(rows), object)
    column[:] = list(rows)
    lists = column.copy()
    lists[:] = rows.tolist()
    yield from (column, lists)
    try:
        import pandas
    except ImportError:
        return
    table = pandas.DataFrame({"embedding": list(rows), "other": Y})
    yield from (table["embedding"], pandas.Series(rows.tolist()), table[["embedding"]], table["embedding"].iloc[::-1][::-1])


def test_columns_of_arrays():
    for column in columns_of_arrays(X):
        assert stats(column) == REFERENCE
        assert (koofu.fit(X, Y).transform(column) == koofu.fit(X, Y).transform(X)).all()
    column = next(columns_of_arrays(X))
    for odd, error, message in ((X[0, :3], ValueError, "^X: row 0 has 16 columns, and row 5 has 3$"),
                                (None, TypeError, "^X: row 5 is None, not a list of numbers$"),
                                (X[:2], TypeError, "^X: row 5 is .*, not a list of numbers$")):
        wrong = column.copy()
        wrong[5] = odd
        with pytest.raises(error, match=message):
            stats(wrong)
    assert stats(BFloat16(X)) == stats(BFloat16(X).values)


def test_addresses_need_not_be_aligned():
    for dtype in "f2", "f4", "f8":
        size = np.dtype(dtype).itemsize
        room = np.zeros(X.size * size + 1, "u1")
        rows = np.frombuffer(room[1:].data, dtype).reshape(X.shape)
        room[1:] = np.frombuffer(X.astype(dtype).tobytes(), "u1")
        assert rows.ctypes.data % size != 0
        assert stats(rows) == stats(X.astype(dtype).astype("f4"))


@pytest.mark.parametrize("dtype", ["f2", "f4", "f8"])
@pytest.mark.parametrize("shape", [(5000, 2000), (90, 1), (1, 900), (1, 1), (2, 1), (3, 2)])
def test_one_value_everywhere(shape, dtype):
    """Both strides are 0, which must not mean packed rows: there is only one value in memory."""
    rows = np.broadcast_to(np.dtype(dtype).type(1.5), shape)
    assert rows.strides == (0, 0) or rows.size == 1
    y = np.zeros(len(rows), int)
    want = stats(np.ascontiguousarray(rows), y)
    assert stats(rows, y) == want
    assert stats(Expanded(1.5, shape, dtype), y) == want
    assert (koofu.Data(rows, y).rows(len(rows) - 1, 1) == 1.5).all()


def test_one_row_everywhere():
    rows = np.broadcast_to(X[3], X.shape)
    assert stats(rows) == stats(rows.copy())
    model = koofu.fit(X, Y)
    value = np.broadcast_to(np.float32(1.5), (700, 16))
    assert (model.predict(value) == model.predict(value.copy())).all()


def test_rows_are_read_where_they_are():
    rows = X.copy()
    data = koofu.Data(rows, Y)
    rows[5] = 2 * rows[5] + 1
    assert (data.rows(5, 1)[0] == rows[5]).all()
    assert koofu.Stats.of(data).to_bytes() == stats(rows)


def test_arrow_arrays_are_released():
    source = Chunks([X[:50], X[50:]])
    Chunks.released = 0
    data = koofu.Data(source, Y)
    assert Chunks.released == 0
    assert koofu.Stats.of(data).to_bytes() == REFERENCE
    del data
    gc.collect()
    assert Chunks.released == 2


def test_arrow_nulls_are_named():
    with pytest.raises(ValueError, match=r"^X: row 9 is missing \(null\)$"):
        stats(Chunks([X], null=9))


def test_dlpack_of_another_device():
    with pytest.raises(ValueError, match="not in CPU memory"):
        stats(Tensor(X, (2, 0)))


@pytest.mark.parametrize("labels", [
    Y.astype("i1"), Y.astype("u8"), Y.tolist(), Y.reshape(-1, 1), Y.astype(object),
    array.array("h", Y.tolist()), tuple(Y.tolist())])
def test_integers(labels):
    assert stats(X, labels) == REFERENCE


@pytest.mark.parametrize("labels", [
    NAMES, NAMES.tolist(), NAMES.astype(object), np.char.encode(NAMES, "utf-8")])
def test_names(labels):
    made = koofu.Stats.of(X, labels)
    assert made.class_names == ["ant", "eel", "öre"]
    assert made == koofu.Stats.of(X, NAMES)
    listed = koofu.Stats.of(X, labels, classes=["öre", "yak", "ant", "eel"])
    assert listed.counts.tolist() == [40, 0, 40, 40]


def test_categories_are_their_names():
    pandas = pytest.importorskip("pandas")
    for labels in pandas.Categorical(NAMES), pandas.Series(NAMES).astype("category"):
        assert koofu.Stats.of(X, labels) == koofu.Stats.of(X, NAMES)


def test_rows_without_a_label_can_be_skipped():
    some = Y.copy()
    some[::4] = -7
    kept = some >= 0
    assert (koofu.Stats.of(X, some, unlabelled="skip").to_bytes() ==
            koofu.Stats.of(X[kept], Y[kept]).to_bytes())
    named = NAMES.astype(object)
    named[3] = None
    assert koofu.Stats.of(X, named, unlabelled="skip").rows == len(X) - 1
    assert koofu.Stats.of(X, NAMES, classes=["ant", "eel"], unknown="skip").rows == 80


def test_zero_rows_can_be_skipped_but_not_nan():
    rows = X.copy()
    rows[4] = 0
    rest = np.arange(len(X)) != 4
    assert koofu.Stats.of(rows, Y, zero_rows="skip") == koofu.Stats.of(X[rest], Y[rest])
    rows[5, 2] = np.nan
    with pytest.raises(ValueError, match="^row 5: column 2 is NaN$"):
        koofu.Stats.of(rows, Y, zero_rows="skip")


def test_torch():
    torch = pytest.importorskip("torch")
    tensor = torch.from_numpy(X)
    for rows in tensor, tensor.t().contiguous().t(), tensor.double():
        assert stats(rows) == REFERENCE
    rounded = tensor.bfloat16()
    assert stats(rounded) == stats(rounded.float().numpy())
    assert stats(torch.full((1,), 1.5).expand(len(X), 16)) == stats(np.full(X.shape, 1.5, "f4"))
    model = koofu.fit(X, Y)
    assert (model.predict(tensor) == model.predict(X)).all()
    assert stats(X, torch.from_numpy(Y)) == REFERENCE


def test_pyarrow():
    pa = pytest.importorskip("pyarrow")
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(X.reshape(-1)), 16)
    plain = fixed.cast(pa.list_(pa.float32()))
    for rows in (fixed, plain, fixed.cast(pa.large_list(pa.float32())), pa.table({"x": fixed}),
                 pa.chunked_array([fixed[:9], fixed[9:9], fixed[9:]])):
        assert stats(rows) == REFERENCE
    assert stats(fixed[7:], Y[7:]) == stats(X[7:], Y[7:]) == stats(plain[7:], Y[7:])
    named = koofu.Stats.of(X, NAMES)
    for labels in (pa.array(NAMES), pa.array(NAMES).dictionary_encode(),
                   pa.chunked_array([NAMES[:4], NAMES[4:]]).dictionary_encode()):
        assert koofu.Stats.of(X, labels) == named
    with pytest.raises(ValueError, match="^X: row 0 has 2 columns, and row 1 has 1$"):
        koofu.Stats.of(pa.array([[1.0, 2.0], [3.0]]), [0, 1])


def test_polars():
    pl = pytest.importorskip("polars")
    column = pl.Series("x", X)
    for rows in (column, column.to_frame(), column.cast(pl.List(pl.Float32)), pl.DataFrame(X),
                 pl.concat([column[:40], column[40:]], rechunk=False)):
        assert stats(rows) == REFERENCE
    for labels in pl.Series(NAMES), pl.Series(NAMES).cast(pl.Categorical):
        assert koofu.Stats.of(X, labels) == koofu.Stats.of(X, NAMES)
