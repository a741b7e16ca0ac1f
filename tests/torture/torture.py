#!/usr/bin/env python3
"""Everything that can go wrong around koofu, provoked, with a rule for what it may do then.

usage: torture.py KOOFU --shim FAULTS.so [--parts files,faults,kills,writers,limits,galleries]
                  [--slice | --seconds N] [--seed N] [--jobs N] [--work FOLDER] [--sanitized]
                  [--cases TEXT] [--repeat CASE]

Parts: 'files', mutated files of every kind that koofu reads; 'faults', every system call and
allocation of every session fails; 'kills', signals at every call and at random moments; 'writers',
several processes on one file; 'limits', of memory, files, file size, disk and permissions;
'galleries', changes of a gallery, kills and readers, compared with a model of it. sessions.py has
at least one session for each command. docs/reliability.md says what is promised and which part
shows it.

--slice     a small fixed sample of every part, for 'make test'
--seconds   stop after this long (default: when all faults, kills and limits are done, and the
            --mutations, random --kills and --rounds of writers and galleries: 100,000, 2,000 and
            1,000)
--cases     only those whose names contain TEXT, such as faults:append:
--repeat    run one case, named as in a failure, and say what happened; its folder stays
--sanitized KOOFU was built with AddressSanitizer; SHIM is then the one without memory faults

The exit status is 1 if a rule was broken. Each failure is printed with its case, which repeats it.
"""

import argparse
import collections
import multiprocessing
import os
import random
import shutil
import signal
import sys
import tempfile
import time
import traceback

sys.dont_write_bytecode = True  # the source tree stays as it is

import fixtures  # noqa: E402
import lab as lab_module  # noqa: E402
import part_faults  # noqa: E402
import part_files  # noqa: E402
import part_galleries  # noqa: E402
import part_kills  # noqa: E402
import part_limits  # noqa: E402
import part_writers  # noqa: E402
import sessions as session_list  # noqa: E402

PARTS = {"files": part_files, "faults": part_faults, "kills": part_kills, "writers": part_writers, "limits": part_limits,
         "galleries": part_galleries}
SHOWN = 40      # failures printed in full
AT_ONCE = 8     # cases handed to a job
SILENCE = 1200  # seconds after which the jobs count as gone: more than AT_ONCE cases that hang

Reference = collections.namedtuple("Reference", "before after out seconds peak")
Outcome = collections.namedtuple("Outcome", "case command problem detail")


class Lab:
    """What all cases share; each job has a bench of its own."""

    def __init__(self, options, folder):
        self.seed, self.folder = options.seed, folder
        self.options = options
        self.inputs = os.path.join(folder, "in")
        self.sessions = {s.name: s for s in session_list.all_sessions()}
        self.references = {}
        self.shown = None
        self.bench = None
        self.bench_for(0)

    def bench_for(self, number):
        self.bench = lab_module.Bench(self.options.koofu, self.options.shim, os.path.join(self.folder, "jobs", str(number)),
                                      self.options.sanitized)

    def reference(self, s):
        if s.name not in self.references:
            self.references[s.name] = self.make_reference(s)
        return self.references[s.name]

    def make_reference(self, s):
        before, runs = session_list.old_files(s, self.inputs), []
        for threads in ("1", "3"):
            self.bench.prepare(before)
            result = self.bench.run(s.words, environment={"KOOFU_THREADS": threads})
            if result.status != 0 or result.err:
                sys.exit(f"torture: the session {s.name} does not work: {result}")
            runs.append(Reference(before, self.bench.tree(), lab_module.steady(result.out), result.seconds, result.peak))
        one, three = runs
        if one.out != three.out or not part_faults.same(one.after, three.after):
            sys.exit(f"torture: the session {s.name} gives other bytes each time")
        return one

    def pace(self, s):
        """Seconds that a session takes, for choosing a moment of it."""
        return max(0.002, self.reference(s).seconds)

    def run(self, case):
        """An Outcome."""
        part, *fields = case.split(":")
        self.shown = None
        command, problem, detail = part, None, ""
        try:
            command = PARTS[part].run(self, *fields)
        except lab_module.Broken as reason:
            problem, detail = str(reason), str(self.shown)
            command = PARTS[part].command_of(self, *fields) if hasattr(PARTS[part], "command_of") else self.sessions[fields[0]].command
        except Exception:  # a defect of the harness is a failure as well
            problem, detail = "the harness fails", traceback.format_exc()
        return Outcome(case, command, problem, detail)


LAB = None


def begin_job(numbers):
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with numbers.get_lock():
        numbers.value += 1
        number = numbers.value
    LAB.bench_for(number)


def do_cases(some):
    return [LAB.run(case) for case in some]


class Tally:
    def __init__(self):
        self.tried, self.failed = collections.Counter(), collections.Counter()
        self.problems = []

    def add(self, outcome):
        key = outcome.case.split(":")[0], outcome.command
        self.tried[key] += 1
        if outcome.problem is None:
            return
        self.failed[key] += 1
        self.problems.append(outcome)
        if len(self.problems) <= SHOWN:
            print(f"FAILED {outcome.case}: {outcome.problem}\n  {outcome.detail}", flush=True)

    def print(self, seconds):
        print(f"\n{'part':<9} {'command':<16} {'tried':>9} {'held':>9} {'failed':>7}")
        for key in sorted(self.tried):
            print(f"{key[0]:<9} {key[1]:<16} {self.tried[key]:>9} {self.tried[key] - self.failed[key]:>9} {self.failed[key]:>7}")
        for part in PARTS:
            tried = sum(n for key, n in self.tried.items() if key[0] == part)
            failed = sum(n for key, n in self.failed.items() if key[0] == part)
            if tried:
                print(f"{part:<9} {'all':<16} {tried:>9} {tried - failed:>9} {failed:>7}")
        tried, failed = sum(self.tried.values()), sum(self.failed.values())
        print(f"{tried} tried, {tried - failed} held, {failed} failed, in {seconds:.0f} s")

    def print_problems(self):
        kinds = collections.Counter((o.case.split(":")[0], o.command, o.problem) for o in self.problems)
        for (part, command, problem), n in kinds.most_common():
            example = next(o.case for o in self.problems if (o.case.split(":")[0], o.command, o.problem) == (part, command, problem))
            print(f"{n:>7} × {part}, {command}: {problem}; --repeat {example}")


def prepare(lab, part):
    """What the cases of a part need, once."""
    module = PARTS["faults" if part == "kills" and not hasattr(lab, "counts") else part]
    if hasattr(module, "prepare"):
        module.prepare(lab)


def cases_of(lab, options, parts):
    """The cases of all parts, mixed so that a run that is stopped early has some of each."""
    lists = [PARTS[part].cases(lab, part_share(part) if options.slice else None) for part in parts]
    found = []
    rng = random.Random(options.seed)
    for one in lists:
        rng.shuffle(one)
        found += [((i + 0.5) / len(one), case) for i, case in enumerate(one)]
    return [case for _, case in sorted(found) if options.cases in case]


def part_share(part):
    return {"files": 2500, "faults": 8, "kills": 2, "writers": 6, "limits": 2, "galleries": 3}[part]


def run_all(lab, options, parts):
    begun, tally = time.monotonic(), Tally()
    problems = []
    for s in lab.sessions.values():
        lab.reference(s)
    for part in parts:
        prepare(lab, part)
    if "faults" in parts:
        problems = list(part_faults.check_kinds(lab))
    for text in problems:
        print(f"FAILED {text}")
    cases = cases_of(lab, options, parts)
    print(f"{len(cases)} cases, seed {options.seed}, {options.jobs} jobs", flush=True)
    numbers = multiprocessing.Value("i", 0)
    before = lab_module.tree_of(lab.inputs)
    with multiprocessing.Pool(options.jobs, begin_job, (numbers,)) as pool:
        outcomes = pool.imap_unordered(do_cases, [cases[i:i + AT_ONCE] for i in range(0, len(cases), AT_ONCE)])
        while not options.seconds or time.monotonic() - begun < options.seconds:
            try:
                for outcome in outcomes.next(timeout=SILENCE):
                    tally.add(outcome)
            except StopIteration:
                break
            except multiprocessing.TimeoutError:
                problems.append("a job has ended")
                print(f"FAILED no job has said anything for {SILENCE} s")
                break
        pool.terminate()
    after = {name: content for name, content in lab_module.tree_of(lab.inputs).items() if not lab_module.is_litter(name)}
    if after != before:
        problems.append("an input was changed")
        print(f"FAILED an input was changed: {part_faults.difference(after, before)}")
    tally.print(time.monotonic() - begun)
    for part in parts:
        if hasattr(PARTS[part], "summary"):
            print(PARTS[part].summary(lab))
    tally.print_problems()
    return 1 if tally.problems or problems or not tally.tried else 0


def parse():
    parser = argparse.ArgumentParser(usage=__doc__.split("usage: ")[1].split("\n\n")[0])
    parser.add_argument("koofu")
    parser.add_argument("--shim", required=True)
    parser.add_argument("--parts", default=",".join(PARTS))
    parser.add_argument("--slice", action="store_true")
    parser.add_argument("--seconds", type=float)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--mutations", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=1_000)
    parser.add_argument("--kills", type=int, default=2_000)
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--work")
    parser.add_argument("--sanitized", action="store_true")
    parser.add_argument("--cases", metavar="TEXT", default="")
    parser.add_argument("--repeat", metavar="CASE")
    options = parser.parse_args()
    options.koofu, options.shim = os.path.abspath(options.koofu), os.path.abspath(options.shim)
    for path in (options.koofu, options.shim):
        if not os.path.exists(path):
            parser.error(f"{path}: does not exist")
    for part in options.parts.split(","):
        if part not in PARTS:
            parser.error(f"there is no part '{part}'")
    return options


def main():
    global LAB
    options = parse()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # and tidy up
    # In memory, if there is such a file system: a run writes hundreds of thousands of files, and
    # syncs each.
    root = options.work or ("/dev/shm" if os.access("/dev/shm", os.W_OK) else tempfile.gettempdir())
    folder = tempfile.mkdtemp(prefix="koofu-torture-", dir=root)
    try:
        fixtures.make(options.koofu, os.path.join(folder, "in"))
        LAB = Lab(options, folder)
        session_list.check_complete(options.koofu, LAB.sessions.values())
        if options.repeat:
            part = options.repeat.split(":")[0]
            prepare(LAB, part)
            outcome = LAB.run(options.repeat)
            print(f"{outcome.case}: {outcome.problem or 'held'}\n  {outcome.detail or LAB.shown}\n  in {folder}")
            return 1 if outcome.problem else 0
        return run_all(LAB, options, options.parts.split(","))
    finally:
        part_limits.finish(LAB)
        if not options.repeat:
            shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
