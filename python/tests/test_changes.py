"""Galleries that change, ranges, filters and duplicates, against comparisons with every row; files
and their descriptions."""

import json
import os
import struct
import subprocess
import tarfile
import threading

import numpy as np
import pytest

import koofu
from test_arrays import NAMES, X, Y
from test_gallery import IMAGES, MODELS

IDS = [f"row {i}" for i in range(len(X))]
RNG = np.random.default_rng(7)
QUERIES = RNG.normal(size=(23, 16)).astype("f4")


def scores_of(rows, queries, metric):
    """Scores of every query with every row in f64; higher is better."""
    a, b = np.asarray(queries, "f8"), np.asarray(rows, "f8")
    if metric == "euclidean":
        return -np.sqrt(((a[:, None] - b[None]) ** 2).sum(-1))
    if metric == "cosine":
        a, b = (x / np.linalg.norm(x, axis=1)[:, None] for x in (a, b))
    return a @ b.T


def ranges_of(scores, limit, rows=None):
    """Lists of rows whose scores reach the limit, best first."""
    allowed = np.ones(scores.shape[1], bool) if rows is None else np.isin(np.arange(scores.shape[1]), rows)
    best_first = np.argsort(-scores, axis=1, kind="stable")
    return [[r for r in order if allowed[r] and line[r] >= limit] for line, order in zip(scores, best_first)]


def limits(metric, scores):
    """A limit between two scores, so that rounding does not matter; also in the sign of the
    library."""
    steps = np.unique(scores)
    at = int(len(steps) * 0.9)
    limit = (steps[at] + steps[at - 1]) / 2
    return limit, -limit if metric == "euclidean" else limit


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner"])
def test_within_is_brute_force(metric):
    gallery = koofu.Gallery.build(X, NAMES, ids=IDS, metric=metric)
    scores = scores_of(X, QUERIES, metric)
    least, limit = limits(metric, scores)
    found = gallery.within(QUERIES, limit)
    wanted = ranges_of(scores, least)
    assert len(found) == len(QUERIES) and [list(hits.rows) for hits in found] == wanted
    assert found.indptr.tolist() == np.cumsum([0] + [len(w) for w in wanted]).tolist()
    assert (found.rows.dtype, found.scores.dtype, found.indptr.dtype) == (np.int64, np.float64, np.int64)
    sign = -1 if metric == "euclidean" else 1
    picked = np.concatenate([scores[i][w] for i, w in enumerate(wanted)])
    assert np.allclose(sign * found.scores, picked, rtol=1e-6, atol=1e-6)
    assert (found[3].scores == found.scores[found.indptr[3]:found.indptr[4]]).all()
    assert (found[-1].rows == found[22].rows).all()
    with pytest.raises(IndexError):
        found[23]
    # The limit itself counts.
    exact = gallery.search(QUERIES, 1)
    for i in range(5):
        assert gallery.within(QUERIES[i:i + 1], exact.scores[i, 0]).rows[0] == exact.rows[i, 0]
    # Nothing, everything, no queries.
    assert gallery.within(QUERIES, -1 if metric == "euclidean" else 1e9).rows.shape == (0,)
    assert len(gallery.within(QUERIES, 1e9 if metric == "euclidean" else -1e9).rows) == 23 * len(X)
    assert len(gallery.within(QUERIES[:0], 0)) == 0
    assert gallery.within(QUERIES, limit, leave_out=[w[0] if w else -1 for w in wanted])[0].rows.tolist() \
        == wanted[0][1:]


def test_more_queries_than_are_answered_at_once():
    rows = RNG.normal(size=(700, 6)).astype("f4")
    gallery = koofu.Gallery.build(rows)
    scores = scores_of(rows, rows, "cosine")
    least, limit = limits("cosine", scores)
    np.fill_diagonal(scores, -np.inf)
    wanted = ranges_of(scores, least)
    own = gallery.within_itself(limit)
    found = gallery.within(rows, limit, leave_out=np.arange(700))
    for answers in own, found:
        assert [list(h.rows) for h in answers] == wanted
    assert found.scores.tobytes() == own.scores.tobytes()
    rows[650, 2] = np.inf
    with pytest.raises(koofu.KooFuValueError, match="^row 650: column 2 is infinite"):
        gallery.within(rows, limit)


@pytest.mark.parametrize("metric", ["cosine", "euclidean", "inner"])
def test_within_itself_and_unique(metric):
    rows = np.concatenate([X, X[:9], X[3:5] * np.float32(1.0001)])
    gallery = koofu.Gallery.build(rows, metric=metric)
    scores = scores_of(rows, rows, metric)
    least, limit = limits(metric, scores[:, :120])
    np.fill_diagonal(scores, -np.inf)
    wanted = ranges_of(scores, least)
    found = gallery.within_itself(limit)
    assert [set(h.rows) for h in found] == [set(w) for w in wanted]
    part = gallery.within_itself(limit, first=100, n=7)
    assert [set(h.rows) for h in part] == [set(w) for w in wanted[100:107]]
    # Groups by hand: connected parts of the graph.
    first = np.arange(len(rows))
    for _ in range(len(rows)):
        before = first.copy()
        for i, near in enumerate(wanted):
            for j in near:
                first[i] = first[j] = min(first[i], first[j])
        if (first == before).all():
            break
    unique = gallery.unique(limit)
    assert unique.first.tolist() == first.tolist()
    assert unique.pairs == sum(map(len, wanted)) // 2
    assert unique.copies == (first != np.arange(len(rows))).sum()
    sizes = np.bincount(first)
    assert unique.groups == (sizes > 1).sum()
    assert unique.keep.tolist() == sorted(set(first.tolist()))


def test_filters():
    gallery = koofu.Gallery.build(X, NAMES, ids=IDS)
    scores = scores_of(X, QUERIES, "cosine")
    names = list(gallery.class_names)
    chosen = np.flatnonzero(NAMES == "eel")
    some = [IDS[i] for i in range(0, 120, 7)]
    cases = [
        (gallery.filter(classes=["eel", "nobody"]), chosen),
        (gallery.filter(classes=[names.index("eel")]), chosen),
        (gallery.filter(classes=np.array(["eel"])), chosen),
        (gallery.filter(ids=some + ["nobody"]), np.arange(0, 120, 7)),
        (gallery.filter(ids=iter(some), classes=("eel",)), np.intersect1d(np.arange(0, 120, 7), chosen)),
    ]
    for only, rows in cases:
        assert len(only) == len(rows) and str(len(rows)) in repr(only)
        k = min(4, len(rows))
        wanted = rows[np.argsort(-scores[:, rows], axis=1, kind="stable")[:, :k]]
        assert (gallery.search(QUERIES, k, only=only).rows == wanted).all()
        found = gallery.within(QUERIES, 0.1, only=only)
        assert [list(h.rows) for h in found] == ranges_of(scores, 0.1, rows)
        alone = koofu.Gallery.build(X[rows], NAMES[rows], classes=names)
        assert (gallery.classify(QUERIES, k, only=only)[0] == alone.classify(QUERIES, k)[0]).all()
        assert (gallery.classify(QUERIES, only=only)[0] == alone.classify(QUERIES)[0]).all()
        assert (gallery.predict(QUERIES, k, only=only) == alone.predict(QUERIES, k)).all()
        own = gallery.within_itself(0.1, only=only, n=9)
        assert all(set(h.rows) <= set(rows) for h in own)
    numbered = koofu.Gallery.build(X, Y)
    assert len(numbered.filter(classes=[1])) == (Y == 1).sum()
    # A filter keeps its gallery alive.
    kept = koofu.Gallery.build(X, NAMES)
    only = kept.filter(classes=["eel"])
    del kept
    with pytest.raises(ValueError, match="^only is a filter of another gallery, or of this one before"):
        gallery.search(QUERIES, 1, only=only)
    assert len(only) == len(chosen)


def test_life(tmp_path):
    path = tmp_path / "g.safetensors"
    model = koofu.fit(X, NAMES, n_components=3)
    gallery = koofu.Gallery.build(X[:60], NAMES[:60], ids=IDS[:60], model=model, path=path)
    rows = {i: (X[n], NAMES[n]) for n, i in enumerate(IDS[:60])}

    def same():
        """Answers, labels and ids equal those of a new gallery of these rows."""
        fresh = koofu.Gallery.build(np.stack([r for r, _ in rows.values()]), [n for _, n in rows.values()],
                                    ids=list(rows), model=model, classes=gallery.class_names)
        assert gallery.ids == list(rows) == fresh.ids and len(gallery) == len(rows)
        assert gallery.labels.tolist() == fresh.labels.tolist()
        for a, b in zip(gallery.search(QUERIES, 5), fresh.search(QUERIES, 5)):
            assert a.tobytes() == b.tobytes()

    only = gallery.filter(ids=IDS[:3])
    assert gallery.append(X[60:90], NAMES[60:90], ids=IDS[60:90])
    rows.update({i: (X[n], NAMES[n]) for n, i in list(enumerate(IDS))[60:90]})
    same()
    with pytest.raises(ValueError, match="before it changed$"):
        gallery.search(QUERIES, 1, only=only)
    gone = [IDS[3], IDS[70], "nobody"]
    change = gallery.remove(gone)
    assert (change.rows, change.added, change.removed, change.missing) == (88, 0, 2, 1)
    assert change.changes == 2 and change.bytes < 2000
    for i in gone[:2]:
        del rows[i]
    same()
    again = gallery.remove(iter(gone))
    assert (again.removed, again.missing, again.bytes, len(gallery)) == (0, 3, 0, 88)
    change = gallery.replace(X[100:103], ["eel", "ant", "gnu"], ids=[IDS[5], IDS[9], "new"])
    assert (change.rows, change.added, change.removed) == (89, 3, 2)
    for n, i, name in ((100, IDS[5], "eel"), (101, IDS[9], "ant"), (102, "new", "gnu")):
        rows.pop(i, None)
        rows[i] = (X[n], name)
    assert gallery.class_names[-1] == "gnu"
    same()
    before = os.path.getsize(path)
    assert gallery.compact().changes == 0 and os.path.getsize(path) > before
    same()
    assert gallery.compact().bytes == 0
    lean = koofu.Gallery.load(path, rerank_from_disk=True)
    lean.remove([IDS[0]])
    assert lean.nbytes < gallery.nbytes * 0.9  # still from disk
    assert (lean.search(QUERIES, 5).rows == koofu.Gallery.load(path).search(QUERIES, 5).rows).all()
    with pytest.raises(koofu.KooFuValueError):
        lean.remove(lean.ids)
    assert len(koofu.Gallery.load(path)) == 88


def test_changes_while_others_search(tmp_path):
    gallery = koofu.Gallery.build(X, Y, ids=IDS, path=tmp_path / "g.safetensors")
    stop, wrong = threading.Event(), []

    def busy():
        try:
            while not stop.is_set():
                assert gallery.search(QUERIES, 3).rows.max() < 125
                assert len(gallery.labels) in (120, 119, 121, 122)
                assert len(gallery.within(QUERIES, 0.5)) == 23
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=busy) for _ in range(3)]
    for thread in threads:
        thread.start()
    for i in range(12):
        gallery.remove([IDS[i]])
        gallery.replace(X[i:i + 1], Y[i:i + 1], ids=[IDS[i]])
        if i % 5 == 4:
            gallery.compact()
    stop.set()
    for thread in threads:
        thread.join()
    assert not wrong and len(gallery) == 120


def test_several_as_one(tmp_path):
    paths = [tmp_path / f"{i}.safetensors" for i in range(3)]
    for i, path in enumerate(paths):
        koofu.Gallery.build(X[i::3], NAMES[i::3], ids=IDS[i::3], path=path)
    order = np.concatenate([np.arange(i, 120, 3) for i in range(3)])
    one = koofu.Gallery.build(X[order], NAMES[order], ids=[IDS[i] for i in order])
    gallery = koofu.Gallery.load(paths[0], also=paths[1:])
    assert gallery.files == [str(p) for p in paths] and len(gallery) == 120
    for a, b in zip(gallery.search(QUERIES, 6), one.search(QUERIES, 6)):
        assert a.tobytes() == b.tobytes()
    assert gallery.ids == one.ids
    assert [gallery.class_names[k] for k in gallery.labels] == NAMES[order].tolist()
    hits = gallery.search(QUERIES, 6).rows
    files, own = gallery.file_of(hits)
    assert files.shape == own.shape == hits.shape
    assert (order[hits] == own * 3 + files).all()
    assert [int(v) for v in gallery.file_of(41)] == [1, 1]
    assert [v.tolist() for v in gallery.file_of(np.array([-1, 120, 119]))] == [[-1, -1, 2], [-1, -1, 39]]
    assert len(koofu.Gallery.load(paths[0], also=str(paths[2]))) == 80
    with pytest.raises(ValueError, match="^this gallery is 3 files; to change one, load it alone$"):
        gallery.remove(["row 1"])
    koofu.Gallery.build(X, metric="inner", path=tmp_path / "other.safetensors")
    with pytest.raises(koofu.KooFuValueError):
        koofu.Gallery.load(paths[0], also=tmp_path / "other.safetensors")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_smaller_rows(dtype, tmp_path):
    if dtype == "float16":
        rounded = X.astype("f2").astype("f4")
    else:  # to nearest even, by hand
        bits = X.view("u4").astype("u8")
        rounded = (((bits + 0x7FFF + (bits >> 16 & 1)) >> 16 << 16).astype("u4")).view("f4")
    wide = koofu.Gallery.build(rounded, metric="inner")
    gallery = koofu.Gallery.build(X, metric="inner", dtype=dtype)
    path = tmp_path / "g.safetensors"
    stored = koofu.Gallery.build(X, metric="inner", dtype=dtype, path=path)
    for other in gallery, stored, koofu.Gallery.load(path, rerank_from_disk=True):
        assert other.dtype == dtype and wide.dtype == "float32"
        for a, b in zip(other.search(QUERIES, 9), wide.search(QUERIES, 9)):
            assert a.tobytes() == b.tobytes()
    gallery.save(tmp_path / "h.safetensors")
    assert (tmp_path / "h.safetensors").read_bytes() == path.read_bytes()
    assert gallery.nbytes < wide.nbytes
    with pytest.raises(koofu.KooFuValueError, match="float16|f16|65504|65,504") if dtype == "float16" \
            else pytest.raises(ValueError):
        koofu.Gallery.build(np.full((2, 16), 1e6 if dtype == "float16" else np.inf, "f4"), dtype=dtype)


def test_votes_need_no_model():
    gallery = koofu.Gallery.build(X, NAMES)
    scores = scores_of(X, QUERIES, "cosine")
    nearest = np.argsort(-scores, axis=1, kind="stable")[:, :7]
    classes, votes = gallery.classify(QUERIES, 7, top=3)
    for i, line in enumerate(nearest):
        counts = {}
        for row in line:
            counts[NAMES[row]] = counts.get(NAMES[row], 0) + 1
        best = sorted(counts, key=lambda name: -counts[name])
        assert [gallery.class_names[k] for k in classes[i][:len(best)]] == best
        assert votes[i][:len(best)].tolist() == [counts[name] for name in best]
        assert (classes[i][len(best):] == -1).all()


def test_wrong_arguments_do_no_harm(tmp_path):
    from koofu import _koofu

    gallery = koofu.Gallery.build(X, NAMES, ids=IDS)
    g, out = gallery._capsule, (np.empty((3, 2), "i8"), np.empty((3, 2)))
    only = gallery.filter(classes=["ant"])
    bare = koofu.Gallery.build(X)
    cases = [
        lambda: _koofu.gallery_search(g, X[:3], 2, np.zeros(2, "i8"), None, None, *out),
        lambda: _koofu.gallery_search(g, X[:3], 2, None, np.zeros(15), None, *out),
        lambda: _koofu.gallery_search(g, X[:4], 2, None, None, None, *out),
        lambda: _koofu.gallery_search(g, X[:3], 2, None, None, g, *out),
        lambda: _koofu.gallery_itself(g, 0, 2**63, 2, np.empty((0, 2), "i8"), np.empty((0, 2))),
        lambda: _koofu.gallery_itself(g, 119, 2, 3, np.empty((2, 3), "i8"), np.empty((2, 3))),
        lambda: _koofu.gallery_within(g, X[:3], 0.5, np.zeros(2, "i8"), None, None),
        lambda: _koofu.gallery_within(g, X[:3], 0.5, None, np.zeros(17), None),
        lambda: _koofu.gallery_within(g, X[:3], 0.5, None, None, g),
        lambda: _koofu.gallery_within(g, X[:3], float("nan"), None, None, None),
        lambda: _koofu.gallery_within(g, X[:3, :7], 0.5, None, None, None),
        lambda: _koofu.gallery_within(only._capsule, X[:3], 0.5, None, None, None),
        lambda: _koofu.gallery_within(bare._capsule, X[:3], 0.5, None, None, only._capsule),
        lambda: _koofu.gallery_within_itself(g, 2**63, 2**63, 0.5, None),
        lambda: _koofu.gallery_within_itself(g, 0, 121, 0.5, None),
        lambda: _koofu.gallery_unique(g, 0.5, np.empty(119, "i8")),
        lambda: _koofu.gallery_unique(g, 0.5, np.empty(240, "i4")),
        lambda: _koofu.gallery_files(g, np.zeros(3, "i8"), np.empty(2, "i8"), np.empty(3, "i8")),
        lambda: _koofu.gallery_files(g, np.zeros(3, "i8"), np.empty(3, "i8"), np.empty(2, "i8")),
        lambda: _koofu.gallery_load([], 0),
        lambda: _koofu.gallery_load(["a\0b"], 0),
        lambda: _koofu.gallery_remove(b"absent", "abc"),
        lambda: _koofu.gallery_remove(b"absent", ["a\0b"]),
        lambda: _koofu.gallery_remove(b"absent", [1]),
        lambda: _koofu.filter_new(g, ["a", 2], None),
        lambda: _koofu.filter_new(g, None, ["a", None]),
        lambda: _koofu.filter_new(g, [""], None),
        lambda: _koofu.filter_new(g, [], None),
        lambda: _koofu.filter_new(g, None, []),
        lambda: _koofu.file_info(b"absent"),
        lambda: _koofu.file_info(3, 0),
    ]
    for case in cases:
        with pytest.raises((TypeError, ValueError)):
            case()
    read_only = np.empty(120, "i8")
    read_only.flags.writeable = False
    with pytest.raises((BufferError, ValueError)):
        _koofu.gallery_unique(g, 0.5, read_only)
    with pytest.raises(OSError, match="absent"):
        _koofu.gallery_remove(b"absent", ["a"])
    with pytest.raises(OSError, match="absent"):
        _koofu.gallery_compact(b"absent")


def test_the_program_writes_the_same_ranges(tmp_path):
    program = os.environ.get("KOOFU")
    if not program:
        pytest.skip("there is no program")
    np.save(tmp_path / "q.npy", QUERIES)
    gallery = koofu.Gallery.build(X, NAMES, path=tmp_path / "g.safetensors")
    subprocess.run([program, "search", "g.safetensors", "q.npy", "--within", "0.2", "-q", "-o", "near.safetensors"],
                   cwd=tmp_path, check=True)
    data = (tmp_path / "near.safetensors").read_bytes()
    size = struct.unpack("<Q", data[:8])[0]
    header, found = json.loads(data[8:8 + size]), gallery.within(QUERIES, 0.2)
    for name, dtype in ("indptr", "<i8"), ("rows", "<i8"), ("scores", "<f8"):
        begin, end = header[name]["data_offsets"]
        stored = np.frombuffer(data[8 + size + begin:8 + size + end], dtype)
        assert stored.tobytes() == getattr(found, name).tobytes() and len(found.rows) > 100
    sparse = pytest.importorskip("scipy.sparse")
    matrix = sparse.csr_matrix((found.scores, found.rows, found.indptr), shape=(23, 120)).toarray()
    scores = scores_of(X, QUERIES, "cosine")
    assert np.allclose(matrix, np.where(scores >= 0.2, scores, 0), atol=1e-6)


def test_parquet(tmp_path):
    path = tmp_path / "rows.parquet"
    koofu.Data(X, NAMES, ids=IDS).save(path)
    data = koofu.Data(path)
    assert (data.rows() == X).all() and data.has_ids
    assert [data.class_names[k] for k in data.labels()] == NAMES.tolist()
    named = koofu.Data(path, tensor="embedding", label_column="label", id_column="id")
    assert (named.rows() == X).all() and koofu.fit(named) == koofu.fit(X, NAMES)
    with pytest.raises(koofu.KooFuValueError, match="rows.parquet.*absent"):
        koofu.Data(path, tensor="absent")
    gallery = koofu.Gallery.build(path, path=tmp_path / "g.safetensors")
    assert gallery.ids == IDS
    model = koofu.fit(path, n_components=2)
    model.transform_to(path, tmp_path / "mapped.parquet", dtype="float16")
    mapped = koofu.Data(tmp_path / "mapped.parquet")
    assert (mapped.rows() == model.transform(X).astype("f2")).all() and mapped.class_names == model.class_names
    about = koofu.info(path)
    assert (about.kind, about.format, about.rows, about.dim) == ("data set", "parquet", 120, 16)
    assert koofu.verify(path).tensors == about.tensors


def test_class_names_of_hugging_face():
    path = IMAGES.parent / "parquet" / "pyarrow-huggingface-n23.parquet"
    if not path.is_file():
        pytest.skip("there is no such file")
    data = koofu.Data(path, label_column="number", id_column="key")
    assert data.class_names == ["dog", "cat", "red fox"] and data.has_ids
    assert data.labels().tolist() == [i % 3 for i in range(23)]


def test_info_and_verify(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    koofu.Stats.of(X, NAMES).save("s.safetensors")
    model = koofu.fit(X, NAMES, reject=0.9)
    model.save("m.safetensors")
    koofu.Gallery.build(X, NAMES, model=model, ids=IDS, path="g.safetensors")
    sums, fitted, gallery = (koofu.info(f"{c}.safetensors") for c in "smg")
    assert (sums.kind, sums.rows, sums.dim, sums.classes) == ("statistics", 120, 16, 3)
    assert fitted.fitted_from == gallery.fitted_from == sums.checksum and len(sums.checksum) == 16
    assert fitted.fitted_by == gallery.fitted_by == f"koofu {koofu.__version__}"
    assert (fitted.lambda_, fitted.temperature) == (model.lambda_, model.temperature)
    assert (fitted.reject, fitted.method, fitted.priors) == (model.reject, "shrunk", "equal")
    assert (gallery.metric, gallery.ids, gallery.dim_out) == ("cosine", True, 16)
    assert (sums.fitted_by, sums.lambda_, sums.metric, sums.encoder) == (None, None, None, None)
    assert ("transform", "F64", (16, 16)) in fitted.tensors
    assert fitted.metadata["fitted_by"] == fitted.fitted_by
    assert all(koofu.verify(f"{c}.safetensors") == koofu.info(f"{c}.safetensors") for c in "smg")
    with open("m.safetensors", "r+b") as file:
        file.seek(-9, 2)
        byte = file.read(1)
        file.seek(-9, 2)
        file.write(bytes([byte[0] ^ 1]))
    with pytest.raises(koofu.KooFuValueError, match="^m.safetensors: .*checksum"):
        koofu.verify("m.safetensors")
    rows = X.copy()
    rows[77, 3] = np.nan
    np.save("r.npy", rows)
    assert koofu.info("r.npy").rows == 120
    with pytest.raises(koofu.KooFuValueError, match="^r.npy, row 77: column 3 is NaN"):
        koofu.verify("r.npy")
    with pytest.raises(OSError, match="^absent.npy"):
        koofu.verify("absent.npy")
    # Names that are no text anywhere else.
    header = json.dumps({"__metadata__": {"\u202e": "\ud83d\ude00"}, "x": {
        "dtype": "F32", "shape": [1], "data_offsets": [0, 4]}}).encode()
    (tmp_path / "odd.safetensors").write_bytes(struct.pack("<Q", len(header)) + header + b"\0\0\0\0")
    assert koofu.info("odd.safetensors").metadata == {"\u202e": "\U0001f600"}


def test_text_is_named(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = RNG.normal(size=(4, 16)).astype("f4")
    text = koofu.Text.of(rows[:3], ["ant", "eel", "öre"])
    koofu.fit(X, NAMES, text=text, alpha=1.0).save("fused.safetensors")
    koofu.fit(X, NAMES).zero_shot(text).save("shot.safetensors")
    assert koofu.info("fused.safetensors").text_from == koofu.info("shot.safetensors").text_from == text.checksum
    assert koofu.Model.load("fused.safetensors") == koofu.fit(X, NAMES, text=text, alpha=1.0)
    text.save("text.safetensors")
    assert koofu.Text.load("text.safetensors").checksum == text.checksum
    others = [koofu.Text.of(rows[[0, 1, 3]], ["ant", "eel", "öre"]), koofu.Text.of(rows[:3], ["ant", "eel", "ore"]),
              koofu.Text.of(rows[:2], ["ant", "eel"])]
    assert len({text.checksum, *(other.checksum for other in others)}) == 4
    assert koofu.info("fused.safetensors").text_made_with is None


def test_archives(tmp_path):
    folder = MODELS / "clip-bf16"
    pictures = sorted(IMAGES.glob("exif?.png"))[:4]
    if not folder.is_dir() or len(pictures) < 4:
        pytest.skip("there is no model")
    for number in range(2):
        with tarfile.open(tmp_path / f"{number:02}.tar", "w") as tar:
            for i in (2 * number, 2 * number + 1):
                said = tmp_path / "said.json"
                said.write_text(json.dumps({"kind": ["eel", "ant"][i % 2], "n": i}))
                tar.add(pictures[i], f"{i:05}.png")
                tar.add(said, f"{i:05}.json")
    encoder = koofu.Encoder(folder, precision="float32", text=False)
    out, said = tmp_path / "rows.safetensors", tmp_path / "rows.jsonl"
    report = encoder.embed(str(tmp_path / "{00..01}.tar"), out, label_key="kind", metadata=said)
    data = koofu.Data(out)
    assert report["rows"] == 4 and data.class_names == ["ant", "eel"]
    assert data.labels().tolist() == [1, 0, 1, 0]
    assert (data.rows() == encoder.images(pictures)).all()
    lines = [json.loads(line) for line in said.read_text().splitlines()]
    assert [line["json"]["n"] for line in lines] == [0, 1, 2, 3]
    encoder.embed(tmp_path / "00.tar", tmp_path / "other.safetensors")
    assert not koofu.Data(tmp_path / "other.safetensors").has_labels
