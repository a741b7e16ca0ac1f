"""Part 'writers': several processes on one file.

A case is writers:SCENARIO:SEED:NUMBER; these determine how slow each process is, but not how the
system schedules them.

append    three processes add rows to one gallery while others read and search it. Afterwards the rows
          of those that succeeded are there once, complete and in order, and those of the others are
          not; each failure said why. Readers always succeed and see whole batches.
replace   two processes write different galleries under one name while two read it: readers always see
          one of them.
embed     two processes embed to one file or one folder (quickstart): the result is right in the end,
          and each failure said why.
"""

import json
import os
import random
import struct
import subprocess
import time

from lab import OK, SECONDS, Result, check_end, check_message, content_of, ended_within, hold
from part_faults import difference, same

IN = "../../../in/"
WRITERS, BASE = 3, 24


def cases(lab, share=None):
    n = lab.options.rounds if share is None else share
    rounds = [f"writers:append:{lab.seed}:{i}" for i in range(n)]
    others = [f"writers:{name}:{lab.seed}:{i}" for name in ("replace", "embed", "quickstart") for i in range(max(1, n // 5))]
    return rounds + others


def command_of(_lab, scenario, _seed, _number):
    return {"append": "index", "replace": "index"}.get(scenario, scenario)


def run(lab, scenario, seed, number):
    rng = random.Random(f"writers:{scenario}:{seed}:{number}")
    lab.bench.clear()
    if scenario in ("append", "replace"):
        {"append": append, "replace": replace}[scenario](lab, rng)
    else:
        together(lab, rng, lab.sessions["embed-shards" if scenario == "embed" else scenario])
    return command_of(lab, scenario, seed, number)


class Party:
    """Processes that run at the same time, each with files of its own for what it says."""

    def __init__(self, lab):
        self.lab, self.members, self.said = lab, [], []

    def start(self, words, delay=0):
        """delay: microseconds that each system call takes longer, so that the processes meet in many ways."""
        env = self.lab.bench.environment
        if delay:
            env = {**env, "LD_PRELOAD": self.lab.bench.shim, "FAULT_DELAY": str(delay)}
        number = len(self.members)
        files = [open(os.path.join(self.lab.bench.folder, f"{stream}-{number}"), "w+b", buffering=0) for stream in ("out", "err")]
        process = subprocess.Popen([self.lab.bench.program, *words, "-q"], cwd=self.lab.bench.case, env=env,
                                   stdin=subprocess.DEVNULL, stdout=files[0], stderr=files[1])
        self.members.append((words, process, files))
        return number

    def end(self, number):
        words, process, files = self.members[number]
        begun = time.monotonic()
        hung = process.poll() is None and not ended_within(process.pid, SECONDS)
        if hung:
            process.kill()
        process.wait()
        result = Result(words, process.returncode, content_of(files[0]), content_of(files[1]), time.monotonic() - begun, 0, hung)
        for file in files:
            file.close()
        self.said.append(str(result))
        self.lab.shown = "\n  ".join(self.said)
        check_end(result)
        if result.status != OK:
            check_message(result)
        return result

    def running(self, numbers):
        return [n for n in numbers if self.members[n][1].poll() is None]


def delay(rng):
    return int(rng.choice((0, 50, 200, 1000)) * rng.random())


def read_while(party, writers, reading, check):
    """Readers, one after another, until all writers have ended, and one more."""
    last = False
    while True:
        for words in reading:
            check(party.end(party.start(words)))
        if last:
            return
        last = not party.running(writers)


# --- append -------------------------------------------------------------------------------------------


def ids_of(content):
    length = struct.unpack_from("<Q", content)[0]
    header = json.loads(content[8:8 + length])

    def tensor(name):
        begin, end = header[name]["data_offsets"]
        return content[8 + length + begin:8 + length + end]
    ends, text = tensor("id_ends"), tensor("id_bytes")
    ends = struct.unpack(f"<{len(ends) // 8}q", ends)
    return [text[begin:end].decode() for begin, end in zip((0, *ends), ends)]


def batch(number):
    return [f"w{number}/{i}.png" for i in range(8)]


def batches_in(ids):
    """Which batches a gallery holds, in their order."""
    hold(ids[:BASE] == [f"photos/{i} ä.png" for i in range(BASE)], "rows of the gallery as it was are gone")
    added, found = ids[BASE:], []
    while added:
        hold(added[0].startswith("w") and added[:8] == batch(added[0][1]), "rows of a batch are gone, or not together")
        found.append(int(added[0][1]))
        added = added[8:]
    hold(len(set(found)) == len(found), "rows were added twice")
    return found


def append(lab, rng):
    with open(os.path.join(lab.inputs, "plain.safetensors"), "rb") as file:
        lab.bench.write("g.safetensors", file.read())
    party, writers = Party(lab), []
    for i in range(WRITERS):
        writers.append(party.start(["index", f"{IN}w{i}.safetensors", "--append", "g.safetensors"], delay(rng)))

    def check(result):
        hold(result.status == OK, "a reader fails")
        hold((json.loads(result.out)["rows"] - BASE) % 8 == 0, "a reader sees part of a batch")
    read_while(party, writers, [["info", "g.safetensors", "--json"], ["search", "g.safetensors", IN + "q.npy", "-k", "1", "--json"]], check)
    results = [party.end(n) for n in writers]
    hold(lab.bench.run(["index", "g.safetensors", "--compact", "-q"]).status == OK, "no file can be made of it and its changes")
    with open(os.path.join(lab.bench.case, "g.safetensors"), "rb") as file:
        found = batches_in(ids_of(file.read()))
    succeeded = [i for i, result in enumerate(results) if result.status == OK]
    hold(sorted(found) == succeeded, lambda: f"{succeeded} say that they added their rows, {sorted(found)} are there")
    left = set(lab.bench.tree()) - {"g.safetensors"}
    hold(not left, lambda: f"{', '.join(left)} is left behind")
    hold(succeeded, "nobody succeeds")


# --- replace ------------------------------------------------------------------------------------------


def replace(lab, rng):
    wanted = []
    for i in range(2):
        hold(lab.bench.run(["index", f"{IN}w{i}.safetensors", "-o", "g.safetensors", "-q"]).status == OK, "no gallery can be made")
        wanted.append(lab.bench.tree()["g.safetensors"])
    described = set()
    for content in wanted:
        lab.bench.write("g.safetensors", content)
        described.add(lab.bench.run(["search", "g.safetensors", "--itself", "-k", "1", "-q"]).out)
    party, writers = Party(lab), []
    for i in range(2):
        writers.append(party.start(["index", f"{IN}w{i}.safetensors", "-o", "g.safetensors"], delay(rng)))

    def check(result):
        hold(result.status == OK and result.out in described, "a reader sees neither file")
    read_while(party, writers, [["search", "g.safetensors", "--itself", "-k", "1"]], check)
    for n in writers:
        hold(party.end(n).status == OK, "a writer fails")
    tree = lab.bench.tree()
    hold(set(tree) == {"g.safetensors"} and tree["g.safetensors"] in wanted, "the file is neither one's")


# --- the same twice -----------------------------------------------------------------------------------


def together(lab, rng, s):
    reference, party = lab.reference(s), Party(lab)
    numbers = [party.start(s.words[:-1], delay(rng)) for _ in range(2)]
    results = [party.end(n) for n in numbers]
    hold(any(result.status == OK for result in results), "nobody succeeds")
    tree = lab.bench.tree()
    hold(same(tree, reference.after), lambda: difference(tree, reference.after))
