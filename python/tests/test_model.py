"""Statistics and models: files, bytes, pickles, sums, and the same bytes as the command line."""

import copy
import logging
import os
import pickle
import subprocess
import warnings

import numpy as np
import pytest

import koofu
from test_arrays import NAMES, X, Y


def test_statistics_add_up():
    whole = koofu.Stats.of(X, NAMES)
    parts = [koofu.Stats.of(X[i::4], NAMES[i::4]) for i in range(4)]
    assert sum(parts) == whole == parts[3] + (parts[2] + (parts[0] + parts[1]))
    assert whole - parts[1] == parts[0] + parts[2] + parts[3]
    first = koofu.Stats.of(X[::4], NAMES[::4])
    before = first._capsule
    assert first.merge(*parts[1:]) is first and first == whole
    assert koofu.Stats(before) == parts[0]  # a reader keeps what it has


def test_classes_of_parts_are_joined_by_name():
    ant = NAMES == "ant"
    joined = koofu.Stats.of(X[ant], NAMES[ant]) + koofu.Stats.of(X[~ant], NAMES[~ant])
    assert joined == koofu.Stats.of(X, NAMES)


def test_scatter():
    unit = X.astype("f8") / np.linalg.norm(X.astype("f8"), axis=1)[:, None]
    within, between, mean = koofu.Stats.of(X, Y).scatter()
    means = np.array([unit[Y == k].mean(axis=0) for k in range(3)])
    rest = unit - means[Y]
    assert np.allclose(within, rest.T @ rest, atol=1e-5)
    assert np.allclose(between, 40 * (means - mean).T @ (means - mean), atol=1e-5)


@pytest.mark.parametrize("thing", [koofu.Stats.of(X, NAMES), koofu.fit(X, NAMES),
                                   koofu.fit(X, Y, n_components=2, normalize=False)])
def test_files_and_bytes(thing, tmp_path):
    path = tmp_path / "thing.safetensors"
    thing.save(path)
    assert path.read_bytes() == thing.to_bytes()
    for other in (type(thing).load(path), type(thing).from_bytes(bytearray(path.read_bytes())),
                  pickle.loads(pickle.dumps(thing)), copy.deepcopy(thing)):
        assert other == thing and other.to_bytes() == thing.to_bytes()
    for cut in b"", path.read_bytes()[:100], path.read_bytes()[:-1]:
        with pytest.raises(koofu.KooFuValueError):
            type(thing).from_bytes(cut)
    damaged = bytearray(path.read_bytes())
    damaged[-20] ^= 1
    with pytest.raises(koofu.KooFuValueError, match="the file is damaged"):
        type(thing).from_bytes(damaged)


def test_a_pickled_model_keeps_its_report():
    model = koofu.fit(X, Y)
    assert pickle.loads(pickle.dumps(model)).fit_report == model.fit_report
    assert model.fit_report.accuracy > 0.9


def test_same_bytes_as_the_command_line(tmp_path):
    program = os.environ.get("KOOFU")
    if not program:
        pytest.skip("KOOFU does not name the program")
    np.save(tmp_path / "x.npy", X)
    (tmp_path / "y.txt").write_text("\n".join(NAMES) + "\n", encoding="utf-8")
    subprocess.run([program, "fit", "x.npy", "--labels", "y.txt", "-o", "m.safetensors", "-q"],
                   cwd=tmp_path, check=True)
    want = (tmp_path / "m.safetensors").read_bytes()
    assert koofu.fit(X, NAMES).to_bytes() == want
    assert koofu.fit(tmp_path / "x.npy", tmp_path / "y.txt").to_bytes() == want
    assert koofu.fit(koofu.Data(X, NAMES), stats=koofu.Stats.of(X, NAMES)).to_bytes() == want


def test_use():
    model = koofu.fit(X, NAMES)
    classes, scores = model.classify(X, top=3)
    table = model.scores(X)
    assert (np.take_along_axis(table, classes.astype("i8"), 1) == scores).all()
    assert (model.predict(X) == np.array(model.class_names)[classes[:, 0]]).all()
    likely = model.probabilities(X)
    assert np.allclose(likely.sum(axis=1), 1) and (likely.argmax(1) == table.argmax(1)).all()
    best, share = model.top_probabilities(X, 2)
    assert (np.take_along_axis(likely, best.astype("i8"), 1) == share).all()
    mapped = model.transform(X)
    assert mapped.dtype == np.float32 and np.allclose(np.linalg.norm(mapped, axis=1), 1)
    assert (mapped @ model.prototypes.T).argmax(1).tolist() == classes[:, 0].tolist()
    for rows in X.astype("f8"), X[:, ::-1][:, ::-1], koofu.Data(X):
        assert (model.transform(rows) == mapped).all()
        assert (model.scores(rows) == table).all()


def test_long_input_in_blocks(tmp_path):
    many = np.tile(X, (120, 20)).astype("f4")  # 14,400 rows of 320: more than a block
    many += np.random.default_rng(1).normal(size=many.shape).astype("f4") * 0.1
    model = koofu.fit(many[:600], np.tile(Y, 5), lambda_="1x", n_components=2)
    np.save(tmp_path / "many.npy", many)
    for use in model.transform, model.predict, model.scores:
        assert (use(many) == use(many.astype("f8"))).all()
        assert (use(many) == use(tmp_path / "many.npy")).all()
        assert (use(many)[-1:] == use(many[-1:])).all()
    many[14000, 7] = np.inf
    for use in model.transform, model.predict, model.scores:
        with pytest.raises(ValueError, match="^row 14000: column 7 is infinite$"):
            use(many)


def test_distances():
    model = koofu.fit(X, Y, normalize=False)
    scores = model.scores(X)
    assert (scores <= 0).all() and (scores.argmax(1) == model.predict(X)).all()
    assert not model.normalized and np.allclose(model.probabilities(X).sum(axis=1), 1)


def test_classes_without_rows():
    model = koofu.fit(X, NAMES, classes=["ant", "bee", "eel", "öre"])
    assert model.counts.tolist() == [40, 0, 40, 40]
    assert (model.scores(X)[:, 1] == -np.inf).all() and (model.probabilities(X)[:, 1] == 0).all()


def test_priors():
    uneven = np.concatenate([np.flatnonzero(Y == 0), np.flatnonzero(Y == 1)[:4]])
    kept = koofu.fit(X[uneven], Y[uneven], normalize=False)
    equal = koofu.fit(X[uneven], Y[uneven], normalize=False, priors="equal")
    assert (kept.priors, equal.priors) == ("training", "equal")
    cosine = [koofu.fit(X[uneven], Y[uneven], lambda_="1x", priors=p) for p in ("equal", "training")]
    assert [m.priors for m in cosine] == ["equal", "training"]
    less = cosine[0].scores(X) - cosine[1].scores(X)
    assert np.allclose(less[:, 0], 0) and np.allclose(less[:, 1], np.log(40 / 4) / cosine[1].temperature, atol=1e-5)
    with pytest.raises(ValueError, match="priors"):
        koofu.fit(X, Y, priors="mine")
    table = koofu.sweep(X[uneven], Y[uneven], normalize=False, priors="equal", raw=False)
    assert table["n"].tolist() == [44]


def test_settings(caplog):
    assert koofu.fit(X, Y, lambda_=5.0).lambda_ == 5.0
    twice = koofu.fit(X, Y, lambda_="2x")
    assert np.isclose(twice.lambda_, 2 * twice.mean_eigenvalue)
    paper = koofu.fit(X, Y, method="paper", centre="none", metric="cosine")
    assert (paper.method, paper.centre) == ("paper", "none")
    assert koofu.fit(X, Y, reject=0.9).reject is not None
    assert koofu.fit(X, Y, reject=0.9).knows(X).mean() > 0.8
    assert koofu.fit(X, Y, groups=np.arange(120) // 6).fit_report.n > 0
    from_sums = koofu.fit(koofu.Stats.of(X, Y), n_components=2)
    assert from_sums.fit_report is None and from_sums.dim_out == 2
    more = koofu.fit(X, NAMES).with_class("yak", X[:5])
    assert more.class_names[-1] == "yak" and more.n_classes == 4
    with caplog.at_level(logging.INFO, "koofu"):
        koofu.fit(X, Y, zero_rows="skip")


def test_text():
    rng = np.random.default_rng(3)
    text = koofu.Text.of(rng.normal(size=(3, 16)).astype("f4"), ["ant", "eel", "öre"])
    model = koofu.fit(X, NAMES, text=text)
    assert model.fused and model.alpha is not None
    assert koofu.Text.of_model(model).class_names == text.class_names
    assert (pickle.loads(pickle.dumps(text)).rows == text.rows).all()
    shot = koofu.fit(X, NAMES).zero_shot(text)
    assert shot.class_names == text.class_names
    assert koofu.fit(X, NAMES).with_text(text, alpha=2.0).alpha == 2.0
    prompts = rng.normal(size=(6, 16)).astype("f4")
    by_two = koofu.Text.of(prompts, per_class=2, classes=["a", "b", "c"])
    assert by_two.rows.shape == (3, 16)
    assert (koofu.Text.of(prompts, [0, 0, 1, 1, 2, 2]).rows == by_two.rows).all()


def test_export(tmp_path):
    """Every kind of file has the same bytes as from the command line."""
    model = koofu.fit(X, NAMES)
    model.save(tmp_path / "m.safetensors")
    koofu.Gallery.build(X, model=model, path=tmp_path / "g.safetensors")
    for name, words, options in [
            ("m.onnx", [], {}), ("n.onnx", ["--raw", "--metric", "euclidean", "--temperature", "3", "--single"],
                                 {"raw": True, "metric": "euclidean", "temperature": 3, "single": True}),
            ("m.npz", [], {}), ("m.c", ["--no-normalize"], {"normalize": False}), ("hub/", ["--license", "mit", "--base-model", "a/b"], {"license": "mit", "base_model": "a/b"}),
            ("m.faiss", ["--gallery", str(tmp_path / "g.safetensors")], {"gallery": tmp_path / "g.safetensors"}),
            ("e.faiss", ["--metric", "inner"], {"metric": "inner"})]:
        ours, theirs = tmp_path / "py", tmp_path / "cli"
        for folder in ours, theirs:
            folder.mkdir(exist_ok=True)
        model.export(str(ours / name) + "/" * name.endswith("/"), **options)
        if "KOOFU" not in os.environ:
            continue
        subprocess.run([os.environ["KOOFU"], "export", str(tmp_path / "m.safetensors"), "-q", "-o",
                        str(theirs / name) + "/" * name.endswith("/"), *words], check=True)
        for path in ours.rglob("*"):
            assert path.is_dir() or path.read_bytes() == (theirs / path.relative_to(ours)).read_bytes(), path
    assert koofu.Model.load(tmp_path / "py" / "hub" / "model.safetensors") == model
    with pytest.raises(koofu.KooFuValueError, match="unknown extension"):
        model.export(tmp_path / "m.pb")
    with pytest.raises(ValueError, match="metric"):
        model.export(tmp_path / "x.onnx", metric="nearest")
    assert not (tmp_path / "m.pb").exists()


def test_copies_left_in_are_warned_of():
    n = np.full(len(X), 2)
    X2, Y2, copies = np.repeat(X, n, axis=0), np.repeat(Y, n), np.repeat(np.arange(len(X)), n)
    with pytest.warns(UserWarning) as caught:
        model = koofu.fit(X2, Y2)
    assert model.fit_report.many_near == 1 and [w.filename for w in caught] == [__file__]
    assert str(caught[0].message) == (
        "240 of 240 rows checked have a nearly equal row in their class, such as a copy or another frame of a video; "
        "figures of rows left out one by one are then optimistic, and lambda too small: leave out whole groups instead "
        "(koofu.fit(..., groups=))")
    with pytest.warns(UserWarning, match="in their class, in another group, .*: put them into one group$"):
        koofu.fit(X2, Y2, groups=np.arange(240))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        koofu.fit(X, Y)
        koofu.fit(X2, Y2, groups=copies)
        koofu.fit(X2, Y2, lambda_="1x")  # nothing was left out


def test_paths_stand_for_what_is_in_them(tmp_path):
    model, gallery, stats = koofu.fit(X, Y), koofu.Gallery.build(X, Y), koofu.Stats.of(X, Y)
    text = koofu.Text.of(X[:3], Y[:3])
    for name, thing in (("model", model), ("gallery", gallery), ("stats", stats), ("text", text)):
        thing.save(tmp_path / f"{name}.safetensors")
    paths = {name: str(tmp_path / f"{name}.safetensors") for name in ("model", "gallery", "stats", "text")}
    for name, thing in (("model", model), ("gallery", gallery)):
        assert koofu.evaluate(paths[name], X, Y) == koofu.evaluate(thing, X, Y)
    assert koofu.compare(paths["model"], model, X, Y) == koofu.compare(model, model, X, Y)
    assert koofu.fit(stats, like=paths["model"]) == koofu.fit(stats, like=model)
    assert koofu.fit(X, Y, stats=paths["stats"], text=paths["text"]) == koofu.fit(X, Y, stats=stats, text=text)
    assert model.zero_shot(paths["text"]) == model.zero_shot(text)
    built = koofu.Gallery.build(X, Y, model=paths["model"])
    assert (built.search(X[:5], k=3).rows == koofu.Gallery.build(X, Y, model=model).search(X[:5], k=3).rows).all()
