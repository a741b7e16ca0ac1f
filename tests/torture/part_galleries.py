"""Part 'galleries': a gallery is changed, compacted and rewritten while others read it.

The truth is a list of its rows. A case is one of

galleries:life:SEED:NUMBER          rounds of several writers and readers at once, slowed down and
                                    killed at random
galleries:reader:READER:WRITER:M:N  a reader stops before its N-th call while a writer runs to its end;
                                    the writer had stopped before its M-th call since the reader began;
                                    0: it starts then
galleries:writer:WRITER:READER:N    a writer stops before its N-th call while readers run, and is then
                                    killed

Each row states its number by its values, its label and its id, so every answer can be checked by
itself. Rules: a reader succeeds and sees the rows of the gallery at one moment between its start
and its end; readers one after another never see an older state again. A writer that succeeds has
made its change once, one that was killed once or not at all, and one that fails (allowed only
beside a gallery being rewritten) not at all. Afterwards the gallery can be compacted, and nothing
is left beside it.
"""

import collections
import json
import os
import random
import signal
import struct
import subprocess
import threading
import time

from fixtures import LIVING, LIVING_BASE, living_row, living_rows, read
from lab import IO, OK, Result, check_end, check_message, hold, is_litter, tree_of

IN = "../../../in/"
G = "g.safetensors"
READERS = ("search", "disk", "convert", "info", "verify", "copy")
WRITERS = ("append", "replace", "remove", "compact", "whole")
ROUNDS = 6


def cases(lab, share=None):
    n = lab.options.rounds if share is None else share
    rng = random.Random(f"{lab.seed}:galleries")
    stops = [f"galleries:reader:{r}:{w}:{m}:{at + 1}" for r in READERS for w in ("append", "compact", "whole")
             for at in range(lab.reader_calls[r]) for m in (0, rng.randrange(lab.writer_calls[w]) + 1)]
    stops += [f"galleries:writer:{w}:{r}:{at + 1}" for w in WRITERS for r in ("search", "convert") for at in range(lab.writer_calls[w])]
    if share is not None:
        stops = rng.sample(stops, 10 * share)
    return [f"galleries:life:{lab.seed}:{i}" for i in range(n)] + stops


def prepare(lab):
    """Counts the calls of each reader and writer."""
    begin(lab)
    lab.reader_calls = {kind: calls_of(lab, words_of_reader(kind, "x")) for kind in READERS}
    lab.writer_calls = {}
    for kind in WRITERS:
        begin(lab)
        lab.writer_calls[kind] = calls_of(lab, change(lab, kind, random.Random(1), LIVING, 500).words)


def calls_of(lab, words):
    result = lab.bench.run(words, fault={})
    hold(result.status == OK, lambda: f"a session does not work: {result}")
    return lab.bench.counted()["any"]


def command_of(_lab, scenario, *_fields):
    return scenario


def run(lab, scenario, *fields):
    {"life": live, "reader": stop_reader, "writer": stop_writer}[scenario](lab, *fields)
    return scenario


def begin(lab):
    """The gallery with its changes, in an empty folder."""
    lab.bench.clear()
    lab.bench.write(G, read(os.path.join(lab.inputs, "living-many.safetensors")))
    changes = os.path.join(lab.inputs, "living-many.safetensors.changes")
    for name in os.listdir(changes):
        lab.bench.write(f"{G}.changes/{name}", read(os.path.join(changes, name)))
    return list(LIVING)


def is_change(words):
    """Whether a command changes the gallery."""
    return words[0] == "index" and (words[-2] != "-o" or words[-1] == G)


def summary(lab):
    """What has been done in all cases."""
    done = collections.Counter(read(os.path.join(lab.folder, "done")).decode().split())
    return f"galleries: {done['change']} changes, {done['compact']} times one file, {done['read']} reads, {done['kill']} kills"


# --- processes -----------------------------------------------------------------------------------------


class Run:
    """A process, and when it ran."""

    def __init__(self, lab, words, fault=None):
        env = lab.bench.environment
        if fault:
            env = {**env, "LD_PRELOAD": lab.bench.shim, **{f"FAULT_{k}": str(int(v)) if k != "KIND" else v for k, v in fault.items()}}
        self.words, self.begin, self.end = words, time.monotonic(), None
        self.process = subprocess.Popen([lab.bench.program, *words, "-q"], cwd=lab.bench.case, env=env, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def wait(self, lab):
        """How it ended, which is counted."""
        hung = False
        try:
            out, err = self.process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            hung = True
            self.process.kill()
            out, err = self.process.communicate()
        self.end = time.monotonic()
        killed = self.process.returncode == -signal.SIGKILL
        with open(os.path.join(lab.folder, "done"), "a", encoding="ascii") as file:
            file.write(f"{'kill' if killed else 'read' if not is_change(self.words) else 'compact' if '--compact' in self.words else 'change'}\n")
        return Result(self.words, self.process.returncode, out, err, self.end - self.begin, 0, hung)

    def stands_still(self):
        """Whether it is stopped, as opposed to ended."""
        return os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT).si_code == os.CLD_STOPPED


# --- readers -------------------------------------------------------------------------------------------


def words_of_reader(kind, own):
    """own: part of the names of files that it writes."""
    return {
        "search": ["search", G, "--itself", "-k", "1", "--json"],
        "disk": ["search", G, "--itself", "-k", "1", "--json", "--rerank-from-disk"],
        "convert": ["convert", G, "-o", f"{own}.safetensors"],
        "info": ["info", G, "--json"],
        "verify": ["verify", G],
        "copy": ["index", f"{IN}living-one.safetensors", "--append", G, "-o", f"{own}.safetensors"],
    }[kind]


def seen(lab, kind, own, result):
    """What a reader has seen: the numbers of all rows in their order, or how many there are; None: not known."""
    check_end(result)
    hold(result.status == OK and not result.err, lambda: f"a reader fails: status {result.status}, {result.err[:300]!r}")
    if kind == "verify":
        return None
    if kind == "info":
        return json.loads(result.out)["rows"]
    if kind in ("search", "disk"):
        return seen_by_search(json.loads(result.out))
    path = os.path.join(lab.bench.case, f"{own}.safetensors")
    numbers = rows_in(read(path))
    os.unlink(path)
    if kind == "copy":
        hold(numbers.pop() == 0, "a copy lacks the row that was added to it")
    return numbers


def seen_by_search(said):
    numbers = [int(answer["id"][1:]) for answer in said["answers"]]
    hold(said["rows"] == len(numbers), "a search does not count its rows")
    places = {number: living_row(number)[0] for number in numbers}
    for number, answer in zip(numbers, said["answers"]):
        near = answer["neighbours"][0]
        distance = {other: sum((a - b) ** 2 for a, b in zip(places[number], places[other])) for other in numbers if other != number}
        found = int(near["id"][1:])
        hold(found in distance and distance[found] == min(distance.values()), f"the nearest row of {number} is not found")
        hold(numbers[near["row"]] == found and near["label"] == living_row(found)[1], "a row has another's label or place")
    return numbers


def rows_in(content):
    """The numbers of the rows in a data set or gallery, each of which must be whole."""
    length = struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8:8 + length])

    def tensor(name, code, size):
        first, last = header[name]["data_offsets"]
        return struct.unpack_from(f"<{(last - first) // size}{code}", content, 8 + length + first)
    names = json.loads(header["__metadata__"]["classes"])
    ends, text, labels, values = tensor("id_ends", "q", 8), tensor("id_bytes", "c", 1), tensor("labels", "i", 4), tensor("embeddings", "f", 4)
    dim, numbers = header["embeddings"]["shape"][1], []
    for i, (first, last) in enumerate(zip((0, *ends), ends)):
        numbers.append(int(b"".join(text[first:last])[1:]))
        hold((list(values[i * dim:(i + 1) * dim]), names[labels[i]]) == living_row(numbers[-1]), f"row {numbers[-1]} is mixed up")
    return numbers


def fits(view, state):
    return view is None or view == (len(state) if isinstance(view, int) else state)


def read_now(lab, kind="search", own="now"):
    return seen(lab, kind, own, told(lab, Run(lab, words_of_reader(kind, own)).wait(lab)))


def told(lab, result):
    """Keeps what was said for the message of a failure."""
    lab.shown = f"{lab.shown or ''}\n  {result}"[-20000:]
    return result


# --- changes -------------------------------------------------------------------------------------------


class Change:
    """One command, and what it does to the list of rows."""

    def __init__(self, kind, words, new=(), gone=()):
        self.kind, self.words, self.new, self.gone = kind, words, list(new), set(gone)
        self.begin = self.end = None
        self.certain = True  # whether it is known to have happened

    def on(self, state):
        if self.kind == "whole":
            return list(self.new)
        return [number for number in state if number not in self.gone] + self.new


def change(lab, kind, rng, state, number):
    """number: of the first row that has not been in the gallery."""
    if kind == "compact":
        return Change(kind, ["index", G, "--compact"])
    if kind == "whole":
        return Change(kind, ["index", f"{IN}living-base.safetensors", "--metric", "euclidean", "-o", G], LIVING_BASE)
    if kind == "remove":
        return removal(lab, rng.sample(state, 2), number)
    new = list(range(number, number + rng.randrange(1, 4)))
    gone = rng.sample(state, 1) if kind == "replace" else []
    lab.bench.write(f"new-{number}.safetensors", living_rows(gone + new))
    words = ["index", f"new-{number}.safetensors", "--append", G] + ["--replace"] * len(gone)
    return Change(kind, words, gone + new, gone)


def removal(lab, gone, number):
    lab.bench.write(f"gone-{number}.txt", "".join(f"r{row}\n" for row in gone).encode())
    return Change("remove", ["index", G, "--remove", f"gone-{number}.txt"], [], gone)


# --- one that stands still ------------------------------------------------------------------------------


def stopped(lab, words, at):
    """A process stopped before a call, if it makes that many; 0: none yet."""
    run = Run(lab, words, {"KIND": "any", "AT": int(at), "SIGNAL": signal.SIGSTOP}) if int(at) > 0 else None
    return run, run is not None and run.stands_still()


def stop_reader(lab, reader, writer, writer_at, at):
    before = begin(lab)
    c = change(lab, writer, random.Random(at), before, 500)
    described = [told(lab, Run(lab, words_of_reader("info", "")).wait(lab)).out]
    run, writer_stands = stopped(lab, c.words, writer_at)
    reading, reader_stands = stopped(lab, words_of_reader(reader, "own"), at)
    run = run or Run(lab, c.words)
    if writer_stands:
        run.process.send_signal(signal.SIGCONT)
    done = told(lab, run.wait(lab))
    if reader_stands:
        reading.process.send_signal(signal.SIGCONT)
    result = told(lab, reading.wait(lab))
    hold(done.status == OK and not done.err, "a writer fails")
    view = seen(lab, reader, "own", result)
    hold(fits(view, before) or fits(view, c.on(before)), "the reader sees neither the gallery before nor after the change")
    described.append(told(lab, Run(lab, words_of_reader("info", "")).wait(lab)).out)
    hold(reader != "info" or result.out in described, "the file is described with something of another")
    finish(lab, c.on(before))


def stop_writer(lab, writer, reader, at):
    before = begin(lab)
    c = change(lab, writer, random.Random(at), before, 500)
    run, _ = stopped(lab, c.words, at)
    state = read_now(lab, reader)
    hold(state in (before, c.on(before)), "a reader sees neither the gallery before nor after the change")
    run.process.kill()
    told(lab, run.wait(lab))
    hold(read_now(lab) == state, "a kill changes the gallery")
    more = change(lab, "append", random.Random(at), state, 600)
    hold(told(lab, Run(lab, more.words).wait(lab)).status == OK, "nothing can be added after a kill")
    hold(read_now(lab, reader) == more.on(state), "a row that is added after a kill does not follow the others")
    again = told(lab, Run(lab, c.words).wait(lab))
    hold(again.status == OK, "a command that was killed cannot be repeated")
    hold(sorted(set(c.on(more.on(state)))) == sorted(read_now(lab)), "repeated, a command adds rows twice, or none")
    finish(lab, read_now(lab), killed=True)


def finish(lab, state, killed=False):
    """After compaction the gallery holds the same rows, with nothing beside it."""
    result = told(lab, Run(lab, ["index", G, "--compact"]).wait(lab))
    hold(result.status == OK and not result.err, "the gallery cannot be made one file")
    hold(rows_in(read(os.path.join(lab.bench.case, G))) == state, "made one file, the gallery has other rows")
    left = [name for name in tree_of(lab.bench.case) if name != G and not name.startswith(("new-", "gone-")) and not (killed and is_litter(name))]
    hold(not left, lambda: f"{', '.join(left)} is left behind")


# --- life ----------------------------------------------------------------------------------------------


class Life:
    def __init__(self, lab, rng):
        self.lab, self.rng, self.lock = lab, rng, threading.Lock()
        self.next, self.killed, self.problem = 1000, False, None
        self.state = begin(lab)
        self.said = []

    def round(self):
        self.changes, self.views, self.ended = [], [], threading.Event()
        rng = self.rng
        plans = [(self.plan(), rng.random()) for _ in range(rng.randrange(1, 4))]
        readers = [threading.Thread(target=self.guarded, args=(self.read, i, rng.random())) for i in range(rng.randrange(1, 4))]
        writers = [threading.Thread(target=self.guarded, args=(self.write, *plan)) for plan in plans]
        for thread in (*readers, *writers):
            thread.start()
        for thread in writers:
            thread.join()
        self.ended.set()
        for thread in readers:
            thread.join()
        if self.problem:
            raise self.problem
        began = time.monotonic()
        self.views.append((began, time.monotonic(), read_now(self.lab)))
        self.state = self.explain()

    def guarded(self, work, *arguments):
        try:
            work(*arguments)
        except Exception as problem:  # for the thread that judges
            self.problem = problem

    def number(self):
        self.next += 10
        return self.next

    def plan(self):
        """The changes of one writer, one after the other."""
        rng, state, lab = self.rng, self.state, self.lab
        if rng.random() < 0.25:  # the gallery is then as it was, perhaps to the byte
            first = change(lab, "append", rng, state, self.number())
            return [first, removal(lab, first.new, self.number()), change(lab, "compact", rng, state, 0)]
        kinds = rng.choices(WRITERS, (4, 2, 2 if len(state) > 20 else 0, 2, 1), k=rng.randrange(1, 3))
        return [change(lab, kind, rng, state, self.number()) for kind in kinds]

    def fault(self, rng):
        """Slower, killed, or neither."""
        fault = {"DELAY": rng.choice((20, 100, 400))} if rng.random() < 0.5 else {}
        if rng.random() < 0.2:
            fault |= {"KIND": "any", "AT": rng.randrange(1, 400), "SIGNAL": signal.SIGKILL}
        return fault

    def tell(self, result):
        with self.lock:
            self.killed = self.killed or result.status == -signal.SIGKILL
            told(self.lab, result)

    def write(self, plan, seed):
        rng = random.Random(seed)
        for c in plan:
            run = Run(self.lab, c.words, self.fault(rng))
            result = run.wait(self.lab)
            self.tell(result)
            c.begin, c.end = run.begin, run.end
            if result.status == -signal.SIGKILL:
                c.certain, c.end = False, run.end
                self.changes.append(c)
                return
            check_end(result)
            if result.status == OK:
                self.changes.append(c)
                continue
            check_message(result)
            hold(result.status == IO and c.kind != "whole", "a writer fails")
            c.kind = "failed"
            self.changes.append(c)

    def read(self, number, seed):
        rng, last = random.Random(seed), False
        while True:
            kind, own = rng.choice(READERS), f"own-{number}"
            run = Run(self.lab, words_of_reader(kind, own), self.fault(rng))
            result = run.wait(self.lab)
            self.tell(result)
            if result.status == -signal.SIGKILL:
                if os.path.exists(os.path.join(self.lab.bench.case, f"{own}.safetensors")):
                    os.unlink(os.path.join(self.lab.bench.case, f"{own}.safetensors"))
            else:
                self.views.append((run.begin, run.end, seen(self.lab, kind, own, result)))
            if last:
                return
            last = self.ended.is_set()

    def explain(self):
        """The state that the gallery is in: the end of an order of changes that explains what everyone has seen."""
        failed = [c for c in self.changes if c.kind == "failed"]
        hold(not failed or any(c.kind == "whole" for c in self.changes), "a writer fails, although the gallery is not written anew")
        effective = [c for c in self.changes if c.kind not in ("failed", "compact")]
        self.views.sort()
        for order in orders(effective, []):
            states = [self.state]
            for c in order:
                states.append(c.on(states[-1]))
            if self.is_seen(order, states):
                return states[-1]
        hold(False, f"no order of the changes explains what was seen: rows before {self.state}, changes "
                    f"{[(c.kind, c.new, sorted(c.gone), c.certain, c.begin, c.end) for c in effective]}, seen {self.views}")
        return None

    def is_seen(self, order, states):
        """Whether each reader can be given a state, as early a one as possible, so that time never goes back."""
        given = []
        for began, ended, view in self.views:
            first = max([0, *(i + 1 for i, c in enumerate(order) if c.certain and c.end < began), *(at for end, at in given if end < began)])
            last = min([len(order), *(i for i, c in enumerate(order) if c.begin > ended)])
            at = next((i for i in range(first, last + 1) if fits(view, states[i])), None)
            if at is None:
                return False
            given.append((ended, at))
        return True


def orders(left, done):
    """All orders in which changes can have happened; those that are not certain may be missing."""
    if not any(c.certain for c in left):
        yield list(done)
    for c in left:
        if any(other.end < c.begin and other.certain for other in left if other is not c):
            continue
        later = [other for other in left if other is not c and not other.end < c.begin]
        yield from orders(later, [*done, c])


def live(lab, seed, number):
    life = Life(lab, random.Random(f"galleries:{seed}:{number}"))
    for _ in range(ROUNDS):
        life.round()
        lab.shown = None
    finish(lab, life.state, life.killed)
