"""Threads, fork, interrupts and memory."""

import os
import re
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
    """Runs a program in a new process, which must succeed; returns its output."""
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


# One call that takes much longer than a second on any machine, interrupted after one second. All rows
# of `many` are the same one, so they take no memory; untouched parts of the outputs take none either.
INTERRUPTED = """
    import os, signal, sys, threading, time
    import numpy as np, koofu
    X = np.random.default_rng(0).normal(size=(4000, 64)).astype("f4")
    y = np.arange(4000) % 40
    model = koofu.fit(X, y, lambda_="1x")
    gallery = koofu.Gallery.build(X)

    def many(n, dim=64):
        return np.lib.stride_tricks.as_strided(X, (n, dim), (0, 4))

    work = {
        "predict": lambda: model.predict(many(100_000_000)),
        "search": lambda: gallery.search(many(20_000_000), 1),
        "within": lambda: gallery.within(many(20_000_000), 0.9999),
        "fit": lambda: koofu.fit(many(20_000_000, 768), np.tile(y.astype("i1"), 5000)),
    }[sys.argv[1]]

    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells ignore it in the background

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


@pytest.mark.parametrize("what", ["predict", "search", "within", "fit"])
def test_interrupts(what):
    """Only that it stops; how soon depends on the machine."""
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


# How far memory goes up, in MiB, while 60 times the rows of a first fit are fitted and used.
GROWTH = """
    import sys
    import numpy as np, koofu

    def memory(what):
        with open("/proc/self/status") as status:
            return next(int(line.split()[1]) for line in status if line.startswith(what)) / 1024

    rng = np.random.default_rng(0)
    few = rng.standard_normal((2000, 256)).astype(sys.argv[1])
    rows, y = np.tile(few, (60, 1)), np.arange(120_000) % 20
    koofu.configure(threads=2)
    model = koofu.fit(few, y[:2000], lambda_="1x")
    model.predict(few)
    with open("/proc/self/clear_refs", "w") as forget:
        forget.write("5")  # the highest mark is what it is now
    before = memory("VmRSS")
    koofu.fit(rows, y, lambda_="1x")
    model.predict(rows)
    print(memory("VmHWM") - before)
"""


@pytest.mark.parametrize("dtype", ["f4", "f8"])
def test_fit_copies_nothing(dtype):
    if not os.access("/proc/self/clear_refs", os.W_OK):
        pytest.skip("the highest mark of memory cannot be put back")
    size = 120_000 * 256 * np.dtype(dtype).itemsize / 2**20
    assert float(run(GROWTH, dtype)) < 50 < size / 2


DEVICE = """
    import sys
    import numpy as np, koofu

    rng = np.random.default_rng(0)
    rows, queries = rng.standard_normal((3000, 40), "f4"), rng.standard_normal((50, 40), "f4")
    gallery = koofu.Gallery.build(rows)
    koofu.configure(device="cpu")
    wanted = gallery.search(queries, 7)
    koofu.configure(device="cuda", device_plugin=sys.argv[1])
    found = gallery.search(queries, 7)
    assert found.rows.tobytes() == wanted.rows.tobytes()
    assert found.scores.tobytes() == wanted.scores.tobytes()
    print("same")
"""


def test_device():
    """The plain twin of the plug-in for GPUs, built with the tests of the library."""
    twin = os.path.join(os.path.dirname(os.environ.get("KOOFU", "")), "tests", "libkoofu-twin.so")
    if not os.path.exists(twin):
        pytest.skip("there is no libkoofu-twin.so")
    assert run(DEVICE, twin).strip() == "same"


LONG = """
    import sys, numpy as np, koofu
    X = np.tile(np.random.default_rng(0).normal(size=(1000, 768)).astype("f2"), (60, 1))
    y = np.arange(len(X)) % 20
    koofu._progress._DELAY = koofu._progress._PAUSE = 0
    koofu.configure(threads=1)
"""


def said(code, terminal=False):
    """What a program writes to stderr, perhaps a terminal."""
    command = [sys.executable, "-c", textwrap.dedent(LONG) + textwrap.dedent(code)]
    if not terminal:
        done = subprocess.run(command, capture_output=True, timeout=300)
        assert done.returncode == 0, done.stderr
        return done.stderr.decode()  # with carriage returns
    ours, theirs = os.openpty()
    with subprocess.Popen(command, stderr=theirs) as process:
        os.close(theirs)
        text = b""
        try:
            while part := os.read(ours, 4096):
                text += part
        except OSError:  # the other end is closed
            pass
    os.close(ours)
    assert process.returncode == 0, text
    return text.decode()


def lines_on_screen(text):
    """What is left to see after all carriage returns."""
    left = []
    for line in text.replace("\r\n", "\n").split("\n"):
        screen = ""
        for part in line.split("\r"):
            screen = part + screen[len(part):]
        left.append(screen.rstrip())
    return [line for line in left if line]


def test_progress_is_shown_where_it_is_wanted():
    work = "koofu.fit(X, y, lambda_='1x')"
    assert said(work) == ""
    shown = said("koofu.configure(threads=1, progress=True)\n" + work)
    assert "stats: " in shown and " of 60,000" in shown and "#" in shown and " % [" in shown
    assert lines_on_screen(shown) == []
    on_terminal = said(work, terminal=True)
    assert " of 60,000" in on_terminal and lines_on_screen(on_terminal) == []
    assert said("koofu.configure(progress=False)\n" + work, terminal=True) == ""
    thread = "import threading\nthread = threading.Thread(target=koofu.fit, args=(X, y), kwargs={'lambda_': '1x'})\n" \
             "thread.start(); thread.join()"
    assert said(thread, terminal=True) == ""  # several threads would write over each other
    assert said("koofu.configure(progress=True); sys.stderr.close(); sys.stderr = None\n" + work) == ""
    blocks = said("koofu.configure(progress=True)\nkoofu.Gallery.build(X[:5000]).search(X[:40000], 5)")
    assert set(re.findall(r"(\w+): +\d+ %", blocks)) == {"rows"} and " of 40,000" in blocks
    pairs = said("koofu.configure(threads=1, progress=True)\nkoofu.Gallery.build(X[:4000]).within(X[:4000], 0.9)")
    assert "rows: " in pairs and " of 4,000" in pairs


def test_progress_goes_to_a_function():
    run("""
        import numpy as np, koofu, pytest, sys
        X = np.tile(np.random.default_rng(0).normal(size=(1000, 768)).astype("f2"), (60, 1))
        y = np.arange(len(X)) % 20
        told = []
        koofu.configure(threads=1, progress=lambda *report: told.append(report))
        model = koofu.fit(X, y)
        stages = {stage for stage, _, _ in told}
        assert "stats" in stages and len(stages) > 1, stages
        assert all(0 <= done <= total or total == 0 for _, done, total in told), told
        def stop(stage, done, total):
            raise KeyError(stage)
        koofu.configure(threads=1, progress=stop)
        with pytest.raises(KeyError, match="stats"):
            koofu.fit(X, y)
        koofu.configure()
        assert koofu.fit(X, y) == model
        with pytest.raises(TypeError, match="progress is 3"):
            koofu.configure(progress=3)
    """)
