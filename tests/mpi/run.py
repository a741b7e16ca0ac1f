#!/usr/bin/env python3
"""Sessions with koofu-mpi: the same bytes as koofu whatever the number of ranks, one error whoever fails.

usage: run.py KOOFU KOOFU-MPI [--mpirun PROGRAM] [--short] [part of a test's name ...]

--mpirun: mpirun of the MPI that koofu-mpi was built with (default: mpirun). --short: two numbers of ranks and few kills.
Status 77: there is no mpirun.
"""

import argparse
import filecmp
import json
import os
import random
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.dont_write_bytecode = True

import hosts

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "cli"))
import photos

LIMIT = 300  # seconds; nothing here takes that long, even on a busy machine, unless it hangs
TESTS = []


def test(function):
    TESTS.append(function)
    return function


class Failed(Exception):
    pass


def check(condition, *words):
    if not condition:
        raise Failed(" ".join(str(word) for word in words))


class Session:
    def __init__(self, options, folder):
        self.koofu, self.program = os.path.abspath(options.koofu), os.path.abspath(options.koofu_mpi)
        self.mpirun, self.short, self.folder = options.mpirun, options.short, folder
        self.stuck = 0  # launchers that hung after all ranks had ended
        self.ranks = (2, 3) if options.short else (1, 2, 3, 4, 7)
        version = subprocess.run([self.mpirun, "--version"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT).stdout.decode()
        self.open_mpi = "Open MPI" in version or "OpenRTE" in version
        # As root, in containers, and with more ranks than processors.
        self.environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1",
                                OMPI_MCA_rmaps_base_oversubscribe="1", OMPI_MCA_btl_vader_single_copy_mechanism="none",
                                PRTE_MCA_rmaps_default_mapping_policy=":oversubscribe", KOOFU_THREADS="1",
                                KOOFU_RANK_TIMEOUT="120")

    def path(self, name):
        return os.path.join(self.folder, name)

    def alone(self, *words, status=0):
        done = subprocess.run([self.koofu, *words], cwd=self.folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
        check(done.returncode == status, "koofu", *words, done.returncode, done.stderr.decode())
        return done

    def start(self, ranks, *words, program=None):
        """words: those of a command; a list of (ranks, words) starts ranks with different ones."""
        parts = ranks if isinstance(ranks, list) else [(ranks, words)]
        line = [self.mpirun]
        for i, (n, part) in enumerate(parts):
            line += ([":"] if i > 0 else []) + ["-n", str(n), *(program or [self.program]), *part]
        return subprocess.Popen(line, cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, start_new_session=True)

    def finish(self, process):
        try:
            out, err = process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            raise Failed("hangs:", *process.args)
        return subprocess.CompletedProcess(process.args, process.returncode, out, err)

    def together(self, ranks, *words):
        done = self.finish(self.start(ranks, *words))
        check(done.returncode == 0, ranks, "ranks:", *words, done.returncode, done.stderr.decode())
        return done

    def fails(self, ranks, *words):
        """The lines of koofu on stderr."""
        done = self.finish(self.start(ranks, *words))
        check(done.returncode != 0, ranks, "ranks must fail:", *words)
        check(b"" == done.stdout or not self.open_mpi, "something was printed:", done.stdout.decode())
        return [line for line in done.stderr.decode().splitlines() if line.startswith("koofu")]

    def same(self, one, other, words):
        check(filecmp.cmp(self.path(one), self.path(other), shallow=False), one, "and", other, "differ:", *words)


def make_inputs(s):
    world = ["--classes", "20", "--dim", "48"]
    s.alone("synth", *world, "--per-class", "60", "-o", "train.safetensors", "--text", "text.safetensors")
    s.alone("synth", *world, "--per-class", "20", "--split", "1", "-o", "test.safetensors")
    s.alone("fit", "train.safetensors", "-o", "model.safetensors")
    s.alone("index", "train.safetensors", "--model", "model.safetensors", "-o", "gallery.safetensors")


def without_times(text):
    """JSON without how long it took and on how many threads."""
    value = json.loads(text)
    return {key: value[key] for key in value if "second" not in key and key not in ("threads", "isa", "candidates", "candidates_per_query")}


# --- the same bytes ----------------------------------------------------------------------------------


def same_file(s, name, *words):
    """words end in -o; the output of one process and of some ranks is the same."""
    s.alone(*words, "one-" + name)
    for ranks in s.ranks:
        s.together(ranks, *words, "many-" + name)
        s.same("one-" + name, "many-" + name, [ranks, "ranks:", *words])
        os.remove(s.path("many-" + name))


def same_text(s, *words, prepare=None):
    prepare = prepare or (lambda text: text)
    one = prepare(s.alone(*words).stdout)
    for ranks in s.ranks:
        check(prepare(s.together(ranks, *words).stdout) == one, ranks, "ranks print something else:", *words)


def same_notes(s, word, number, *words):
    """Messages about pictures, whichever rank has them: printed by rank 0, once, in order."""

    def notes(done):
        if "-o" in words:
            os.remove(s.path(words[-1]))
        return [line for line in done.stderr.decode().splitlines() if word in line]

    one = notes(s.alone(*words))
    check(len(one) == number, one)
    for ranks in s.ranks:
        many = notes(s.together(ranks, *words))
        check(many == one, ranks, "ranks:", many, "instead of", one)


@test
def statistics(s):
    same_file(s, "stats.safetensors", "stats", "train.safetensors", "-o")
    same_file(s, "stats.safetensors", "stats", "train.safetensors", "test.safetensors", "--no-normalize", "-o")


@test
def progress(s):
    """Lines of rank 0 alone, which rise from 0 % of all rows to all of them."""
    environment, s.environment = s.environment, dict(s.environment, KOOFU_PROGRESS="0")
    try:
        lines = s.together(3, "stats", "train.safetensors", "-o", "progress.safetensors").stderr.decode().splitlines()
    finally:
        s.environment = environment
    shares = [int(line.split()[1]) for line in lines if line.startswith("stats ")]
    check(shares and shares == sorted(shares) and shares[0] == 0 and shares.count(100) <= 2 and shares[-1] == 100, lines)


@test
def fit(s):
    same_file(s, "model.safetensors", "fit", "train.safetensors", "--dim", "auto", "-o")
    same_file(s, "model.safetensors", "fit", "train.safetensors", "--text", "text.safetensors", "--reject", "0.95", "-o")
    if not s.short:
        same_file(s, "model.safetensors", "fit", "train.safetensors", "--method", "paper", "-o")


@test
def judging(s):
    same_text(s, "eval", "model.safetensors", "test.safetensors", "--json", prepare=without_times)
    same_text(s, "sweep", "train.safetensors", "--test", "test.safetensors", "--lambdas", "0.1x,1x", "--dims", "8,48",
              "-k", "1,5")
    same_text(s, "compare", "model.safetensors", "model.safetensors", "test.safetensors", "--raw", "b", "--json")


@test
def use(s):
    same_file(s, "answers.tsv", "classify", "model.safetensors", "test.safetensors", "--probabilities", "-o")
    same_file(s, "mapped.npy", "transform", "model.safetensors", "train.safetensors", "-o")
    same_file(s, "mapped.safetensors", "transform", "model.safetensors", "train.safetensors", "--dtype", "f16", "-o")
    same_file(s, "converted.safetensors", "convert", "train.safetensors", "--dtype", "f16", "-o")


@test
def search(s):
    same_file(s, "gallery.safetensors", "index", "train.safetensors", "--model", "model.safetensors", "-o")
    same_file(s, "near.safetensors", "search", "gallery.safetensors", "test.safetensors", "-k", "7", "-o")
    same_text(s, "search", "gallery.safetensors", "--itself", "-k", "2")
    same_file(s, "within.safetensors", "search", "gallery.safetensors", "test.safetensors", "--within", "0.5", "-o")
    same_text(s, "search", "gallery.safetensors", "--itself", "--within", "0.6")
    same_text(s, "search", "gallery.safetensors", "--unique", "0.9")
    with open(s.path("some.txt"), "w", encoding="ascii") as file:
        file.writelines(f"c{k:04}\n" for k in range(0, 40, 3))
    same_file(s, "some.safetensors", "search", "gallery.safetensors", "test.safetensors", "--only", "some.txt", "-k", "5", "-o")
    same_text(s, "eval", "model.safetensors", "test.safetensors", "--gallery", "gallery.safetensors", "--json", prepare=without_times)


class Box:
    """What tests/cli/photos.py writes pictures to."""

    def __init__(self, folder):
        self.folder = folder

    def write(self, name, data):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(data)
        return name


@test
def embed(s):
    """Pictures are divided by shards; an interrupted run is resumed."""
    photos.photos(Box(s.folder), "pictures", ["ant", "owl"], 9)
    for name in ("owl/broken.png", "ant/broken.png", "ant/z-broken.jpg", "owl/z-broken.jpg"):
        Box(s.folder).write("pictures/" + name, b"this is no picture")
    line = ["embed", photos.CLIP, "pictures", "--skip-bad", "--shard", "2", "-o"]
    same_file(s, "embedded.safetensors", *line)
    s.alone(*line, "one-embedded.safetensors")
    same_notes(s, "broken", 4, *line, "noted.safetensors")
    s.alone("fit", "one-embedded.safetensors", "--lambda", "1x", "-o", "of-pictures.safetensors")
    classify = ["classify", "of-pictures.safetensors", "pictures", "--encoder", photos.CLIP, "--skip-bad"]
    same_text(s, *classify)
    same_notes(s, "broken", 4, *classify)
    one_message(s.fails(2, *[word for word in line if word != "--skip-bad"], "bad-embedded.safetensors"), "pictures/ant/broken.png")
    parts = s.path("bad-embedded.safetensors.parts")
    check(len([name for name in os.listdir(parts) if name.startswith("shard")]) > 0, "finished shards are kept")
    done = s.together(3, *line, "bad-embedded.safetensors")
    check(b"resumed" in done.stderr or b"earlier" in done.stderr, done.stderr.decode())
    s.same("one-embedded.safetensors", "bad-embedded.safetensors", line)
    check(not os.path.exists(parts), "the folder is gone")


# --- errors --------------------------------------------------------------------------------------------


def one_message(lines, *parts):
    check(len(lines) == 1, "one message, not", lines)
    for part in parts:
        check(part in lines[0], part, "is missing:", lines[0])


@test
def bad_rows(s):
    import numpy

    rows = numpy.ones((1000, 8), "f4") + numpy.arange(8000).reshape(1000, 8) % 17
    rows[777, 3] = numpy.nan
    rows[901] = 0
    numpy.save(s.path("bad.npy"), rows)
    numpy.save(s.path("labels.npy"), numpy.arange(1000) % 10)
    line = ["fit", "bad.npy", "--labels", "labels.npy", "-o", "bad-model.safetensors"]
    alone = s.alone(*line, status=3).stderr.decode()
    check("row 777" in alone, alone)
    for ranks in s.ranks:
        one_message(s.fails(ranks, *line), "bad.npy, row 777", "NaN", "--skip-bad")
        check(not os.path.exists(s.path("bad-model.safetensors")), "a file was written")
    s.alone(*line[:-1], "one-skipped.safetensors", "--skip-bad")
    s.together(3, *line[:-1], "many-skipped.safetensors", "--skip-bad")
    s.same("one-skipped.safetensors", "many-skipped.safetensors", line)


@test
def ranks_that_fail_alone(s):
    line = ["fit", "train.safetensors", "-o", "alone.safetensors"]
    one_message(s.fails([(2, line), (1, ["fit", "missing.safetensors", "-o", "alone.safetensors"])]), "missing.safetensors",
                "(rank 2)")
    one_message(s.fails([(1, ["fit", "missing.safetensors", "-o", "alone.safetensors"]), (2, line)]), "missing.safetensors")
    # Other rows, other classes: they cannot agree on anything.
    s.alone("synth", "--classes", "7", "--dim", "48", "--per-class", "9", "-o", "other.safetensors")
    one_message(s.fails([(1, line), (1, ["fit", "other.safetensors", "-o", "alone.safetensors"])]), "out of step")
    check(not os.path.exists(s.path("alone.safetensors")), "a file was written")


@test
def no_memory(s):
    """The first array is the communicator itself, before ranks have met."""
    program = os.path.join(os.path.dirname(s.program), "mpi_no_memory")
    if not os.access(program, os.X_OK):
        print("  left out: mpi_no_memory is not built")
        return
    for rank in range(3):
        for array, told in ((2, b"3\n"), (3, b"3\n"), (9, b"0\n")):
            done = s.finish(s.start(3, str(rank), str(array), program=[program]))
            check(done.returncode == 0 and done.stdout == told, "array", array, "of rank", rank, done.stdout, done.stderr)


@test
def different_versions(s):
    """A copy of the program in which the version is another."""
    own = s.alone("version").stdout.split()[1]
    other = own[:-1] + (b"9" if own[-1:] != b"9" else b"8")
    with open(s.program, "rb") as file:
        program = file.read()
    check(own + b"\0" in program, "no version in the program")
    with open(s.path("koofu-other"), "wb") as file:
        file.write(program.replace(own + b"\0", other + b"\0"))
    os.chmod(s.path("koofu-other"), 0o755)
    words = ["fit", "train.safetensors", "-o", "versions.safetensors"]
    line = [s.mpirun, "-n", "1", s.program, *words, ":", "-n", "1", s.path("koofu-other"), *words]
    done = s.finish(subprocess.Popen(line, cwd=s.folder, env=s.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                     stderr=subprocess.PIPE, start_new_session=True))
    check(done.returncode != 0, done)
    one_message([text for text in done.stderr.decode().splitlines() if text.startswith("koofu")],
                f"rank 0 runs koofu {own.decode()} and rank 1 runs koofu {other.decode()}")
    check(not os.path.exists(s.path("versions.safetensors")), "a file was written")


@test
def wrong_use(s):
    one_message(s.fails(2, "fit", "missing.safetensors", "-o", "out.safetensors"), "missing.safetensors")
    one_message(s.fails(2, "fit", "train.safetensors", "--no-such-option"), "no-such-option")
    one_message(s.fails(2, "fit", "train.safetensors", "-o", "no/such/folder/out.safetensors"), "no/such/folder")
    one_message(s.fails(2, "info", "train.safetensors"), "run 'koofu info' by itself")
    one_message(s.fails(2, "fit", "-", "-o", "out.safetensors"), "standard input", "ranks cannot share")
    check(s.together(2, "version").stdout.count(b"koofu") == 1, "rank 0 alone prints")


@test
def different_class_lists(s):
    """Shards with different classes make the same union on any number of ranks, or the same error."""
    s.alone("synth", "--classes", "7", "--dim", "48", "--per-class", "9", "-o", "seven.safetensors")
    line = ["stats", "train.safetensors", "seven.safetensors", "-o"]
    done = subprocess.run([s.koofu, *line, "union.safetensors"], cwd=s.folder, stderr=subprocess.PIPE)
    if done.returncode == 0:
        same_file(s, "union.safetensors", *line)
    else:
        one_message(s.fails(2, *line, "union.safetensors"), done.stderr.decode().strip().split(": ", 1)[1])


@test
def few_rows(s):
    """More ranks than rows to share out: some have none."""
    s.alone("synth", "--classes", "3", "--dim", "8", "--per-class", "4", "-o", "few.safetensors")
    same_file(s, "few-model.safetensors", "fit", "few.safetensors", "-o")


# --- files of each rank ------------------------------------------------------------------------------------


def write_part(s, folder, rows, labels):
    import numpy

    os.makedirs(s.path(folder))
    numpy.save(s.path(os.path.join(folder, "rows.npy")), rows)
    with open(s.path(os.path.join(folder, "labels.txt")), "w", encoding="ascii") as file:
        file.writelines(f"class-{label}\n" for label in labels)


def same_parts(s, n, words, name):
    """n ranks with a part each do what one process does with all of them."""
    parts = [f"part-{i}" for i in range(n)]
    s.alone(*words, *[f"{part}/rows.npy" for part in parts], *[word for part in parts for word in ("--labels", f"{part}/labels.txt")],
            "-o", "one-of-" + name)
    line = [*words, "--rank-files", "part-%r/*.npy", "--labels", "part-%r/labels.txt", "-o", "many-of-" + name]
    s.together(n, *line)
    s.same("one-of-" + name, "many-of-" + name, line)


@test
def rank_files(s):
    """Each rank has a part, some of them without some of the classes."""
    import numpy

    state = numpy.random.RandomState(1)
    n = 3
    for i in range(n):
        labels = state.randint(i, 6 + i, 150 + 70 * i)
        write_part(s, f"part-{i}", (state.randn(len(labels), 16) + labels[:, None] % 5).astype("f4"), labels)
    parts = [f"part-{i}" for i in range(n)]
    s.alone("fit", *[f"{part}/rows.npy" for part in parts], *[word for part in parts for word in ("--labels", f"{part}/labels.txt")],
            "-o", "one-parts.safetensors")
    line = ["fit", "--rank-files", "part-%r/*.npy", "--labels", "part-%r/labels.txt", "-o", "many-parts.safetensors"]
    s.together(n, *line)
    s.same("one-parts.safetensors", "many-parts.safetensors", line)
    one_message(s.fails(n + 1, *line), "part-3/")  # the last rank has no files
    same_parts(s, n, ["transform", "one-parts.safetensors"], "mapped.npy")
    same_parts(s, n, ["classify", "one-parts.safetensors"], "answers.tsv")
    write_part(s, "part-3", numpy.zeros((0, 16), "f4"), [])  # no rows at all
    one_message(s.fails(n + 1, *line), "part-3/rows.npy: the file has no rows", "(rank 3)")
    shutil.rmtree(s.path("part-3"))
    bad = state.randn(100, 16).astype("f4")
    bad[41, 3] = numpy.inf
    write_part(s, "part-3", bad, state.randint(0, 6, 100))
    one_message(s.fails(n + 1, *line), "part-3/rows.npy, row 41", "(rank 3)", "--skip-bad")
    same_parts(s, n + 1, ["fit", "--skip-bad"], "parts.safetensors")
    with open(s.path("part-3/labels.txt"), "w", encoding="ascii") as file:
        file.writelines(f"{i % 6}\n" for i in range(100))
    same_parts(s, n + 1, ["fit", "--skip-bad"], "parts.safetensors")  # classes that no other rank has
    shutil.rmtree(s.path("part-3"))
    write_part(s, "part-3", state.randn(100, 17).astype("f4"), state.randint(0, 6, 100))
    one_message(s.fails(n + 1, *line), "rows of rank 0 have 16 columns, those of rank 3 have 17")


# --- killed ranks ----------------------------------------------------------------------------------------


def children(pid):
    try:
        with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as file:
            found = [int(word) for word in file.read().split()]
    except OSError:
        return []
    return found + [deeper for child in found for deeper in children(child)]


def is_program(pid, program):
    try:
        return os.path.samefile(f"/proc/{pid}/exe", program)
    except OSError:
        return False


def live(s, process):
    return [pid for pid in children(process.pid) if is_program(pid, s.program)]


def kill_one(chance, pids):
    try:
        os.kill(chance.choice(pids), signal.SIGKILL)
    except (IndexError, ProcessLookupError):
        pass


def finish_killed(s, process):
    """Waits for the end of a run after a rank was killed; no rank may be left. The launcher itself may hang: that of Open MPI
    with PMIx 4.2.2 was seen to wait for a lock in PMIx_server_finalize, when all ranks were gone. It is then ended here."""
    last = begun = time.monotonic()
    while process.poll() is None and time.monotonic() < last + 10:
        if live(s, process):
            last = time.monotonic()
        check(last < begun + LIMIT, "ranks hang:", *process.args)
        time.sleep(0.05)
    if process.poll() is None:
        s.stuck += 1
        os.killpg(process.pid, signal.SIGKILL)
    return s.finish(process)


def say_stuck(s, text):
    print(f"  {text}" + (f"; the launcher itself hung {s.stuck} times" if s.stuck else ""))
    s.stuck = 0


def check_output(s, name, done):
    """The old file or the right one, as the status says, and nothing else."""
    with open(s.path("killed-" + name), "rb") as file:
        old = file.read() == b"old"
    check(old or filecmp.cmp(s.path("killed-" + name), s.path("right-" + name), shallow=False), "a wrong file")
    check(not old or done.returncode != 0, "success without a file")
    rest = [other for other in os.listdir(s.folder) if other.startswith(".killed")]
    check(not rest, "left behind:", *rest)


def kill_often(s, wanted, name, *words):
    """A rank is killed at a random moment: the old file or the new one, a failure or a success, no hang."""
    chance = random.Random(1)
    line = [*words, "-o", "killed-" + name]
    s.alone(*words, "-o", "right-" + name)
    begun = time.monotonic()
    s.together(3, *line)
    usual = time.monotonic() - begun
    died, runs = 0, 0
    while died < wanted and runs < 5 * wanted:
        runs += 1
        with open(s.path("killed-" + name), "w", encoding="ascii") as file:
            file.write("old")
        process = s.start(3, *line)
        while len(live(s, process)) < 3 and process.poll() is None:  # while ranks are being started: launch_kills
            time.sleep(0.005)
        time.sleep(chance.uniform(0, usual))
        kill_one(chance, live(s, process))
        done = finish_killed(s, process)
        died += done.returncode != 0
        check_output(s, name, done)
    say_stuck(s, f"{words[0]}: {died} of {runs} runs were ended by the kill")
    check(died == wanted, "kills came too late")


@test
def kills(s):
    kill_often(s, 2 if s.short else 50, "model.safetensors", "fit", "train.safetensors", "--dim", "auto")
    s.alone("synth", "--classes", "20", "--dim", "48", "--per-class", "6000", "-o", "many.safetensors")
    kill_often(s, 1 if s.short else 20, "mapped.npy", "transform", "model.safetensors", "many.safetensors")


@test
def launch_kills(s):
    """A rank is killed while ranks are being started: no rank is left."""
    chance = random.Random(2)
    s.alone("fit", "train.safetensors", "-o", "right-launch.safetensors")
    runs = 2 if s.short else 50
    for _ in range(runs):
        with open(s.path("killed-launch.safetensors"), "w", encoding="ascii") as file:
            file.write("old")
        process = s.start(3, "fit", "train.safetensors", "-o", "killed-launch.safetensors")
        while not live(s, process) and process.poll() is None:
            time.sleep(0.001)
        time.sleep(chance.uniform(0, 0.3))
        kill_one(chance, live(s, process))
        check_output(s, "launch.safetensors", finish_killed(s, process))
    say_stuck(s, f"{runs} kills within 0.3 s of the start")


@test
def ranks_that_never_start(s):
    """One rank never reaches MPI_Init: the others give up, with one message."""
    environment, s.environment = s.environment, dict(s.environment, KOOFU_START_TIMEOUT="3")
    line = [s.mpirun, "-n", "1", s.program, "fit", "train.safetensors", "-o", "never.safetensors", ":", "-n", "1", "sleep", "1000"]
    try:
        done = s.finish(subprocess.Popen(line, cwd=s.folder, env=s.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                         stderr=subprocess.PIPE, start_new_session=True))
        check(done.returncode != 0, done)
        one_message([text for text in done.stderr.decode().splitlines() if text.startswith("koofu")],
                    "the ranks could not start together within 3 seconds")
        s.environment["KOOFU_START_TIMEOUT"] = "soon"
        one_message(s.fails(2, "fit", "train.safetensors", "-o", "never.safetensors"), "KOOFU_START_TIMEOUT")
    finally:
        s.environment = environment
    check(not os.path.exists(s.path("never.safetensors")), "a file was written")


@test
def restart(s):
    """Killed in the middle, restarted on other numbers of ranks: the same bytes, and nothing is done twice."""
    s.alone("synth", "--classes", "30", "--dim", "128", "--per-class", "1500", "-o", "long.safetensors")
    s.alone("stats", "long.safetensors", "-o", "one-long.safetensors")
    line = ["stats", "long.safetensors", "--checkpoint", "parts", "-o", "many-long.safetensors"]
    process = s.start(3, *line)
    parts, deadline = s.path("parts"), time.monotonic() + LIMIT
    # A file that begins with a dot is still being written, and is lost with the rank.
    while process.poll() is None and time.monotonic() < deadline and not (
            os.path.isdir(parts) and any(not name.startswith(".") for name in os.listdir(parts))):
        time.sleep(0.002)
    for pid in [process.pid, *children(process.pid)]:
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.communicate()
    for ranks in (2, 4, 1):
        done = s.together(ranks, *line)
        check(b"parts: has the statistics of" in done.stderr, done.stderr.decode())
        s.same("one-long.safetensors", "many-long.safetensors", line)
    check(b"of 45000 of 45000 rows" in s.together(2, *line).stderr, "all of it is kept")
    os.remove(s.path("long.safetensors"))


# --- hosts ---------------------------------------------------------------------------------------------------


class Hosts(Session):
    """Ranks on three hosts."""

    def __init__(self, s, script):
        self.__dict__.update(s.__dict__)
        self.script = script
        # MPICH's UCX sees one machine, and would reach for its memory.
        self.environment = dict(s.environment, UCX_TLS="tcp,self", UCX_NET_DEVICES="eth0")
        del self.environment["KOOFU_RANK_TIMEOUT"]

    def launcher(self, ranks):
        if not self.open_mpi:
            return ["-launcher", "ssh", "-launcher-exec", self.script, "-iface", "eth0", "-hosts", ",".join(hosts.NAMES), "-n", str(ranks)]
        return ["--host", ",".join(f"{name}:{ranks}" for name in hosts.NAMES), "-n", str(ranks), "--map-by", "node",
                "--mca", "plm_rsh_agent", self.script, "--mca", "btl", "tcp,self", "--mca", "btl_tcp_if_include", "eth0",
                "--mca", "oob_tcp_if_include", "eth0"]

    def start(self, ranks, *words):
        line = [self.mpirun, *self.launcher(ranks), self.program, *words]
        return subprocess.Popen([self.script, hosts.NAMES[0], "exec", *map(shlex.quote, line)], cwd=self.folder,
                                env=self.environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                start_new_session=True)

    def together(self, ranks, *words):
        """Where MPI_Finalize of MPICH does not return, koofu ends without it, which mpiexec may call an error of its own."""
        for _ in range(5):
            done = self.finish(self.start(ranks, *words))
            if done.returncode == 0 or self.open_mpi or b"process manager error" not in done.stderr:
                break
        check(done.returncode == 0, ranks, "ranks:", *words, done.returncode, done.stderr.decode())
        return done

    def ranks_on(self, i):
        return [pid for pid in hosts.processes(i) if is_program(pid, self.program)]


def cut_off(many, line):
    """Cuts off the last host while ranks are at work; returns how long it takes all of them to end, and what they said."""
    process = many.start(6, *line)
    deadline = time.monotonic() + LIMIT
    while process.poll() is None and time.monotonic() < deadline and not os.path.isdir(many.path("parts-of-hosts")):
        time.sleep(0.01)
    stopped = many.ranks_on(2)
    for pid in stopped:  # so that they cannot finish before they are cut off
        os.kill(pid, signal.SIGSTOP)
    hosts.cut(2)
    begun = time.monotonic()
    for pid in stopped:
        os.kill(pid, signal.SIGCONT)
    while any(many.ranks_on(i) for i in range(3)) and time.monotonic() < begun + LIMIT:
        time.sleep(0.1)
    took = time.monotonic() - begun
    check(not any(many.ranks_on(i) for i in range(3)), "ranks hang after a host was cut off")
    for i in range(3):
        for pid in hosts.processes(i):  # mpirun and its daemons may wait for the host longer
            os.kill(pid, signal.SIGKILL)
    return took, process.communicate()[1].decode()


@test
def three_hosts(s):
    if s.short or hosts.missing():
        print(f"  skipped: {'short' if s.short else hosts.missing()}")
        return
    s.alone("synth", "--classes", "30", "--dim", "128", "--per-class", "3000", "-o", "long.safetensors")
    many = Hosts(s, hosts.make(s.folder))
    try:
        for ranks in (3, 6):
            many.together(ranks, "fit", "train.safetensors", "-o", "hosts.safetensors")
            s.same("model.safetensors", "hosts.safetensors", [ranks, "ranks on three hosts"])
            many.together(ranks, "search", "gallery.safetensors", "test.safetensors", "-o", "hosts-near.safetensors")
            s.alone("search", "gallery.safetensors", "test.safetensors", "-o", "one-near.safetensors")
            s.same("one-near.safetensors", "hosts-near.safetensors", [ranks, "ranks on three hosts"])
            # In a folder that all see, every rank writes; in one that only rank 0 sees, it does.
            s.alone("transform", "model.safetensors", "train.safetensors", "-o", "one-mapped.npy")
            for folder in (".", hosts.PRIVATE):
                many.together(ranks, "transform", "model.safetensors", "train.safetensors", "-o", f"{folder}/hosts-mapped.npy")
                s.same("one-mapped.npy", f"{folder}/hosts-mapped.npy", [ranks, "ranks on three hosts"])
                left = [name for name in os.listdir(s.path(folder)) if name.startswith(".hosts")]
                check(not left, "left behind:", *left)
        line = ["fit", "long.safetensors", "--dim", "auto", "--checkpoint", "parts-of-hosts", "-o", "hosts-long.safetensors"]
        for _ in range(5):
            took, said = cut_off(many, line)
            if not os.path.exists(s.path("hosts-long.safetensors")):
                break
            os.remove(s.path("hosts-long.safetensors"))  # on a busy machine the run may be over too soon
            shutil.rmtree(s.path("parts-of-hosts"))
            hosts.join(2)
        print(f"  all ranks ended {took:.0f} s after a host was cut off")
        check("has been silent for 20 seconds" in said, said)
        check(took < 30 or os.getloadavg()[0] > 4, f"{took:.0f} s")
        check(not os.path.exists(s.path("hosts-long.safetensors")), "a file was written")
        hosts.join(2)
        s.alone("fit", "long.safetensors", "--dim", "auto", "-o", "one-long.safetensors")
        done = many.together(3, *line)
        check("parts-of-hosts: has the statistics of" in done.stderr.decode(), done.stderr.decode())
        s.same("one-long.safetensors", "hosts-long.safetensors", line)
    finally:
        hosts.remove()


def main():
    parser = argparse.ArgumentParser(usage=__doc__)
    parser.add_argument("koofu")
    parser.add_argument("koofu_mpi")
    parser.add_argument("--mpirun", default="mpirun")
    parser.add_argument("--short", action="store_true")
    parser.add_argument("names", nargs="*")
    options = parser.parse_intermixed_args()
    if not shutil.which(options.mpirun):
        print(f"skipped: no {options.mpirun} here")
        return 77
    failures = 0
    with tempfile.TemporaryDirectory(prefix="koofu-mpi-") as folder:
        session = Session(options, folder)
        make_inputs(session)
        for function in TESTS:
            if options.names and not any(name in function.__name__ for name in options.names):
                continue
            begun = time.monotonic()
            try:
                function(session)
                print(f"ok    {function.__name__} ({time.monotonic() - begun:.1f} s)", flush=True)
            except Failed as failure:
                failures += 1
                print(f"FAIL  {function.__name__}: {failure}", flush=True)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
