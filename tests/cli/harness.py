"""Shared by the command-line tests: a program, a temporary folder, and checks that explain themselves."""

import importlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

TESTS = []

USAGE, BAD_DATA, IO = 2, 3, 4
SLOWNESS = float(os.environ.get("KOOFU_SLOWNESS", 1))


class Skipped(Exception):
    """Raised by a test that cannot run here; its text says why."""


class Failed(Exception):
    pass


def test(function):
    """Registers a test: a function of one Box."""
    TESTS.append(function)
    return function


def check(condition, message):
    if not condition:
        raise Failed(message)


def equal(got, wanted, what):
    check(got == wanted, f"{what}: got {repr(got)[:2000]}, wanted {repr(wanted)[:2000]}")  # bytes may be many


def set_limits(limits):
    for limit, soft in limits.items():
        resource.setrlimit(limit, soft if isinstance(soft, tuple) else (soft, resource.getrlimit(limit)[1]))


def seconds_of(process):
    """Processor time of a running process, which does not depend on the load of the machine."""
    with open(f"/proc/{process.pid}/stat", encoding="utf-8") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Result:
    def __init__(self, words, process):
        self.words = words
        self.status = process.returncode
        self.out = process.stdout.decode("utf-8", "replace")
        self.err = process.stderr.decode("utf-8", "replace")

    def __str__(self):
        return f"{' '.join(self.words)}\n  status {self.status}\n  out {self.out[:400]!r}\n  err {self.err[:400]!r}"


class Box:
    """A temporary folder in which one test runs the program."""

    def __init__(self, program):
        self.program = program
        self.folder = tempfile.mkdtemp(prefix="koofu-cli-")
        self.user = None  # the user to run the program as; None: ours

    def close(self):
        shutil.rmtree(self.folder, ignore_errors=True)

    def path(self, name):
        return os.path.join(self.folder, name)

    def write(self, name, content):
        data = content.encode() if isinstance(content, str) else content
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "wb") as file:
            file.write(data)
        return name

    def read(self, name):
        with open(self.path(name), "rb") as file:
            return file.read()

    def files(self):
        """Every file and folder below the box, hidden ones too."""
        found = set()
        for folder, folders, names in os.walk(self.folder):
            found |= {os.path.relpath(os.path.join(folder, n), self.folder) for n in folders + names}
        return found

    def command(self, *words):
        return [self.program, *[str(w) for w in words]]

    def environment(self, **more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("KOOFU_")}
        return {**clean, **more}

    def become_nobody(self):
        """From now on the program runs without root's rights, which would make every file readable and writable."""
        if os.geteuid() != 0:
            return
        self.user = 65534
        for name in [".", *self.files()]:
            os.lchown(self.path(name), self.user, self.user)
        try:
            self.works("version")
        except (OSError, Failed) as reason:
            raise Skipped("the program cannot be run by another user than root") from reason

    def run(self, *words, env=None, feed=None, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, timeout=120, limits=None, cwd="",
            pass_fds=()):
        """feed: what comes through a pipe as standard input; limits: {resource.RLIMIT_...: soft limit}, where the hard ones
        stay, or both."""
        words = self.command(*words)
        more = {} if self.user is None else {"user": self.user, "group": self.user, "extra_groups": []}
        if limits:
            more["preexec_fn"] = lambda: set_limits(limits)
        more.update({"stdin": stdin} if feed is None else {"input": feed})
        before = signal.signal(signal.SIGPIPE, signal.SIG_IGN)  # a program that refuses something need not read what it is fed
        process = subprocess.run(words, cwd=self.path(cwd), env=self.environment(**(env or {})), stdout=stdout,
                                 stderr=subprocess.PIPE, timeout=timeout * SLOWNESS, check=False, pass_fds=pass_fds, **more)
        signal.signal(signal.SIGPIPE, before)
        if process.stdout is None:
            process.stdout = b""
        return Result(words, process)

    def start(self, *words, env=None):
        def as_usual():  # whatever this process ignores
            for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
                signal.signal(number, signal.SIG_DFL)
        return subprocess.Popen(self.command(*words), cwd=self.folder, env=self.environment(**(env or {})),
                                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, preexec_fn=as_usual)

    def open_files(self, process):
        """Names of the files and pipes in the box that a process has open; none once it is over."""
        folder = os.path.realpath(self.folder) + "/"
        try:
            paths = [os.readlink(f"/proc/{process.pid}/fd/{fd}") for fd in os.listdir(f"/proc/{process.pid}/fd")]
        except OSError:
            return set()
        return {path[len(folder):] for path in paths if path.startswith(folder)}

    def wait_for(self, process, happens):
        """Waits, however long, until something is true of a running process; returns whether that came before its end."""
        while process.poll() is None:
            if happens():
                return process.poll() is None
            time.sleep(0.001)
        return False

    def works(self, *words, **more):
        result = self.run(*words, **more)
        check(result.status == 0, f"should work: {result}")
        return result

    def refuses(self, status, *words, naming=(), **more):
        """The command fails with a status and one line on stderr that holds every text of `naming`, prints nothing on
        stdout, and leaves the folder as it was."""
        before = {name: self.stamp(name) for name in self.files()}
        result = self.run(*words, **more)
        equal(result.status, status, f"status of {result}")
        check(result.err.endswith("\n") and result.err.count("\n") == 1, f"stderr should be one line: {result}")
        check(result.err.startswith("koofu"), f"the message should begin with 'koofu': {result}")
        for text in [naming] if isinstance(naming, str) else naming:
            check(text in result.err, f"the message should hold {text!r}: {result}")
        equal(result.out, "", f"stdout of {result}")
        after = {name: self.stamp(name) for name in self.files()}
        equal(after, before, f"the folder after {result}")
        return result

    def stamp(self, name):
        info = os.lstat(self.path(name))
        return (info.st_ino, info.st_size, info.st_mtime_ns) if os.path.isfile(self.path(name)) else "folder"


def run_all(program, wanted):
    """Runs the registered tests whose names hold one of `wanted`, or all, but none of those after a dash. 0: passed, 1:
    failed, 77: all skipped."""
    unwanted, wanted = [w[1:] for w in wanted if w[0] == "-"], [w for w in wanted if w[0] != "-"]
    passed = failed = skipped = 0
    for function in TESTS:
        name = f"{function.__module__.removeprefix('test_')}.{function.__name__}"
        if (wanted and not any(w in name for w in wanted)) or any(w in name for w in unwanted):
            continue
        box = Box(program)
        try:
            function(box)
            passed += 1
        except Skipped as reason:
            skipped += 1
            print(f"skipped {name}: {reason}")
        except Failed as reason:
            failed += 1
            print(f"FAILED {name}: {reason}")
        except Exception:  # a bug in the test itself, or a hang
            failed += 1
            print(f"FAILED {name}:")
            traceback.print_exc(file=sys.stdout)
        finally:
            box.close()
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    if failed or passed + skipped == 0:
        return 1
    return 0 if passed else 77


def main(here, usage):
    """The tests of the files test_*.py in a folder, as the command line has them; a status."""
    words = sys.argv[1:]
    if not words or not os.access(words[0], os.X_OK):
        sys.exit(usage)
    known = sorted(name for name in os.listdir(here) if name.startswith("test_") and name.endswith(".py"))
    files = [word for word in words[1:] if word.endswith(".py")]
    for file in files:
        if file not in known:
            sys.exit(f"run.py: no {file} in {here}")
    for file in files or known:
        importlib.import_module(file[:-3])
    return run_all(os.path.abspath(words[0]), [word for word in words[1:] if word not in files])


signal.signal(signal.SIGPIPE, signal.SIG_DFL)
