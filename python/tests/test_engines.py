"""Dask, Ray and Spark in local mode give the bytes of one machine."""

import os
import sys

import numpy as np
import pytest

import koofu
from koofu import _koofu, _parts


def world(strings, n=600, dim=16, classes=4):
    rng = np.random.default_rng(3)
    y = np.arange(n) % classes
    X = (rng.normal(size=(classes, dim))[y] + 1.5 * rng.normal(size=(n, dim))).astype(np.float32)
    return X, np.array(["ant", "bee", "cat", "dög"])[y] if strings else y


OPTIONS = [{}, {"lambda_": "0.3x", "n_components": 3}, {"normalize": False}]


def check(fit, X, y):
    """Compares fit(options) of the engine with one machine."""
    for options in OPTIONS:
        assert fit(**options) == koofu.fit(X, y, **options), options
    assert fit(choose=False) == koofu.fit(koofu.Stats.of(X, y))


@pytest.mark.parametrize("strings", [False, True])
def test_parts_by_hand(strings):
    X, y = world(strings)
    edges = [0, 1, 250, 250, 599, 600]  # one part is empty, and classes are missing in some
    parts = [(X[a:b], y[a:b]) for a, b in zip(edges, edges[1:])]

    def fit(choose=True, normalize=True, **options):
        exponent = None if normalize else _parts.exponent_of(max(_parts.largest_value(p) for p, _ in parts))
        counted = [_parts.count_part(*part, normalize, exponent, "error") for part in parts]
        stats = _parts.add([s for s, _ in reversed(counted)])
        return _parts.fit_parts(stats, [labels for _, labels in counted], lambda i: parts[i][0], choose,
                                "error", {**options, "normalize": normalize})

    check(fit, X, y)
    assert fit(n_components="auto", folds=3) == koofu.fit(X, y, n_components="auto", folds=3)


def test_what_goes_wrong_with_a_part_reaches_the_caller():
    X, y = world(False)
    stats, labels = _parts.count_part(X, y, True, None, "error")
    with pytest.raises(ZeroDivisionError):
        _parts.fit_parts(stats, [labels], lambda i: 1 // 0, True, "error", {})
    with pytest.raises(ValueError, match="has changed"):
        _parts.fit_parts(stats, [labels], lambda i: X[1:], True, "error", {})
    with pytest.raises(ValueError, match="no rows"):
        _parts.fit_parts(None, [], lambda i: X, True, "error", {})


def test_tracebacks_keep_no_memory_of_the_library(monkeypatch):
    """Rows are written to memory that is gone after the call, even if the view or an error is
    kept."""
    stats, labels = _parts.count_part(*world(False), True, None, "error")
    told, views = [], []
    monkeypatch.setattr(sys, "unraisablehook", told.append)
    with pytest.raises(ZeroDivisionError) as caught:
        _parts.fit_parts(stats, [labels], lambda i: 1 // 0, True, "error", {})
    assert not told
    place = caught.value.__traceback__
    while place is not None:
        for value in place.tb_frame.f_locals.values():
            views += [value] if isinstance(value, memoryview) else []
            while isinstance(value, np.ndarray):
                value = value.base
                assert not isinstance(value, memoryview), place.tb_frame
        place = place.tb_next
    assert views

    def bring(first, n, view):
        views.append(view)
        raise ZeroDivisionError

    data = koofu.Data.__new__(koofu.Data)
    data._capsule = _koofu.data_callback(bring, stats.rows, stats.dim, labels.codes.astype("i4"), None, 4, 0)
    with pytest.raises(koofu.KooFuError):
        koofu.Stats.of(data)
    assert {each.exc_type for each in told} == {ZeroDivisionError}
    for view in views:
        with pytest.raises(ValueError, match="released"):
            view.tobytes()


@pytest.mark.parametrize("strings", [False, True])
def test_dask(strings):
    da = pytest.importorskip("dask.array")
    import koofu.dask

    X, y = world(strings)
    rows, labels = da.from_array(X, chunks=(130, 9)), da.from_array(y, chunks=200)
    check(lambda **options: koofu.dask.fit(rows, labels, split_every=2, **options), X, y)
    model = koofu.fit(X, y)
    assert np.array_equal(koofu.dask.transform(model, rows).compute(), model.transform(X))
    assert np.array_equal(koofu.dask.predict(model, rows).compute(), model.predict(X))
    with pytest.raises(ValueError, match="split_every"):
        koofu.dask.fit(rows, labels, split_every=1)
    pd, dd = pytest.importorskip("pandas"), pytest.importorskip("dask.dataframe")
    frame = dd.from_pandas(pd.DataFrame(X).assign(y=y), npartitions=3)
    rows = frame.drop(columns="y")
    assert koofu.dask.fit(rows, frame["y"]) == model
    assert np.array_equal(koofu.dask.predict(model, rows).compute(), model.predict(X))
    with pytest.raises(ValueError, match="partitions"):
        koofu.dask.fit(rows, frame["y"].repartition(npartitions=2))


def environment():
    """Workers find koofu where this process finds it."""
    return {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray")
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR",
             runtime_env={"env_vars": environment()})
    yield ray
    ray.shutdown()


@pytest.mark.parametrize("strings", [False, True])
def test_ray(cluster, strings):
    import koofu.ray

    X, y = world(strings)
    items = [{"features": row, "label": label} for row, label in zip(X, y.tolist())]
    data = cluster.data.from_items(items, override_num_blocks=5)
    check(lambda **options: koofu.ray.fit(data, split_every=2, **options), X, y)
    model = koofu.fit(X, y)
    answers = koofu.ray.predict(model, koofu.ray.transform(model, data)).take_all()
    by_row = {tuple(a["features"]): a for a in answers}
    found = [by_row[tuple(row)] for row in X]
    assert np.array_equal(np.stack([a["mapped"] for a in found]), model.transform(X))
    assert [a["class"] for a in found] == model.predict(X).tolist()


@pytest.fixture(scope="module")
def spark():
    sql = pytest.importorskip("pyspark.sql")
    os.environ.update(environment(), PYSPARK_PYTHON=sys.executable)
    session = (sql.SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
               .config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
               .getOrCreate())
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()


@pytest.mark.parametrize("strings", [False, True])
def test_spark(spark, strings):
    import koofu.spark

    X, y = world(strings)
    kind = "string" if strings else "int"
    frame = spark.createDataFrame([(row.tolist(), label) for row, label in zip(X, y.tolist())],
                                  f"features array<float>, label {kind}")
    check(lambda **options: koofu.spark.fit(frame, **options), X, y)
    model = koofu.fit(X, y)
    answers = koofu.spark.predict(model, koofu.spark.transform(model, frame)).collect()
    assert np.array_equal(np.array([a["mapped"] for a in answers], dtype="f4"), model.transform(X))
    assert [a["class"] for a in answers] == model.predict(X).tolist()
    assert koofu.spark.fit(frame.repartition(1).sortWithinPartitions("label"), choose=False) == koofu.fit(
        koofu.Stats.of(X, y))
