"""A side of the benchmarks: a program in its own process, which takes turns with others.

It says `ready` and what it is; then it answers each line on its input with two times in seconds, of the
wall clock and of its processors. A side that cannot take part exits with 77 and says why. The sides in C
do the same (serve.h).
"""

import subprocess
import sys
import time

MISSING = 77


class Missing(Exception):
    """A side is not available; the message says why."""


class Side:
    def __init__(self, name, command, environment=None):
        self.name = name
        self.process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        universal_newlines=True)
        said = self.process.stdout.readline()
        if not said.startswith("ready"):
            self.stop()
            status = self.process.returncode
            raise Missing(said.strip() if status == MISSING else f"{name} failed with {status}")
        self.what = said[len("ready"):].strip()

    def ask(self, line=""):
        """Seconds of wall clock and of CPU time."""
        print(line, file=self.process.stdin, flush=True)
        answer = self.process.stdout.readline()
        if not answer:
            raise RuntimeError(f"{self.name} died at '{line}' with {self.process.wait()}")
        wall, busy = map(float, answer.split())
        return wall, busy

    def stop(self):
        self.process.stdin.close()
        self.process.stdout.close()
        self.process.wait()


def clock(work):
    """Both times of work(), and its result."""
    wall, busy = time.perf_counter(), time.process_time()
    result = work()
    return time.perf_counter() - wall, time.process_time() - busy, result


def serve(what, answer):
    """The loop of a side: `answer` takes a line and returns two times."""
    print("ready", what, flush=True)
    for line in sys.stdin:
        print(*answer(line.strip()), flush=True)


def missing(why):
    print(why, flush=True)
    sys.exit(MISSING)
