"""koofu.KooFu: scikit-learn's own checks, and results that must be equal to the bit."""

import copy
import importlib.util
import os
import pickle
import shutil
import subprocess
import warnings

import numpy as np
import pytest

import koofu

sklearn = pytest.importorskip("sklearn")
from sklearn.base import clone  # noqa: E402
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis  # noqa: E402
from sklearn.exceptions import NotFittedError  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

RELEASE = tuple(int(x) for x in sklearn.__version__.split(".")[:2])

# The number of checks scikit-learn has for this estimator, to notice a release with fewer.
# All run in `make test` and `make test-python`; two need what a bare environment does not have.
CHECKS = {(1, 2): 56, (1, 9): 68}
CANNOT_RUN = {
    "check_classifier_data_not_an_array": importlib.util.find_spec("pandas") is None,
    "check_array_api_input": os.environ.get("SCIPY_ARRAY_API") != "1",
}


PLAIN = pytest.mark.filterwarnings("ignore:lambda_ is 0.3 times")  # nothing was chosen


def world(n=400, dim=16, classes=4, seed=0):
    rng = np.random.default_rng(seed)
    y = np.arange(n) % classes
    X = rng.normal(size=(classes, dim))[y] + 1.5 * rng.normal(size=(n, dim))
    return X.astype(np.float32), y


def same(a, b):
    return a.model_.to_bytes() == b.model_.to_bytes()


def run_checks(estimator):
    """(name, 'passed', 'skipped' or the error) of each check."""
    if RELEASE >= (1, 6):
        found = check_estimator(estimator, on_fail=None, on_skip=None)
        return [(r["check_name"], r["status"] if r["exception"] is None or r["status"] == "skipped"
                 else repr(r["exception"])) for r in found]
    from unittest import SkipTest

    out = []
    for one, check in check_estimator(estimator, generate_only=True):
        try:
            check(one)
            status = "passed"
        except SkipTest:
            status = "skipped"
        except Exception as error:
            status = repr(error)
        out.append((check.func.__name__, status))
    return out


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("options", [{}, {"normalize": False}, {"method": "paper", "lambda_": "1x"},
                                     {"normalize": False, "priors": "equal"}])
def test_every_check_of_scikit_learn_passes(options):
    results = run_checks(koofu.KooFu(**options))
    bad = [r for r in results if r[1] != "passed" and not (r[1] == "skipped" and CANNOT_RUN.get(r[0]))]
    assert bad == []
    assert len(results) >= max(n for release, n in CHECKS.items() if release <= RELEASE)
    if RELEASE in CHECKS:
        assert len(results) == CHECKS[RELEASE]


def test_fit_is_the_fit_of_the_library_and_of_the_command_line(tmp_path):
    X, y = world()
    estimator = koofu.KooFu().fit(X, y)
    assert estimator.model_ == koofu.fit(X, y)
    names = np.array(["cat", "dog", "eel", "fox"])[y]
    assert koofu.KooFu().fit(X, names).model_ == koofu.fit(X, names)
    program = os.environ.get("KOOFU") or shutil.which("koofu")
    if program is None:
        pytest.skip("the program is not here")
    np.save(tmp_path / "x.npy", X)
    np.save(tmp_path / "y.npy", names)
    subprocess.run([program, "fit", tmp_path / "x.npy", "--labels", tmp_path / "y.npy", "-o",
                    tmp_path / "model.safetensors"], check=True, capture_output=True)
    estimator = koofu.KooFu().fit(X, names)
    assert (tmp_path / "model.safetensors").read_bytes() == estimator.model_.to_bytes()
    estimator.save(tmp_path / "again.safetensors")
    assert (tmp_path / "again.safetensors").read_bytes() == estimator.model_.to_bytes()


def test_rows_are_taken_as_in_fit():
    from arrow_c import BFloat16, Chunks, Tensor
    from test_arrays import columns_of_arrays

    X, y = world(n=120)
    want = koofu.KooFu().fit(X, y)
    assert want.model_ == koofu.fit(X, y)
    rounded = BFloat16(X)
    kinds = [(rows, want, X) for rows in (*columns_of_arrays(X), Chunks([X]), Tensor(X))]
    for rows, wanted, values in [*kinds, (rounded, koofu.KooFu().fit(rounded.values, y), rounded.values)]:
        ours = koofu.KooFu().fit(rows, y)
        assert same(ours, wanted)
        assert np.array_equal(ours.fit_transform(rows, y), wanted.transform(values))
        for name in "predict", "transform", "predict_proba", "predict_log_proba", "decision_function":
            assert np.array_equal(getattr(ours, name)(rows), getattr(wanted, name)(values))
        assert ours.score(rows, y) == wanted.score(values, y)
        assert same(ours.partial_fit(rows, y), copy.deepcopy(wanted).partial_fit(values, y))
        assert same(ours.choose(rows, y), copy.deepcopy(wanted).partial_fit(values, y).choose(values, y))
    column = next(columns_of_arrays(X))
    column[7] = column[7][:3]
    with pytest.raises(ValueError, match="row 7 has 3"):
        want.predict(column)
    column[7] = np.full(16, np.nan)
    with pytest.raises(ValueError, match="NaN"):
        want.predict(column)


def test_answers_are_those_of_the_model():
    X, y = world()
    estimator = koofu.KooFu(n_components=3).fit(X[:300], y[:300])
    rest = X[300:]
    assert np.array_equal(estimator.predict(rest), estimator.model_.predict(rest))
    assert np.array_equal(estimator.transform(rest), estimator.model_.transform(rest))
    assert np.array_equal(estimator.predict_proba(rest), estimator.model_.probabilities(rest))
    scores = estimator.decision_function(rest)
    assert np.array_equal(estimator.classes_[scores.argmax(axis=1)], estimator.predict(rest))
    assert np.allclose(estimator.predict_proba(rest).sum(axis=1), 1)
    assert estimator.score(rest, y[300:]) > 0.8


@PLAIN
def test_batches_shards_and_sums_have_the_same_bytes():
    X, y = world(n=500)
    rng = np.random.default_rng(1)
    whole = koofu.KooFu().partial_fit(X, y)
    order = rng.permutation(len(X))
    batches = koofu.KooFu()
    for part in np.array_split(order, 7):
        batches.partial_fit(X[part], y[part])
    shards = [koofu.KooFu().partial_fit(X[i::3], y[i::3]) for i in range(3)]
    assert same(whole, batches)
    assert same(whole, sum(shards))
    assert same(whole, shards[2] + shards[0] + shards[1])
    assert same(whole, copy.deepcopy(shards[1]).merge(shards[2], shards[0]))
    assert whole.stats_ == koofu.Stats.of(X, y)
    assert whole.model_ == koofu.fit(koofu.Stats.of(X, y))


def settings(estimator):
    model = estimator.model_
    return model.lambda_, model.temperature, model.dim_out, model.alpha, model.method, model.priors


def added(estimator, X, y, calls=10):
    for rows in np.array_split(np.arange(len(X)), calls):
        estimator.partial_fit(X[rows], y[rows])
    return estimator


@pytest.mark.parametrize("options", [
    {}, {"method": "paper"}, {"n_components": "auto"}, {"n_components": 3}, {"lambda_": "ledoit-wolf"},
    {"priors": "training"}, {"normalize": False, "priors": "equal"}])
def test_what_was_chosen_is_kept_when_rows_are_added(options):
    X, y = world(n=500)
    first = koofu.KooFu(**options).fit(X[:250], y[:250])
    grown = added(copy.deepcopy(first), X[250:], y[250:])
    assert grown.stats_.rows == 500 and not same(grown, first)
    lambda_, temperature, *rest = settings(first)
    assert lambda_ == grown.chosen_lambda_ != 0.3 * grown.model_.mean_eigenvalue
    assert settings(grown)[2:] == tuple(rest)
    if options.get("normalize", True):
        assert grown.model_.temperature == temperature
    else:  # squared distances shrink as the scatter grows
        assert grown.model_.temperature == pytest.approx(temperature * 496 / 246)
    wide = copy.deepcopy(first).set_params(n_components=None).partial_fit(X[:9], y[:9])
    assert wide.n_components_ == 16 and wide.chosen_lambda_ == lambda_
    back = pickle.loads(pickle.dumps(grown))
    assert same(back.partial_fit(X[:2], y[:2]), grown.partial_fit(X[:2], y[:2]))
    assert settings(back)[0] == lambda_


def test_what_was_chosen_with_text_is_kept():
    X, y = world(n=120, classes=5)
    words = np.stack([X[y == k].mean(axis=0) for k in range(5)])
    fused = koofu.KooFu(text=words).fit(X[:60], y[:60])
    kept = settings(fused)
    assert settings(added(fused, X[60:], y[60:])) == kept and fused.counts_.sum() == 120


def test_of_merged_estimators_the_choice_from_most_rows_is_kept():
    X, y = world(n=500)
    parts = [koofu.KooFu().fit(X[a:b], y[a:b]) for a, b in ((0, 200), (200, 320), (320, 440))]
    parts.append(koofu.KooFu().partial_fit(X[440:], y[440:]))
    assert len({part.chosen_lambda_ for part in parts[:3]}) > 1
    whole = sum(parts)
    assert settings(whole) == settings(parts[0])
    for order in ([3, 2, 1, 0], [1, 3, 0, 2]):
        assert same(sum(parts[i] for i in order), whole)
    assert same((parts[0] + parts[1]) + (parts[2] + parts[3]), whole)
    equal = [koofu.KooFu().fit(X[i::2], y[i::2]) for i in range(2)]
    assert same(equal[0] + equal[1], equal[1] + equal[0])


def test_choosing_again():
    X, y = world(n=500)
    names = np.array(["cat", "dog", "eel", "fox"])[y]
    whole = koofu.KooFu(n_components="auto").fit(X, names)
    grown = added(koofu.KooFu(n_components="auto").fit(X[:40], names[:40]), X[40:], names[40:])
    assert settings(grown) != settings(whole)
    assert same(grown.choose(X, names), whole) and grown.stats_.rows == 500
    assert same(added(koofu.KooFu(), X, names).choose(X, names), koofu.KooFu().fit(X, names))
    some = names != "fox"  # a sample need not have all classes
    grown.choose(X[some], names[some])
    assert settings(grown)[0] != settings(whole)[0] and (grown.predict(X) == "fox").any()
    with pytest.raises(ValueError, match="gnu.*no row was added"):
        grown.choose(X[:8], ["gnu", "cat"] * 4)


def test_where_nothing_was_chosen_there_is_a_warning():
    X, y = world()
    with pytest.warns(UserWarning, match="lambda_ is 0.3 times"):
        assert koofu.KooFu().partial_fit(X, y).chosen_lambda_ > 0
    alone = koofu.KooFu().fit(X[:4], y[:4])  # a row for each class: nothing can be left out
    with pytest.warns(UserWarning, match="lambda_ is 0.3 times"):
        alone.partial_fit(X[4:], y[4:]).predict(X)
    fitted = koofu.KooFu().fit(X[:200], y[:200])
    with pytest.warns(UserWarning, match="lambda_ is 0.3 times"):
        fitted.set_params(method="paper").partial_fit(X[200:], y[200:]).predict(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        koofu.KooFu("0.3x").partial_fit(X, y).predict(X)
        fitted.set_params(method="shrunk").partial_fit(X[200:], y[200:]).predict(X)


PETS = os.path.join(os.environ.get("KOOFU_DATA", ""), "embeddings", "oxford_pets_vitb32_{}_{}.npy")


@pytest.mark.skipif(not os.path.exists(PETS.format("16shot", "x")), reason="the real data are not here")
def test_half_of_the_pets_and_the_rest_in_ten_calls(caplog):
    X, y, X_test, y_test = (np.load(PETS.format(part, end)) for part in ("16shot", "test") for end in "xy")
    order = np.random.default_rng(0).permutation(len(X))
    half, rest = order[:296], order[296:]
    whole = koofu.KooFu().fit(X, y)
    first = koofu.KooFu().fit(X[half], y[half])
    with caplog.at_level("INFO", "koofu"):
        grown = added(copy.deepcopy(first), X[rest], y[rest])
        accuracy = grown.score(X_test, y_test)
    assert f"lambda {first.chosen_lambda_:g} and temperature" in caplog.text and "chosen from 296 rows" in caplog.text
    assert abs(accuracy - whole.score(X_test, y_test)) <= 0.003
    summed = first + koofu.KooFu().partial_fit(X[rest], y[rest])
    merged = copy.deepcopy(first).merge(koofu.KooFu().partial_fit(X[rest], y[rest]))
    assert same(grown, summed) and same(grown, merged)
    assert same(koofu.KooFu().fit(X, y), grown.choose(X, y))


@PLAIN
def test_batches_with_other_labels():
    X, y = world(classes=5)
    names = np.array(["a", "b", "c", "d", "e"])[y]
    by_class = koofu.KooFu()
    for name in "ebdca":  # a class at a time
        by_class.partial_fit(X[names == name], names[names == name])
    assert same(by_class, koofu.KooFu().partial_fit(X, names))
    assert by_class.classes_.tolist() == list("abcde")

    odd = np.array([-7, 3, 10, 400, 2_000_000_000])[y]  # neither names nor class numbers
    both = koofu.KooFu().fit(X[odd < 10], odd[odd < 10]) + koofu.KooFu().fit(X[odd > 3], odd[odd > 3])
    assert both.classes_.tolist() == sorted(set(odd.tolist()))
    assert (both.predict(X) == odd).mean() > 0.7
    assert np.array_equal(both.counts_, np.bincount(y))

    declared = koofu.KooFu().partial_fit(X[:50], y[:50], classes=range(6))
    assert declared.classes_.tolist() == [0, 1, 2, 3, 4, 5]
    assert declared.predict_proba(X[:3]).shape == (3, 6)
    assert (declared.predict_proba(X)[:, 5] == 0).all() and declared.priors_[5] == 0
    with pytest.raises(ValueError, match="not in classes"):
        declared.partial_fit(X[:2], [1, 6])
    with pytest.raises(ValueError, match="classes is"):
        declared.partial_fit(X[:2], [1, 2], classes=range(3))


@PLAIN
def test_without_normalising_batches_share_a_unit():
    X, y = world()
    a = koofu.KooFu(normalize=False).partial_fit(X[:200], y[:200]).partial_fit(3 * X[200:], y[200:])
    assert a.stats_.rows == 400
    with pytest.raises(ValueError):
        a.partial_fit(1e6 * X, y)
    proba = a.predict_proba(X)
    assert np.allclose(proba.sum(axis=1), 1) and (proba.max(axis=1) > 0.9).any()


def test_pickles_and_copies(tmp_path):
    X, y = world()
    estimator = koofu.KooFu(n_components=3, lambda_="0.3x").fit(X, y)
    for other in (pickle.loads(pickle.dumps(estimator)), copy.copy(estimator), copy.deepcopy(estimator)):
        assert same(other, estimator) and other.get_params() == estimator.get_params()
        assert np.array_equal(other.predict_proba(X), estimator.predict_proba(X))
        other.partial_fit(X, y)
    assert estimator.stats_.rows == len(X)
    assert not hasattr(clone(estimator), "classes_")
    estimator.save(tmp_path / "m.safetensors")
    loaded = koofu.KooFu.load(tmp_path / "m.safetensors")
    assert same(loaded, estimator) and np.array_equal(loaded.predict(X), estimator.predict(X))
    assert loaded.n_components == 3 and loaded.classes_.tolist() == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="no statistics"):
        loaded.partial_fit(X, y)
    with pytest.raises(ValueError, match="no statistics"):
        loaded + estimator


def test_attributes_mean_what_they_mean_in_lda():
    X, y = world()
    X = (X / np.linalg.norm(X, axis=1, keepdims=True)).astype(np.float32)
    lda = LinearDiscriminantAnalysis(solver="eigen", shrinkage="auto").fit(X, y)
    ours = koofu.KooFu(n_components=3).fit(X, y)
    assert np.allclose(ours.means_, lda.means_, atol=1e-6)
    assert np.allclose(ours.priors_, lda.priors_)
    assert np.array_equal(ours.classes_, lda.classes_)
    assert ours.scalings_.shape == (16, 3) and ours.xbar_.shape == (16,)
    assert ours.explained_variance_ratio_.shape == (3,)
    mapped = (X - ours.xbar_) @ ours.scalings_
    mapped /= np.linalg.norm(mapped, axis=1, keepdims=True)
    assert np.allclose(mapped, ours.transform(X), atol=1e-5)
    assert ours.get_feature_names_out().tolist() == ["koofu0", "koofu1", "koofu2"]
    assert ours.n_components_ == 3 and ours.chosen_lambda_ == ours.model_.lambda_


@pytest.mark.parametrize("options", [
    {}, {"normalize": False}, {"method": "paper"}, {"n_components": "auto"}, {"lambda_": "ledoit-wolf"},
    {"priors": "training"}])
@pytest.mark.parametrize("labels", ["numbers", "names"])
def test_a_weight_is_as_many_rows(options, labels):
    X, y = world(n=240)
    X[3] = 0
    y = y if labels == "numbers" else np.array(["cat", "dog", "eel", "fox"])[y]
    rng = np.random.default_rng(3)
    weights = rng.integers(0, 6, len(X))
    weights[5], weights[y == y[2]] = 100, 8  # a class of one weight alone
    X2, y2 = np.repeat(X, weights, axis=0), np.repeat(y, weights)
    for given in (weights, weights.astype(float), weights.tolist()):
        weighted, repeated = koofu.KooFu(**options).fit(X, y, sample_weight=given), koofu.KooFu(**options).fit(X2, y2)
        assert same(weighted, repeated) and weighted.stats_ == repeated.stats_
    for rows in X.astype("f8"), X.astype("f2"), np.asfortranarray(X):
        again = np.repeat(rows, weights, axis=0)
        assert same(koofu.KooFu(**options).fit(rows, y, weights), koofu.KooFu(**options).fit(again, y2))
    more = rng.integers(1, 4, len(X))
    X3, y3 = np.repeat(X, more, axis=0), np.repeat(y, more)
    assert same(weighted.partial_fit(X, y, sample_weight=more), repeated.partial_fit(X3, y3))
    assert same(weighted.choose(X, y, sample_weight=more), repeated.choose(X3, y3))
    ones = np.ones(len(X))
    assert same(koofu.KooFu(**options).fit(X, y, ones), koofu.KooFu(**options).fit(X, y))
    assert weighted.score(X, y, sample_weight=ones / 3) == pytest.approx(weighted.score(X, y))


def test_large_weights_cost_a_pass_for_each_bit():
    X, y = world(n=40)
    weighted = koofu.KooFu("1x").partial_fit(X, y, sample_weight=np.full(40, 10**9))
    assert weighted.stats_.rows == 40 * 10**9
    assert (weighted.predict(X) == koofu.KooFu("1x").partial_fit(X, y).predict(X)).all()
    with pytest.raises(ValueError, match="2.40 rows"):
        koofu.KooFu("1x").partial_fit(X, y, sample_weight=np.full(40, 2**39))


@pytest.mark.parametrize("weights, error, message", [
    ([0.5] * 40, ValueError, r"sample_weight\[0\] is 0.5; weights must be whole numbers, since a row of weight 2"),
    ([1] * 39 + [-1], ValueError, r"sample_weight\[39\] is -1; weights must be whole"),
    ([1] * 39 + [np.nan], ValueError, r"sample_weight\[39\] is nan; weights must be whole"),
    ([1] * 39 + [np.inf], ValueError, r"sample_weight\[39\] is inf; weights must be whole"),
    ([1] * 39, ValueError, r"X has 40 rows, but sample_weight has the shape \(39,\)"),
    ([[1]] * 40, ValueError, r"X has 40 rows, but sample_weight has the shape \(40, 1\)"),
    (["1"] * 40, TypeError, "sample_weight has the dtype"),
    ([0] * 40, ValueError, "sample_weight is zero for all rows"),
])
def test_weights_that_cannot_be(weights, error, message):
    X, y = world(n=40)
    for call in (lambda: koofu.KooFu().fit(X, y, sample_weight=weights),
                 lambda: koofu.KooFu().partial_fit(X, y, sample_weight=weights)):
        with pytest.raises(error, match=message):
            call()


def test_zero_rows():
    X, y = world()
    X[3] = 0
    estimator = koofu.KooFu().fit(X, y)
    keep = np.arange(len(X)) != 3
    assert estimator.stats_ == koofu.Stats.of(X[keep], y[keep])
    assert not estimator.transform(X[3:4]).any()
    assert np.allclose(estimator.predict_proba(X[3:4]), 0.25)
    assert np.array_equal(estimator.predict(X)[keep], estimator.predict(X[keep]))
    with pytest.raises(ValueError, match="row 3"):
        koofu.KooFu(zero_rows="error").fit(X, y)
    with pytest.raises(ValueError, match="zero_rows"):
        koofu.KooFu(zero_rows="keep").fit(X, y)


def test_pipelines_and_searches():
    X, y = world(n=240)
    pipeline = make_pipeline(StandardScaler(), koofu.KooFu(lambda_="1x"))
    search = GridSearchCV(pipeline, {"koofu__lambda_": ["auto", "0.1x", 0.5],
                                     "koofu__n_components": [None, 3]}, cv=3).fit(X, y)
    assert len(search.cv_results_["params"]) == 6 and search.best_score_ > 0.6
    assert cross_val_score(koofu.KooFu(), X, y, cv=3, n_jobs=2).mean() > 0.6
    pytest.importorskip("pandas")
    frame = koofu.KooFu(n_components=2).set_output(transform="pandas").fit_transform(X, y)
    assert list(frame.columns) == ["koofu0", "koofu1"]


@PLAIN
def test_text():
    X, y = world(n=60, classes=5)
    rng = np.random.default_rng(2)
    means = np.stack([X[y == k].mean(axis=0) for k in range(5)])
    words = means + 0.1 * rng.normal(size=means.shape)
    plain = koofu.KooFu().fit(X, y)
    fused = koofu.KooFu(text=words).fit(X, y)
    assert fused.model_.fused and not plain.model_.fused
    names = np.array(list("abcde"))
    some = y < 4  # the last class has text alone
    few = koofu.KooFu(text=dict(zip(names, words))).fit(X[some], names[y[some]])
    assert few.classes_.tolist() == list("abcde") and few.counts_.tolist() == [12, 12, 12, 12, 0]
    assert (few.predict(X[~some]) == "e").mean() > 0.5
    prompts = koofu.KooFu(text={n: [w, 2 * w] for n, w in zip(names, words)}).fit(X, names[y])
    assert np.array_equal(prompts.predict(X), koofu.KooFu(text=words).fit(X, names[y]).predict(X))
    with pytest.raises(ValueError, match="alpha"):
        koofu.KooFu(text=words).partial_fit(X, y).predict(X)
    koofu.KooFu(text=words, alpha=0.5).partial_fit(X, y).predict(X)
    with pytest.raises(ValueError, match="text has 4 rows"):
        koofu.KooFu(text=words[:4]).fit(X, y)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda X, y: koofu.KooFu().fit(X, np.zeros(len(y))), "1 class"),
        (lambda X, y: koofu.KooFu(n_components=17).fit(X, y), "17"),
        (lambda X, y: koofu.KooFu(n_components="all").fit(X, y), "n_components"),
        (lambda X, y: koofu.KooFu(metric="hamming").fit(X, y), "metric"),
        (lambda X, y: koofu.KooFu(lambda_="much").fit(X, y), "much"),
        (lambda X, y: koofu.KooFu(lambda_=-1).fit(X, y), "lambda_"),
        (lambda X, y: koofu.KooFu(method="new").fit(X, y), "method"),
        (lambda X, y: koofu.KooFu().fit(X[:, :1], y), "n_features = 1"),
        (lambda X, y: koofu.KooFu().fit(X, y[1:]), "inconsistent"),
        (lambda X, y: koofu.KooFu().fit(X, y).predict(X[:, 1:]), "features"),
        (lambda X, y: koofu.KooFu().partial_fit(X, y).partial_fit(X, np.array(["a"] * len(y))), "numbers"),
        (lambda X, y: koofu.KooFu().fit(X, y) + koofu.KooFu().fit(X[:, 1:], y), "16 features"),
        (lambda X, y: koofu.KooFu().fit(X, y) + koofu.KooFu(normalize=False).fit(X, y), "cannot be combined"),
    ],
)
def test_bad_calls(call, message):
    X, y = world(n=40)
    with pytest.raises(ValueError, match=message):
        call(X, y)


def test_not_fitted():
    X, _ = world(n=40)
    for name in ("predict", "transform", "predict_proba", "decision_function"):
        with pytest.raises(NotFittedError):
            getattr(koofu.KooFu(), name)(X)
    with pytest.raises(NotFittedError):
        koofu.KooFu().model_
    with pytest.raises(TypeError):
        koofu.KooFu() + 1


def test_weights_are_warned_of():
    X, y = world()
    for fit in koofu.KooFu().fit, koofu.KooFu().fit(X, y).choose:
        with pytest.warns(UserWarning, match="rows checked have a nearly equal row") as caught:
            fit(X, y, sample_weight=np.full(len(X), 2))
        assert [w.filename for w in caught] == [__file__]


def test_sums_need_fitted_estimators():
    X, y = world()
    fitted = koofu.KooFu("1x").partial_fit(X, y)
    for add in (lambda: fitted + koofu.KooFu(), lambda: koofu.KooFu() + fitted, lambda: fitted.merge(koofu.KooFu())):
        with pytest.raises(NotFittedError):
            add()
