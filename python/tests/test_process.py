"""Threads, fork, interrupts and memory."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import traceback

import numpy as np
import pytest

import koofu
from test_arrays import X, Y


def run(code, *arguments, timeout=300):
    """Runs a program of its own, which must succeed; returns what it prints."""
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(code), *arguments], timeout=timeout,
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_eight_threads_use_one_model():
    model, gallery = koofu.fit(X, Y), koofu.Gallery.build(X, Y)
    want = model.predict(X), model.scores(X), model.transform(X), gallery.search(X, 5).rows
    wrong = []

    def work(seed):
        try:
            rng = np.random.default_rng(seed)
            for _ in range(40):
                part = rng.permutation(len(X))[: rng.integers(1, len(X))]
                got = (model.predict(X[part]), model.scores(X[part]), model.transform(X[part]),
                       gallery.search(X[part], 5).rows)
                if not all((a == b[part]).all() for a, b in zip(got, want)):
                    wrong.append(seed)
                if koofu.Stats.of(X[part], Y[part]).rows != len(part):
                    wrong.append(seed)
        except Exception:
            wrong.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def in_child(work):
    """Whether work() is true in a forked child."""
    child = os.fork()
    if child == 0:
        try:
            os._exit(0 if work() else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == 0


def test_fork_after_use():
    model, gallery = koofu.fit(X, Y), koofu.Gallery.build(X, Y)
    want, fitted = model.predict(X), model.to_bytes()

    def work():
        return ((model.predict(X) == want).all() and koofu.fit(X, Y).to_bytes() == fitted and
                (gallery.itself(3).rows >= 0).all() and in_child(lambda: bool(
                    (model.predict(X) == want).all())))

    assert in_child(work) and in_child(work) and work()


def test_fork_while_others_work():
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            koofu.Stats.of(X, Y)

    model = koofu.fit(X, Y)
    others = [threading.Thread(target=busy) for _ in range(3)]
    for thread in others:
        thread.start()
    try:
        assert all(in_child(lambda: len(model.predict(X)) == len(X)) for _ in range(5))
    finally:
        stop.set()
        for thread in others:
            thread.join()


# Work that takes far longer than a second on any machine, interrupted after one.
INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np, koofu
    rng = np.random.default_rng(0)
    X = rng.normal(size=(4000, 64)).astype("f4")
    y = np.arange(4000) % 40
    model = koofu.fit(X, y, lambda_="1x")
    gallery = koofu.Gallery.build(X)

    def long_predict():
        for _ in range(1000):
            model.predict(np.tile(X, (100, 1)))

    def long_search():
        gallery.search(np.tile(X, (1000, 1)), 100)

    def long_fit():
        koofu.fit(np.tile(X, (300, 1)), np.tile(y, 300), n_components="auto", folds=50)

    work = {"predict": long_predict, "search": long_search, "fit": long_fit}[sys.argv[1]]
    def interrupt():
        time.sleep(1)
        os.kill(os.getpid(), signal.SIGINT)
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        work()
    except KeyboardInterrupt:
        print("stopped", koofu.fit(X[:400], y[:400]).n_classes)
    else:
        print("done")
"""


@pytest.mark.parametrize("what", ["predict", "search", "fit"])
def test_interrupts(what):
    """That it stops at all; how soon is a matter of the machine."""
    assert run(INTERRUPTED, what) == "stopped 40\n"


def test_a_handler_may_raise_anything():
    printed = run("""
        import signal, threading, os, time, numpy as np, koofu
        class Enough(Exception): pass
        def handler(*_): raise Enough("enough")
        signal.signal(signal.SIGALRM, handler)
        X = np.random.default_rng(0).normal(size=(4000, 64)).astype("f4")
        signal.setitimer(signal.ITIMER_REAL, 0.5)
        try:
            for _ in range(1_000_000):
                koofu.fit(X, np.arange(4000) % 40)
        except Enough as error:
            print(error)
    """)
    assert printed == "enough\n"


# Peak memory above what the array itself takes, in MiB.
GROWTH = """
    import resource, sys
    import numpy as np, koofu
    def peak():
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((120_000, 256), dtype="f4").astype(sys.argv[1])
    y = np.arange(len(rows)) % 20
    koofu.configure(threads=2)
    small = koofu.fit(rows[:2000], y[:2000])
    small.predict(rows[:2000])
    # A peak that was there before must not hide what comes: the largest array so far is `rows`.
    before = peak()
    now = int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize() / 2**20
    koofu.fit(rows, y, lambda_="1x")
    small.predict(rows)
    print(max(0, peak() - max(before, now)), before - now)
"""


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_fit_copies_nothing(dtype):
    size = 120_000 * 256 * np.dtype(dtype).itemsize / 2**20
    growth, hidden = (float(x) for x in run(GROWTH, dtype).split())
    assert growth + hidden < 60 < size, (growth, hidden)
