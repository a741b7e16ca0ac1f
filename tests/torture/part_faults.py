"""Part 'faults': each call of each session fails, once and then for good.

A case is faults:SESSION:WORLD:KIND:HOW:MODE:N. WORLD is 'unnamed' or 'named' (a file system without
O_TMPFILE), HOW an errno or 'short', MODE 'once' or 'good' (for good), N the number of the call,
from 1.

Rules: the program succeeds with exactly the reference's output and files, or it fails with a
documented status and one line on stderr, and every file is as it was before. Harmless results of
system calls (EINTR, fewer bytes, no randomness) must have no effect at all.
"""

import errno
import os
import random
import re

from lab import BAD_DATA, INTERNAL, IO, OK, check_end, check_message, check_safe, hold, is_litter, steady

COMMON = (errno.EIO, errno.ENOMEM)
HOWS = {  # errors of each kind of call; 'short': fewer bytes than asked for
    "memory": (errno.ENOMEM,),
    "open": (errno.EIO, errno.EMFILE, errno.EACCES, errno.EINTR),
    "openat": (errno.EIO, errno.EMFILE, errno.EACCES, errno.EINTR),
    "read": (errno.EIO, errno.EINTR, "short"),
    "pread": (errno.EIO, errno.EINTR, "short"),
    "write": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, "short"),
    "pwrite": (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.EINTR, "short"),
    "fsync": (errno.EIO, errno.ENOSPC, errno.EINTR),
    "fdatasync": (errno.EIO, errno.ENOSPC, errno.EINTR),
    "close": (errno.EIO, errno.EINTR),
    "rename": (errno.EIO, errno.ENOSPC),
    "renameat": (errno.EIO, errno.ENOSPC),
    "renameat2": (errno.EIO, errno.EINVAL),
    "link": (errno.EIO, errno.EPERM),
    "linkat": (errno.EIO, errno.EPERM, errno.EDQUOT),
    "symlink": (errno.EIO,),
    "unlink": (errno.EIO,),
    "unlinkat": (errno.EIO,),
    "mkdir": (errno.ENOSPC, errno.EACCES),
    "rmdir": (errno.EIO,),
    "ftruncate": (errno.EIO, errno.EINTR),
    "posix_fallocate": (errno.ENOSPC, errno.EINTR),
    "mmap": (errno.ENOMEM,),
    "stat": COMMON, "lstat": COMMON, "fstat": COMMON, "fstatat": COMMON,
    "access": (errno.EIO,), "faccessat": (errno.EIO,),
    "fchmod": (errno.EPERM, errno.EIO),
    "fchown": (errno.EPERM, errno.EIO),
    "readlink": (errno.EIO,), "realpath": COMMON,
    "opendir": (errno.EMFILE, errno.EIO), "fdopendir": COMMON, "readdir": (errno.EIO,),
    "scandir": (errno.EIO, errno.ENOMEM),
    "mkostemp": (errno.ENOSPC, errno.EMFILE),
    "fdopen": (errno.ENOMEM,),
    "fcntl": (errno.EMFILE,),
    "flock": (errno.ENOLCK, errno.EINTR),
    "getrandom": (errno.ENOSYS, errno.EINTR),
    "pthread_create": (errno.EAGAIN,),
    "socket": (errno.EMFILE, errno.EACCES),
}
INTERCEPTED = {"memory": ("malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign")}
# Functions of the C library that can fail and that the library of faults does not know. A program
# that imports one of them does something that no fault reaches: it must be added there first.
# (dlopen is not among them: no session opens a device, and plug-ins that cannot be opened are the
# matter of test_device.c and cli/test_device.py. Nor is fread: its streams read through `read`.)
UNKNOWN = ("creat", "fopen", "fopen64", "freopen", "getline", "getdelim", "fgets", "readv", "writev", "preadv", "pwritev",
           "sendfile", "copy_file_range", "splice", "truncate", "fallocate", "sync_file_range", "syncfs", "msync", "mremap", "tmpfile",
           "mkstemp", "mkdtemp", "mkstemps", "mkostemps", "linkat2", "symlinkat", "mkdirat", "nftw", "fts_open", "lockf",
           "pipe", "pipe2", "eventfd", "fork", "vfork", "posix_spawn", "popen", "system", "execve", "valloc", "pvalloc",
           "reallocarray", "open64", "openat64", "pread64", "pwrite64", "mmap64", "readdir64", "glob", "glob64", "statx", "getentropy", "dup",
           "dup2", "dup3", "utimensat", "futimens", "chown", "chmod", "remove")
NOT_MET = ("faccessat",)  # imported, but called only while a command fails anyway
LOOKS = ("stat", "lstat", "fstat", "fstatat", "access", "faccessat")  # a file that cannot be examined may count as missing
REMOVES = ("unlink", "unlinkat", "rmdir", "opendir", "readdir")       # without these nothing can be tidied up
NAMES = {number: name for number, name in errno.errorcode.items()}
NUMBERS = {name: number for number, name in errno.errorcode.items()}
INVISIBLE = {errno.EINTR}
ALL_BELOW = 400  # calls of one kind in a session: up to here each one fails, beyond it the first, the last and a sample


def prepare(lab):
    """Counts the calls of every session in both worlds: {(session, world): {kind: n}}."""
    counts = {}
    for s in lab.sessions.values():
        for world in ("unnamed", "named"):
            result = run_once(lab, s, world, {})
            reference = lab.reference(s)
            hold(result.status == OK and steady(result.out) == reference.out and same(lab.bench.tree(), reference.after),
                 f"{s.name} behaves otherwise with the library of faults: {result}")
            counts[s.name, world] = lab.bench.counted()
    lab.counts = counts


def check_kinds(lab):
    """Every function that the program imports and the library of faults knows must have been met."""
    with open(lab.bench.program, "rb") as file:
        binary = file.read()
    met = {kind for counted in lab.counts.values() for kind, n in counted.items() if n > 0}
    imported = {kind for kind in HOWS if any(b"\0" + name.encode() + b"\0" in binary for name in INTERCEPTED.get(kind, (kind,)))}
    if lab.bench.sanitized:
        imported -= {"memory"}
    if os.geteuid() != 0:
        imported -= {"fchown"}  # files of other groups
    for kind in sorted(imported - met - set(NOT_MET)):
        yield f"the program imports {kind}, but no session has called it through the library of faults"
    for name in UNKNOWN:
        if b"\0" + name.encode() + b"\0" in binary and not lab.bench.sanitized:
            yield f"the program imports {name}, which tests/torture/faults.c does not know"


def run_once(lab, s, world, fault):
    lab.bench.prepare(lab.reference(s).before)
    threads = {"KOOFU_THREADS": "3"} if fault.get("KIND") == "pthread_create" or not fault else {}
    return lab.bench.run(s.words, fault={**fault, "NAMED": int(world == "named")}, environment=threads)


def places(n, rng):
    if n <= ALL_BELOW:
        return list(range(1, n + 1))
    ends = ALL_BELOW // 4
    return [*range(1, ends + 1), *sorted(rng.sample(range(ends + 1, n - ends + 1), ALL_BELOW - 2 * ends)), *range(n - ends + 1, n + 1)]


def cases(lab, share=None):
    """All cases; with a share, that many of each session, of every kind at least one."""
    rng = random.Random(f"{lab.seed}:faults")
    found = []
    for (name, world), counted in lab.counts.items():
        of_session = []
        for kind, n in counted.items():
            if kind not in HOWS or (world == "named" and kind == "memory"):
                continue
            of_kind = [f"faults:{name}:{world}:{kind}:{NAMES.get(how, how)}:{mode}:{at}"
                       for how in HOWS[kind] for mode in modes(how) for at in places(n, rng)]
            if share is not None:
                rng.shuffle(of_kind)
                found += of_kind[:1]
                of_kind = of_kind[1:]
            of_session += of_kind
        if share is not None:
            of_session = rng.sample(of_session, min(share, len(of_session)))
        found += of_session
    return found


def modes(how):
    return ("once",) if how in INVISIBLE else ("good",) if how == "short" else ("once", "good")


def run(lab, name, world, kind, how, mode, at):
    s = lab.sessions[name]
    fault = {"KIND": kind, "AT": at, "FOR_GOOD": int(mode == "good")}
    fault |= {"SHORT": 1} if how == "short" else {"ERRNO": NUMBERS[how]}
    result = run_once(lab, s, world, fault)
    lab.shown = result
    check_end(result)
    unseen = how in ("short", "EINTR") or kind == "getrandom" or (kind in ("fchmod", "fchown") and how == "EPERM")
    hold(not unseen or result.status == OK, "it fails, although nothing is wrong")
    check_outcome(lab, s, result, allowed=allowed_for(kind),
                  may_litter=kind in REMOVES, may_stay=True, torn_stdout=kind in ("write", "close"))
    if kind == "memory" and result.status != OK:
        hold(b"memory" in result.err, "out of memory is called something else")
    return s.command


def allowed_for(kind):
    if kind == "memory":
        return (INTERNAL,)
    return (INTERNAL, BAD_DATA, IO) if kind in LOOKS else (INTERNAL, IO)


def check_outcome(lab, s, result, allowed, may_litter=False, may_stay=False, torn_stdout=False):
    """The reference's end, or a failure that leaves everything as it was. may_litter: nothing can be removed; may_stay: the
    shards of a file that is whole may remain, and changes that are in the gallery by now, since failing to tidy them up is not
    an error."""
    reference, tree = lab.reference(s), lab.bench.tree()
    if may_litter:
        tree = {name: content for name, content in tree.items() if not is_litter(name)}
    if result.status == OK:
        kept = {name: content for name, content in tree.items() if not (may_stay and (".parts/" in name or is_past(name, reference)))}
        hold(steady(result.out) == reference.out, "it succeeds, but prints something else")
        hold(same(kept, reference.after, s.best_effort), lambda: f"it succeeds, but {difference(kept, reference.after)}")
        check_safe(result.err.decode("utf-8", "surrogateescape"))
        return
    hold(result.status in allowed, lambda: f"status {result.status} is not one for this failure")
    check_message(result, most=s.messages)
    hold(is_part(steady(result.out), reference.out, s, torn_stdout), "it fails, but prints something")
    if b"standard output: cannot be written" in result.err and same(tree, reference.after):
        return  # the files are one thing, what is printed about them another
    if s.resumes and tree != reference.before:
        rest = without(tree, s.resumes)
        hold(rest == without(reference.before, s.resumes), lambda: f"it fails, and {difference(rest, without(reference.before, s.resumes))}")
        check_again(lab, s)
        return
    tree = undone(tree, reference, result.err.decode("utf-8", "replace"))
    hold(tree == reference.before, lambda: f"it fails, and {difference(tree, reference.before)}")


def is_past(name, reference):
    """A change of a gallery that has been rewritten: in a folder that was moved aside, or of a file with other bytes."""
    place = re.sub(r"(^|/)\.([^/]*\.changes)\.[0-9a-f]{16}\.old/", r"\1\2/", name)
    gallery = place.split(".changes/")[0]
    other = place != name or reference.before.get(gallery) != reference.after.get(gallery)
    return ".changes/" in place and other and place in reference.before and place not in reference.after


def undone(tree, reference, message):
    """Without the new files that the message names: those that could not be undone."""
    new = {name for name in tree if f"{name} has already been replaced" in message and tree[name] == reference.after.get(name)}
    kept = {name: content for name, content in tree.items() if name not in new}
    return {**kept, **{name: content for name, content in reference.before.items() if name in new}}


def is_part(printed, whole, s, torn):
    """What a failing command may have printed: nothing if it writes a file, otherwise the beginning, or correct lines."""
    if s.messages > 1:
        lines = printed.split(b"\n")
        return set(lines if not torn else lines[:-1]) <= set(whole.split(b"\n"))
    if torn:
        return len(printed) <= len(whole)  # a write that fails once leaves a hole
    return printed == b"" if s.writes else whole.startswith(printed)


def check_again(lab, s):
    """A run without faults after one that was cut short."""
    reference = lab.reference(s)
    result = lab.bench.run(s.words)
    hold(result.status == OK, lambda: f"cannot be repeated: {result}")
    tree = {name: content for name, content in lab.bench.tree().items() if not is_litter(name)}
    hold(same(tree, reference.after), lambda: f"repeated, {difference(tree, reference.after)}")


def without(tree, names):
    """A tree less these files, or what is below these folders."""
    return {name: content for name, content in tree.items() if not any(name == n or name.startswith(n + "/") for n in names)}


def same(a, b, best_effort=()):
    """Whether two trees hold the same; of files with best effort, whether they are whole."""
    def alike(name):
        if name in best_effort:
            return a[name].endswith(b"</html>\n")
        return a[name] == b[name] or (name.endswith(".html") and steady(a[name]) == steady(b[name]))
    return a.keys() == b.keys() and all(map(alike, a))


def difference(tree, wanted):
    for name in sorted(tree.keys() | wanted.keys()):
        if name not in tree:
            return f"{name} is missing"
        if name not in wanted:
            return f"{name} is left behind"
        if tree[name] != wanted[name]:
            return f"{name} has other bytes"
    return "nothing differs"
