"""Part 'kills': signals at every call of every session that writes, and at random moments.

A case is kills:SESSION:WORLD:SIGNAL:call:N, which signals just before the N-th call, or
kills:SESSION:WORLD:SIGNAL:SEED:N, which signals at a moment determined by SEED and N.

Rules: every file is the old one or the new one, byte for byte. SIGKILL may leave what
docs/reliability.md lists: hidden '.part' and '.old' files, an empty folder for changes of a
gallery, and the unfinished work of embed. SIGTERM and SIGINT leave only the latter, and of several
files all are old. In each case running the command again gives the right bytes: no row is added
twice.
"""

import os
import random
import signal
import time

from lab import OK, check_message, hold, is_litter, steady
from part_faults import check_again, difference, same, without

SIGNALS = ("KILL", "KILL", "TERM", "INT")


def cases(lab, share=None):
    rng = random.Random(f"{lab.seed}:kills")
    found = []
    writing = [s for s in lab.sessions.values() if s.writes]
    for s in writing:
        for world in ("unnamed", "named"):
            calls = [f"kills:{s.name}:{world}:{name}:call:{n + 1}" for n in range(lab.counts[s.name, world]["any"])
                     for name in ("KILL", "TERM" if world == "named" else "INT")]
            found += calls if share is None else rng.sample(calls, min(share, len(calls)))
    n = lab.options.kills if share is None else share * len(writing)
    return found + [f"kills:{writing[i % len(writing)].name}:{rng.choice(('unnamed', 'named'))}:{rng.choice(SIGNALS)}:{lab.seed}:{i}" for i in range(n)]


def run(lab, name, world, signal_name, seed, number):
    s, reference = lab.sessions[name], lab.reference(lab.sessions[name])
    sent = getattr(signal, "SIG" + signal_name)
    fault, before_wait = {"NAMED": int(world == "named")}, None
    if seed == "call":
        fault |= {"KIND": "any", "AT": number, "SIGNAL": int(sent)}
    else:
        moment = random.Random(f"kills:{name}:{seed}:{number}").uniform(0, 1.3 * lab.pace(s))

        def before_wait(pid):
            time.sleep(moment)
            try:
                os.kill(pid, sent)
            except ProcessLookupError:
                pass
    lab.bench.prepare(reference.before)
    result = lab.bench.run(s.words, fault=fault, before_wait=before_wait)
    lab.shown = result
    check_killed(lab, s, result, sent)
    return s.command


def check_killed(lab, s, result, sent):
    reference, tree = lab.reference(s), lab.bench.tree()
    hold(not result.hung, "it hangs")
    hold(result.status in (OK, -sent), lambda: f"status {result.status} after signal {sent}")
    litter = [name for name in tree if is_litter(name)]
    hold(sent == signal.SIGKILL or not litter, lambda: f"{', '.join(litter)} is left behind")
    kept = {name: content for name, content in tree.items() if not is_litter(name)}
    if result.status == OK:
        hold(same(kept, reference.after, s.best_effort), lambda: f"it succeeds, but {difference(kept, reference.after)}")
        hold(steady(result.out) == reference.out, "it succeeds, but prints something else")
        return
    if result.err:
        check_message(result)
    rest, old, new = (without(t, s.resumes) for t in (kept, reference.before, reference.after))
    for name in rest.keys() | old.keys():
        states = [t.get(name) for t in (old, new)]
        hold(rest.get(name) in states or name in s.best_effort, lambda: f"{name} is neither the old nor the new file")
    if sent != signal.SIGKILL:
        hold(same(rest, old), lambda: f"it was stopped, but {difference(rest, old)}")
    check_again(lab, s)
