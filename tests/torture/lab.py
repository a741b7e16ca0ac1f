"""Runs the program in a folder of its own and judges the outcome by rules.

No output is stored: a session is run once as a reference, and every other run of it must end like
the reference or fail in the way that docs/reliability.md promises.
"""

import os
import re
import resource
import select
import shutil
import signal
import subprocess
import time

OK, INTERNAL, USAGE, BAD_DATA, IO = range(5)
STATUSES = (OK, INTERNAL, USAGE, BAD_DATA, IO)
SECONDS = 120  # a run that takes longer hangs; the sessions take milliseconds, on a machine that does nothing else
# What docs/reliability.md calls `.NAME.NUMBER.part` and `.old`, which may be a folder, and an array
# unpacked where files cannot be without names.
LITTER = re.compile(r"\.[^/]*\.[0-9a-f]{16}\.(?:part|old)(?:$|/)|/\.koofu-\w{6}$|\.changes/$")
SANITIZER = re.compile(rb"ERROR: \w*Sanitizer|runtime error:|WARNING: \w*Sanitizer|LeakSanitizer")
# What differs from run to run: times and rates.
VARYING = re.compile(rb'"(load_seconds|search_seconds|queries_per_second|candidates_per_query|seconds)": [^,}]*')
TIMES = re.compile(rb"\(?\b\d[\d.,]*(?: |&nbsp;)?(?:s|ms|min|rows/s|pictures/s|queries/s|texts/s)\b\)?")
# Characters that change what a terminal shows around them: controls, and those of bidirectional
# text.
UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\u2028\u2029]")


class Broken(Exception):
    """A rule that was broken; its text says which."""


def hold(condition, text):
    if not condition:
        raise Broken(text() if callable(text) else text)


class Result:
    def __init__(self, words, status, out, err, seconds, peak, hung):
        self.words, self.status, self.out, self.err = words, status, out, err
        self.seconds, self.peak, self.hung = seconds, peak, hung

    def __str__(self):
        return (f"{' '.join(self.words)}\n    status {self.status}{' (hung)' if self.hung else ''}, {self.seconds:.2f} s, "
                f"{self.peak >> 20} MiB\n    out {self.out[:300]!r}\n    err {self.err[:1500]!r}")


def as_usual():
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


class Bench:
    """One job's folder, and how it runs the program."""

    def __init__(self, program, shim, folder, sanitized=False):
        self.program, self.shim, self.sanitized = program, shim, sanitized
        self.folder = folder
        self.memory = None
        self.case = os.path.join(folder, "c")
        os.makedirs(self.case, exist_ok=True)
        self.out = open(os.path.join(folder, "out"), "w+b", buffering=0)
        self.err = open(os.path.join(folder, "err"), "w+b", buffering=0)
        self.counts = os.path.join(folder, "counts")
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("KOOFU_", "FAULT_", "LD_"))}
        self.environment = {**clean, "KOOFU_THREADS": "1", "LC_ALL": "C.UTF-8"}
        if sanitized:
            self.environment |= {"ASAN_OPTIONS": "verify_asan_link_order=0:allocator_may_return_null=1:hard_rss_limit_mb=2048:"
                                                 "detect_leaks=0:abort_on_error=1",
                                 "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"}

    def close(self):
        self.out.close()
        self.err.close()

    # --- the folder -------------------------------------------------------------------------------

    def clear(self):
        for name in os.listdir(self.case):
            path = os.path.join(self.case, name)
            if os.path.isdir(path) and not os.path.islink(path):
                shutil.rmtree(path)
            else:
                os.unlink(path)

    def prepare(self, files):
        """Leaves these files in the folder, and nothing else."""
        self.clear()
        for name, content in files.items():
            path = self.write(name, content)
            if os.geteuid() == 0:
                os.chown(path, -1, 1)  # of another group, which the new file should get

    def write(self, name, content):
        path = os.path.join(self.case, name)
        if "/" in name:
            os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb", buffering=0) as file:
            file.write(content)
        return path

    def tree(self):
        """{name: bytes}, of the files below the folder, hidden ones too; folders that are empty end in a slash."""
        return tree_of(self.case)

    # --- a run ------------------------------------------------------------------------------------

    def run(self, words, fault=None, environment=None, limits=None, seconds=SECONDS, before_wait=None, nobody=False, closed=(),
            stdout=None, cwd=None, memory=None, piped=False):
        """fault: {KIND: …} for the library of faults; closed: descriptors that are not open; before_wait(pid) may send signals;
        piped: stderr is a pipe, which no limit on files concerns."""
        env = {**self.environment, **(environment or {})}
        self.limit_memory(memory)
        if fault is not None:
            env["LD_PRELOAD"] = self.shim
            env["FAULT_COUNTS"] = self.counts
            env |= {f"FAULT_{k}": str(v) for k, v in fault.items()}
        ends = os.pipe() if piped else None
        process = self.start(words, env, limits, nobody, closed, stdout, cwd, ends and ends[1])
        begun = time.monotonic()
        if before_wait:
            before_wait(process.pid)
        hung = not ended_within(process.pid, seconds)
        if hung:
            os.kill(process.pid, signal.SIGKILL)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said = content_of(self.err) if ends is None else drained(ends)
        return Result(words, process.returncode, content_of(self.out), said, time.monotonic() - begun,
                      usage.ru_maxrss << 10, hung)

    def limit_memory(self, memory):
        """Of the program, by the limit it inherits: setting it in the child would cost more than the run."""
        if self.sanitized or memory == self.memory:
            return
        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        resource.setrlimit(resource.RLIMIT_AS, (hard if memory is None else memory, hard))
        self.memory = memory

    def start(self, words, env, limits=None, nobody=False, closed=(), stdout=None, cwd=None, stderr=None):
        for file in (self.out, self.err):
            file.seek(0)
            file.truncate()
        more = {"user": 65534, "group": 65534, "extra_groups": []} if nobody else {}
        if limits or closed:
            def before():
                for limit, soft in (limits or {}).items():
                    resource.setrlimit(limit, (soft, soft))
                for number in closed:
                    os.close(number)
            more["preexec_fn"] = before
        return subprocess.Popen([self.program, *words], cwd=cwd or self.case, env=env, stdin=subprocess.DEVNULL,
                                stdout=stdout or self.out, stderr=stderr or self.err, **more)

    def counted(self):
        """{kind: calls} of the last run with the library of faults; None if it did not end by itself."""
        try:
            with open(self.counts, encoding="ascii") as file:
                return {name: int(number) for name, number in (line.split() for line in file)}
        except FileNotFoundError:
            return None


def tree_of(folder):
    found = {}
    for where, folders, names in os.walk(folder):
        below = os.path.relpath(where, folder)
        below = "" if below == "." else below + "/"
        if not folders and not names and below:
            found[below] = b""
        for name in names:
            path = os.path.join(where, name)
            if os.path.islink(path):
                found[below + name] = b"link to " + os.fsencode(os.readlink(path))
                continue
            with open(path, "rb", buffering=0) as file:
                found[below + name] = file.read()
    return found


def ended_within(pid, seconds):
    """Waits without a race, and without asking again and again."""
    fd = os.pidfd_open(pid)
    try:
        poll = select.poll()
        poll.register(fd, select.POLLIN)
        return bool(poll.poll(seconds * 1000))
    finally:
        os.close(fd)


def drained(ends):
    """What is in a pipe; a message fits."""
    os.close(ends[1])
    try:
        return os.read(ends[0], 1 << 16)
    finally:
        os.close(ends[0])


def content_of(file):
    file.seek(0)
    return file.read()


# --- rules --------------------------------------------------------------------------------------------


def steady(content):
    """Content without what differs from run to run."""
    return TIMES.sub(b"#", VARYING.sub(rb'"\1": #', content))


def check_end(result):
    """However a run ends: not by a signal of its own, a hang, or a sanitizer's report."""
    hold(not result.hung, "it hangs")
    hold(not SANITIZER.search(result.err), "a sanitizer reports an error")
    hold(result.status >= 0, lambda: f"it ends by signal {-result.status}")
    hold(result.status in STATUSES, lambda: f"{result.status} is no documented exit status")


def check_message(result, naming=(), most=1):
    """The message of a failure: one line on stderr (`most`, if a command has several inputs), plain text, naming one of
    `naming`."""
    text = result.err.decode("utf-8", "surrogateescape")
    hold(text.endswith("\n"), "stderr has no whole line")
    lines = text[:-1].split("\n")
    hold(len(lines) <= most, lambda: f"stderr has {len(lines)} lines, not {most}")
    hold(all(line.startswith("koofu") and len(line) > 10 for line in lines), "a line of stderr does not begin with 'koofu'")
    check_safe(text)
    hold(not naming or any(name in text for name in naming), lambda: f"the message names none of {', '.join(naming)}")


def check_safe(text):
    found = UNSAFE.search(text.replace("\n", ""))
    hold(not found, lambda: f"U+{ord(found.group()):04X} reaches stderr")


def is_litter(name):
    return bool(LITTER.search("/" + name))
