"""Part 'limits': what the system permanently refuses.

A case is limits:SESSION:LIMIT:VALUE. LIMIT is 'memory' (KiB of address space), 'files' (open at
once), 'size' (of a file, in bytes), 'disk' (free pages of 4 KiB on an otherwise full disk; needs
root), 'folder' (no permission to write; needs root, to become another user), 'full' (stdout is a
full device) or 'closed' (the descriptors in VALUE are not open).

Rules: those of the part 'faults'.
"""

import os
import random
import resource
import subprocess

from lab import INTERNAL, IO, OK, check_end, check_message, hold
from part_faults import check_outcome, difference, same

DISK = 64  # pages
STEPS = 24


def prepare(lab):
    """Finds where limits begin to matter: below, not even 'koofu version' runs."""
    lab.least_memory = least(lambda kib: lab.bench.run(["version"], limits={resource.RLIMIT_AS: kib << 10}).status == OK, 1 << 10, 1 << 21)
    lab.least_files = least(lambda n: lab.bench.run(["version"], limits={resource.RLIMIT_NOFILE: n}).status == OK, 3, 64)
    lab.disks = os.geteuid() == 0 and mount(lab)
    lab.nobody = os.geteuid() == 0 and can_be_nobody(lab)


def least(works, low, high):
    """The least value that works, to a hundredth."""
    while high - low > max(1, low // 100):
        middle = (low + high) // 2
        low, high = (low, middle) if works(middle) else (middle, high)
    return high


def can_be_nobody(lab):
    os.chmod(lab.folder, 0o755)
    try:
        return lab.bench.run(["version"], nobody=True).status == OK
    except PermissionError:
        return False


def mount(lab):
    """A small disk for every job."""
    for number in range(lab.options.jobs + 1):
        folder = os.path.join(lab.folder, "jobs", str(number), "d")
        os.makedirs(folder, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK * 4}k", "tmpfs", folder], capture_output=True, check=False)
        if done.returncode != 0:
            return False
    return True


def finish(lab):
    if getattr(lab, "disks", False):
        for number in range(lab.options.jobs + 1):
            subprocess.run(["umount", os.path.join(lab.folder, "jobs", str(number), "d")], capture_output=True, check=False)


def cases(lab, share=None):
    rng = random.Random(f"{lab.seed}:limits")
    found = []
    for s in lab.sessions.values():
        size = max([len(content) for content in lab.reference(s).after.values()] + [len(lab.reference(s).out)])
        of_session = [f"limits:{s.name}:closed:{which}" for which in ("0", "1", "2", "01", "12", "012")] + [f"limits:{s.name}:full:1"]
        if not lab.bench.sanitized:
            need = lab.least_memory + (lab.reference(s).peak >> 10) + 4096
            of_session += [f"limits:{s.name}:memory:{rng.randrange(lab.least_memory, need)}" for _ in range(2 * STEPS)]
        of_session += [f"limits:{s.name}:files:{n}" for n in range(lab.least_files, lab.least_files + 10)]
        of_session += [f"limits:{s.name}:size:{n}" for n in sorted({0, 1, size - 1, size, *(rng.randrange(size + 1) for _ in range(STEPS))})]
        if lab.disks and s.writes:
            of_session += [f"limits:{s.name}:disk:{n}" for n in range(12)]
        if lab.nobody and s.writes:
            of_session += [f"limits:{s.name}:folder:0"]
        found += of_session if share is None else rng.sample(of_session, share)
    return found


def run(lab, name, limit, value):
    s = lab.sessions[name]
    {"memory": memory, "files": files, "size": size_of_files, "disk": disk, "folder": folder, "full": full, "closed": closed}[limit](lab, s, value)
    return s.command


def limited(lab, s, allowed, **how):
    lab.bench.prepare(lab.reference(s).before)
    result = lab.bench.run(s.words, **how)
    lab.shown = result
    check_end(result)
    check_outcome(lab, s, result, allowed=allowed, torn_stdout=True)
    return result


def memory(lab, s, value):
    result = limited(lab, s, (INTERNAL,), limits={resource.RLIMIT_AS: int(value) << 10})
    hold(result.status == OK or b"memory" in result.err, "out of memory is called something else")


def files(lab, s, value):
    limited(lab, s, (INTERNAL, IO), limits={resource.RLIMIT_NOFILE: int(value)})


def size_of_files(lab, s, value):
    limited(lab, s, (IO,), limits={resource.RLIMIT_FSIZE: int(value)}, piped=True)


def disk(lab, s, value):
    small, usual = os.path.join(lab.bench.folder, "d"), lab.bench.case
    lab.bench.case = small
    try:
        lab.bench.prepare(lab.reference(s).before)
        fill(os.path.join(small, "filler"), int(value))
        result = lab.bench.run(s.words)
        lab.shown = result
        os.unlink(os.path.join(small, "filler"))
        check_end(result)
        check_outcome(lab, s, result, allowed=(IO,), torn_stdout=True)
    finally:
        lab.bench.clear()
        lab.bench.case = usual


def fill(path, free):
    """Leaves this many pages free."""
    with open(path, "wb", buffering=0) as file:
        try:
            while True:
                file.write(b"x" * 4096)
        except OSError:
            pass
        file.truncate(max(0, os.fstat(file.fileno()).st_size // 4096 * 4096 - free * 4096))


def folder(lab, s, _value):
    reference = lab.reference(s)
    lab.bench.prepare(reference.before)
    for name in reference.before:
        os.chmod(os.path.join(lab.bench.case, name), 0o444)
    os.chmod(lab.bench.case, 0o555)
    try:
        result = lab.bench.run(s.words, nobody=True)
        lab.shown = result
        check_end(result)
        hold(result.status == IO, "it does not fail, although nothing can be written")
        check_message(result)
        hold(lab.bench.tree() == reference.before, lambda: f"it fails, and {difference(lab.bench.tree(), reference.before)}")
    finally:
        os.chmod(lab.bench.case, 0o755)


def full(lab, s, _value):
    with open("/dev/full", "wb") as device:
        lab.bench.prepare(lab.reference(s).before)
        result = lab.bench.run(s.words, stdout=device)
    lab.shown = result
    check_end(result)
    hold((result.status == IO) == bool(lab.reference(s).out), lambda: f"status {result.status} although stdout {'takes nothing' if lab.reference(s).out else 'is not used'}")
    check_files(lab, s, result)


def closed(lab, s, value):
    """Files that are opened then get the numbers of the standard streams: what is printed must not end up in them."""
    lab.bench.prepare(lab.reference(s).before)
    result = lab.bench.run(s.words, closed=tuple(map(int, value)))
    lab.shown = result
    check_end(result)
    hold(result.status in (OK, IO), lambda: f"status {result.status}")
    hold(result.status == IO or "1" not in value or not lab.reference(s).out, "what it prints goes nowhere, and it succeeds")
    check_files(lab, s, result)


def check_files(lab, s, result):
    """After trouble with the standard streams: all files are new, or all are old and the command says that it failed."""
    reference, tree = lab.reference(s), lab.bench.tree()
    if same(tree, reference.after, s.best_effort):
        return
    hold(result.status != OK and (s.resumes or tree == reference.before), lambda: difference(tree, reference.after))
