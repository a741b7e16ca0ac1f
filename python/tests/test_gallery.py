"""Galleries, encoders and judging."""

import copy
import json
import os
import pathlib
import pickle
import subprocess

import numpy as np
import pytest

import koofu
from test_arrays import NAMES, X, Y

MODELS = pathlib.Path(__file__).parents[2] / "tests" / "golden" / "models"
IMAGES = MODELS.parent / "images"


def nearest(rows, queries, k):
    unit = [x.astype("f8") / np.linalg.norm(x.astype("f8"), axis=1)[:, None]
            for x in (rows, queries)]
    return np.argsort(-(unit[1] @ unit[0].T), axis=1, kind="stable")[:, :k]


def test_search():
    gallery = koofu.Gallery.build(X, NAMES, ids=[f"row {i}" for i in range(len(X))])
    hits = gallery.search(X[:9], 4)
    assert (hits.rows == nearest(X, X[:9], 4)).all() and hits.rows.dtype == np.int64
    assert (hits.rows[:, 0] == np.arange(9)).all() and np.allclose(hits.scores[:, 0], 1)
    others = gallery.itself(3)
    assert (others.rows == gallery.search(X, 3, leave_out=np.arange(len(X))).rows).all()
    assert gallery.labels.tolist() == koofu.Data(X, NAMES).labels().tolist()
    assert gallery.id(7) == "row 7" and len(gallery) == 120 and gallery.metric == "cosine"
    assert (gallery.predict(X, 5) == NAMES).mean() > 0.8
    inner = koofu.Gallery.build(X, metric="inner").search(X[:9], 1)
    assert (inner.rows[:, 0] == (X[:9] @ X.T).argmax(1)).all()


def test_files(tmp_path):
    model = koofu.fit(X, NAMES, n_components=2)
    path = tmp_path / "g.safetensors"
    ids = [f"row {i}" for i in range(len(X))]
    in_memory = koofu.Gallery.build(X, NAMES, model=model, ids=ids, k=7)
    in_memory.save(path)
    written = koofu.Gallery.load(path)
    assert (written.search(X, 3).rows == in_memory.search(X, 3).rows).all()
    assert (written.dim_in, written.dim, written.k, written.id(5)) == (16, 2, 7, "row 5")
    grown = koofu.Gallery.build(X[:50], NAMES[:50], model=model, ids=ids[:50], path=tmp_path /
                                "h.safetensors")
    assert grown.append(X[50:], NAMES[50:], ids=ids[50:]) and len(grown) == 120
    assert not grown.append(X[50:], NAMES[50:], ids=ids[50:]) and len(grown) == 120
    assert (grown.itself(3).rows == written.itself(3).rows).all() and grown.id(77) == "row 77"
    lean = koofu.Gallery.load(path, rerank_from_disk=True)
    assert lean.nbytes < written.nbytes and (lean.search(X, 3).rows == written.search(X, 3).rows).all()
    assert 1 <= koofu.Gallery.build(X, Y, k="auto").k <= 50
    with pytest.raises(ValueError, match="in memory and cannot change"):
        in_memory.append(X)


def test_evaluate():
    model = koofu.fit(X[::2], NAMES[::2])
    found = koofu.evaluate(model, X[1::2], NAMES[1::2])
    right = (model.predict(X[1::2]) == NAMES[1::2]).sum()
    assert (found.top1, found.n) == (right / 60, 60)
    assert found.interval == koofu.interval95(right, 60) and found.interval[0] < found.top1 <= found.interval[1]
    assert found.top1 <= found.top5 <= 1 and 0 < found.raw_top1 <= found.raw_top5 <= 1
    assert koofu.evaluate(model, X[1::2], NAMES[1::2], raw=False).raw_top1 is None
    assert koofu.evaluate(model, X, NAMES, only=["ant", "eel"]).n == 80
    gallery = koofu.Gallery.build(X[::2], NAMES[::2])
    votes = koofu.evaluate(gallery, X[1::2], NAMES[1::2], k=5)
    assert votes.top1 == (gallery.predict(X[1::2], 5) == NAMES[1::2]).mean() and votes.raw_top5 is None
    assert koofu.evaluate(gallery, k=3).n == 60


def test_compare():
    model, coarse = koofu.fit(X, Y), koofu.fit(X, Y, n_components=1)
    result = koofu.compare(model, coarse, X, Y)
    a, b = model.predict(X) == Y, coarse.predict(X) == Y
    assert (result.both, result.only_a, result.only_b) == ((a & b).sum(), (a & ~b).sum(),
                                                           (b & ~a).sum())
    assert result.low <= result.difference <= result.high and 0 <= result.p <= 1
    assert koofu.compare(model, model, X, Y, raw_b=True).n == 120


def test_sweep_and_report(tmp_path):
    table = koofu.sweep(X[::2], Y[::2], test=(X[1::2], Y[1::2]), lambdas=["0.3x", 5.0], dims=[16, 2],
                        k=[1, 5])
    assert {len(column) for column in table.values()} == {len(table["kind"])}
    chosen = ((table["kind"] == "prototypes") & ~table["raw"] & (table["dim"] == 2) &
              (table["lambda"] == 5.0))
    model = koofu.fit(X[::2], Y[::2], lambda_=5.0, n_components=2)
    assert table["top1"][chosen].tolist() == [(model.predict(X[1::2]) == Y[1::2]).mean()]
    assert (table["top1"] <= table["top5"]).all() and (table["top5"] <= 1).all() and "accuracy" not in table
    page = tmp_path / "page.html"
    figures = koofu.report(page, X[::2], Y[::2], test=(X[1::2], Y[1::2]), title="Ants & eels")
    assert "Ants &amp; eels" in page.read_text(encoding="utf-8") and figures["test_n"] == 60
    assert 0 < figures["test_raw_top1"] <= 1 and figures["test_top1"] == koofu.evaluate(
        koofu.fit(X[::2], Y[::2]), X[1::2], Y[1::2]).top1
    assert koofu.report(page, X, Y)["test_top1"] is None
    figures = koofu.report(page, X, Y, sample=50, neighbours=False)
    assert (figures["n_judged"], figures["n_to_judge"], figures["held_n"]) == (50, 120, 50)
    assert "-NN" not in page.read_text(encoding="utf-8")


def test_figures_are_those_of_the_json_of_the_program(tmp_path):
    if "KOOFU" not in os.environ:
        pytest.skip("the program is not here")
    model = koofu.fit(X[::2], NAMES[::2])
    model.save(tmp_path / "m.safetensors")
    koofu.Data(X[1::2], NAMES[1::2]).save(tmp_path / "test.safetensors")
    made = subprocess.run([os.environ["KOOFU"], "eval", "--json", tmp_path / "m.safetensors", tmp_path / "test.safetensors"],
                          capture_output=True, check=True)
    said, ours = json.loads(made.stdout), koofu.evaluate(model, X[1::2], NAMES[1::2])
    for name in ("n", "rows", "top1", "top5", "raw_top1", "raw_top5"):
        assert getattr(ours, name) == said[name]
    assert ours.interval == (said["top1_low"], said["top1_high"])


IDS = [f"photo {i} <b>" for i in range(120)]


def test_hits_have_labels_and_ids():
    gallery = koofu.Gallery.build(X, NAMES, ids=IDS)
    hits = gallery.search(X[:7], k=4)
    rows, scores = hits
    assert rows is hits.rows and scores is hits.scores and len(hits) == 2
    assert (hits.labels == NAMES[rows]).all() and (hits.ids == np.array(IDS)[rows]).all()
    assert hits.labels.shape == hits.ids.shape == (7, 4)
    near = gallery.within(X[:7], 0.5)
    assert (near[2].labels == NAMES[near[2].rows]).all() and (near.ids == np.array(IDS)[near.rows]).all()
    assert (near[2].ids == np.array(IDS)[near[2].rows]).all()
    some = koofu.Gallery.build(X[:2], [NAMES[0], None], unlabelled="skip")
    assert some.itself(k=1).labels.tolist() == [[None], [NAMES[0]]]
    assert koofu.Gallery.build(X, Y).search(X[:3], 2).labels.tolist() == Y[gallery.search(X[:3], 2).rows].tolist()
    plain = koofu.Gallery.build(X).search(X[:3], 2)
    assert plain.labels is None and plain.ids is None
    for again in (pickle.loads(pickle.dumps(hits)), copy.deepcopy(hits)):
        assert (again.rows == rows).all() and (again.ids == hits.ids).all() and (again.labels == hits.labels).all()
    again = pickle.loads(pickle.dumps(near))
    assert (again[1].ids == near[1].ids).all() and (again.labels == near.labels).all()


def test_hits_are_of_the_gallery_as_it_was(tmp_path):
    gallery = koofu.Gallery.build(X, NAMES, ids=IDS, path=tmp_path / "g.safetensors")
    hits = gallery.search(X[:5], k=3)
    gallery.remove(IDS[:60])
    assert (hits.ids == np.array(IDS)[hits.rows]).all() and (hits.labels == NAMES[hits.rows]).all()


def test_tables_for_notebooks_are_well_formed_and_escaped():
    from xml.etree import ElementTree

    odd = np.array(["<script>alert(1)</script>", "a&b", "x" * 500])[Y]
    gallery = koofu.Gallery.build(X, odd, ids=IDS)
    model = koofu.fit(X, odd, reject=0.9)
    found = koofu.evaluate(model, X, odd)
    shown = {"Model": model, "Evaluation": found, "Hits": gallery.search(X, k=12), "one": gallery.within(X[:2], 0.5)[0],
             "votes": koofu.evaluate(gallery, k=3), "statistics": koofu.fit(koofu.Stats.of(X, Y))}
    for name, thing in shown.items():
        page = thing._repr_html_()
        text = "".join(ElementTree.fromstring(page).itertext())
        assert "<script" not in page and "<b>" not in page.replace("<b>koofu.", "") and "x" * 100 not in page, name
    text = "".join(ElementTree.fromstring(model._repr_html_()).itertext())
    assert "<script>alert(1)</script>, a&b" in text and "lambda" in text and "120" in text
    text = "".join(ElementTree.fromstring(found._repr_html_()).itertext())
    assert f"{100 * found.top1:.2f} %" in text and f"{100 * found.raw_top5:.2f} %" in text
    assert "photo 0 <b>: 1.0000" in "".join(ElementTree.fromstring(shown["Hits"]._repr_html_()).itertext())


@pytest.fixture(scope="module")
def encoder():
    folder = MODELS / "clip-bf16"
    if not folder.is_dir():
        pytest.skip("there is no model")
    return koofu.Encoder(folder, precision="float32")


def test_pictures(encoder):
    paths = sorted(IMAGES.glob("exif?.png"))[:3]
    rows = encoder.images(paths)
    assert rows.shape == (3, encoder.dim) and np.isfinite(rows).all()
    assert (encoder.images([str(p) for p in paths]) == rows).all()
    assert (encoder.images([p.read_bytes() for p in paths]) == rows).all()
    assert (encoder.images([paths[0], paths[1].read_bytes()]) == rows[:2]).all()
    assert (encoder.images(paths[0]) == rows[:1]).all()
    assert (encoder.images(paths[0].read_bytes()) == rows[:1]).all()
    assert (pickle.loads(pickle.dumps(encoder)).images(paths[2]) == rows[2:]).all()
    with pytest.raises(koofu.KooFuValueError, match="^picture 1: is not a JPEG, PNG or WebP"):
        encoder.images([paths[0].read_bytes(), b"no picture"])
    kept = encoder.images([paths[0].read_bytes(), b"no picture"], bad="zero")
    assert (kept[0] == rows[0]).all() and (kept[1] == 0).all()


def test_pictures_of_pixels(encoder):
    Image = pytest.importorskip("PIL.Image")
    path = sorted(IMAGES.glob("exif1.png"))[0]
    picture = Image.open(path)
    want = encoder.images(path)
    assert (encoder.images(picture) == want).all()
    assert (encoder.images(np.asarray(picture.convert("RGB"))) == want).all()
    assert (encoder.images([picture, picture]) == want).all()


def test_pixels_are_checked(encoder):
    pixels = np.random.default_rng(0).integers(0, 255, (40, 30, 3), dtype=np.uint8)
    assert encoder.images(pixels).shape == (1, encoder.dim)
    assert (encoder.images(np.asfortranarray(pixels)) == encoder.images(pixels)).all()
    with pytest.raises(TypeError, match="^picture 0 has the dtype float64; pixels must be uint8$"):
        encoder.images(pixels / 255)
    with pytest.raises(ValueError, match="nor a uint8 array of height, width and 3 colours"):
        encoder.images(np.zeros((3, 40, 30), np.uint8))


def test_words(encoder, tmp_path):
    rows = encoder.texts(["a photo of a dog", "two cats"])
    assert rows.shape == (2, encoder.dim) and (encoder.texts("two cats") == rows[1:]).all()
    assert len(encoder.tokens("two cats")) >= 3
    text = koofu.Text.of_prompts(encoder, ["dog", "cat"], templates="builtin1")
    assert text.class_names == ["dog", "cat"]
    text.save(tmp_path / "text.safetensors")
    assert (koofu.Text.load(tmp_path / "text.safetensors").rows == text.rows).all()
    assert encoder.text_mean().shape == (encoder.dim,)


def test_embedding_a_folder(encoder, tmp_path):
    for kind in "ants", "eels":
        (tmp_path / kind).mkdir()
        for i, path in enumerate(sorted(IMAGES.glob("exif?.png"))[:2]):
            (tmp_path / kind / f"{i}.png").write_bytes(path.read_bytes())
    out = tmp_path / "rows.safetensors"
    assert encoder.embed(tmp_path, out)["rows"] == 4
    data = koofu.Data(out)
    assert data.class_names == ["ants", "eels"] and data.has_ids and data.shape == (4, encoder.dim)
    assert (data.rows(0, 1) == encoder.images(tmp_path / "ants" / "0.png")).all()
