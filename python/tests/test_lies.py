"""Arrow arrays and DLPack tensors that lie about themselves are refused, or give the right values.

Random ones are built and then changed field by field. A reader in Python, which knows how much
memory there really is, determines the right result. Cases that need more memory than there is, but
are consistent otherwise, cannot be detected and are not tried. `make sanitize` runs all of this
under AddressSanitizer and UBSan."""

import ctypes
import itertools

import numpy as np
import pytest

import koofu
from arrow_c import (RELEASE_ARRAY, RELEASE_SCHEMA, Array, Chunks, DLTensor, One, Schema, Tensor, new_capsule,
                     release_array, release_schema)
from test_arrays import X

LIES = 1000
FLOATS = {b"e": "f2", b"f": "f4", b"g": "f8"}
WILD = (-2**63, -2**62, -2**31, -2, -1, 0, 1, 2, 2**31 - 1, 2**31, 2**61, 2**62, 2**63 - 1)


class Lie(Exception):
    """The structure contradicts itself and must be refused."""


class Unknowable(Exception):
    """The structure needs missing memory, which cannot be detected."""


class Memory:
    """Allocations of exact size, so that AddressSanitizer detects the first byte beyond."""

    def __init__(self):
        self.blocks = {}

    def put(self, array):
        block = (ctypes.c_char * array.nbytes).from_buffer_copy(array.tobytes())
        self.blocks[ctypes.addressof(block)] = block
        return ctypes.addressof(block)

    def read(self, address, start, n):
        """Bytes from `start` of the block at an address."""
        if address not in self.blocks or start < 0 or start + n > len(self.blocks[address]):
            raise Unknowable
        return bytes(self.blocks[address][start : start + n])


# --- Arrow ----------------------------------------------------------------------------------------


class Given:
    """The given arrays instead of those that Chunks makes."""

    def __init__(self, schema, arrays):
        super().__init__(arrays)
        self.schema = schema

    def _schema(self, out):
        ctypes.pointer(out)[0] = self.schema

    def _array(self, array, out):
        ctypes.pointer(out)[0] = array


class GivenStream(Given, Chunks):
    pass


class GivenOne(Given, One):
    pass


def node(kind, *numbers, buffers=(), children=()):
    """An Array or a Schema with its parts, which it keeps alive."""
    made = kind(*numbers)
    made.parts = list(buffers), list(children)
    if kind is Array:
        made.n_buffers = len(buffers)
        made.buffers = (ctypes.c_void_p * len(buffers))(*buffers)
    made.n_children = len(children)
    made.children = (ctypes.POINTER(kind) * len(children))(*map(ctypes.pointer, children))
    made.release = release_array if kind is Array else release_schema
    return made


class World:
    """A valid Arrow column: lists of floats, each array with its own offset, some with bitmaps."""

    def __init__(self, rng, chunks=1):
        self.rng, self.memory = rng, Memory()
        self.kind = rng.choice(["fixed", "list", "large"])
        self.format = rng.choice(list(FLOATS))
        self.dim, self.table = int(rng.integers(1, 6)), rng.random() < 0.3
        text = {"fixed": b"+w:%d" % self.dim, "list": b"+l", "large": b"+L"}[self.kind]
        self.elements = node(Schema, self.format, b"item")
        self.lists = node(Schema, text, b"rows", children=[self.elements])
        self.schema = node(Schema, b"+s", b"", children=[self.lists]) if self.table else self.lists
        self.arrays = [self._array(int(rng.integers(1, 8))) for _ in range(chunks)]

    def _bitmap(self, n):
        """(null_count, address): no bitmap, or one in which nearly always all values are valid."""
        if self.rng.random() < 0.6:
            return int(self.rng.choice([0, -1])), None
        bits = np.ones((n + 7) // 8 * 8, bool)
        if self.rng.random() < 0.1:
            bits[self.rng.integers(n)] = False
        return -1, self.memory.put(np.packbits(bits, bitorder="little"))

    def _array(self, n):
        outer, inner, before, spare = (int(i) for i in self.rng.integers(0, 3, 4))
        outer = outer if self.table else 0
        length = outer + n + (spare if self.table else 0)
        first = 0 if self.kind == "fixed" else int(self.rng.integers(0, 4))
        values = self.rng.normal(size=before + first + (inner + length) * self.dim)
        nulls, bits = self._bitmap(len(values))
        elements = node(Array, len(values) - before, nulls, before,
                        buffers=[bits, self.memory.put(values.astype(FLOATS[self.format]))])
        nulls, bits = self._bitmap(inner + length)
        buffers = [bits]
        if self.kind != "fixed":
            offsets = first + np.arange(inner + length + 1) * self.dim
            buffers.append(self.memory.put(offsets.astype("i4" if self.kind == "list" else "i8")))
        lists = node(Array, length, nulls, inner, buffers=buffers, children=[elements])
        if not self.table:
            return lists
        nulls, bits = self._bitmap(outer + n)
        return node(Array, n, nulls, outer, buffers=[bits], children=[lists])

    # --- lies

    def lie(self):
        """Makes a random change, and describes it."""
        if self.rng.random() < 0.25:
            return self._lie_schema()
        array = self.arrays[self.rng.integers(len(self.arrays))]
        chain = [array]
        while chain[-1].parts[1]:
            chain.append(chain[-1].parts[1][0])
        if self.kind != "fixed" and self.rng.random() < 0.4:
            return self._lie_offsets(chain[-2])
        level = int(self.rng.integers(len(chain)))
        return f"level {level}: " + self._lie_node(
            chain[level], ["length", "offset", "null_count", "n_buffers", "n_children"], Array)

    def _number(self, now):
        if self.rng.random() < 0.5:
            return now + int(self.rng.choice([-2, -1, 1, 2]))
        return int(self.rng.choice(WILD))

    def _lie_node(self, n, numbers, kind):
        choice = self.rng.random()
        if choice < 0.7:
            name = str(self.rng.choice(numbers))
            value = max(-2**63, min(2**63 - 1, self._number(getattr(n, name))))
            setattr(n, name, value)
            return f"{name} = {value}"
        if choice < 0.76:
            n.release = (RELEASE_ARRAY if kind is Array else RELEASE_SCHEMA)()
            return "release = NULL"
        if choice < 0.82:
            n.dictionary = ctypes.addressof(n)
            return "a dictionary"
        if choice < 0.88 and n.parts[1] and n.children:
            n.children[0] = ctypes.POINTER(kind)()
            return "children[0] = NULL"
        if choice < 0.94 or kind is Schema:
            n.children = ctypes.POINTER(ctypes.POINTER(kind))()
            return "children = NULL"
        if choice < 0.97:
            n.buffers = ctypes.POINTER(ctypes.c_void_p)()
            return "buffers = NULL"
        at = int(self.rng.integers(len(n.parts[0])))
        if n.buffers:
            n.buffers[at] = None
        return f"buffers[{at}] = NULL"

    def _lie_schema(self):
        chain = [self.schema, *([self.lists] if self.table else []), self.elements]
        n = chain[self.rng.integers(len(chain))]
        if self.rng.random() < 0.5:
            n.format = [None, b"", b"+s", b"+l", b"+L", b"+w:3", b"+w:0", b"+w:-4", b"+w:", b"+w: 3",
                        b"+w:3,", b"+w:70000", b"+w:99999999999999999999", b"f", b"e", b"g", b"i", b"+vl",
                        b"\xff"][self.rng.integers(19)]
            return f"format = {n.format}"
        return "schema: " + self._lie_node(n, ["n_children"], Schema)

    def _lie_offsets(self, lists):
        block = self.memory.blocks.get(lists.buffers[1]) if lists.buffers and len(lists.parts[0]) > 1 else None
        if block is None:
            return "nothing"
        offsets = np.frombuffer(block, "i4" if self.kind == "list" else "i8")
        choice = self.rng.random()
        if choice < 0.3:
            with np.errstate(over="ignore"):
                offsets += offsets.dtype.type(self.rng.integers(-9, 10))
        elif choice < 0.4:
            offsets[:] = offsets[::-1].copy()
        else:
            info = np.iinfo(offsets.dtype)
            at = int(self.rng.integers(len(offsets)))
            offsets[at] = max(info.min, min(info.max, self._number(int(offsets[at]))))
        return f"offsets {offsets.tolist()}"

    # --- the reader

    def read(self, stream):
        """The rows according to the specification."""
        schema, table = self.schema, False
        self._check_schema(schema)
        if schema.format == b"+s":
            table, schema = True, self._child(schema)
            self._check_schema(schema)
        fixed = None
        if schema.format.startswith(b"+w:"):
            digits = schema.format[3:]
            if not digits.isdigit() or not 1 <= int(digits) <= 65536:
                raise Lie
            fixed = int(digits)
        elif schema.format not in (b"+l", b"+L"):
            raise Lie
        element = self._child(schema)
        self._check_schema(element)
        if element.format not in FLOATS:
            raise Lie
        wide = "<i4" if schema.format == b"+l" else "<i8"
        arrays = self.arrays
        if stream:  # which ends with an array that has been released
            arrays = list(itertools.takewhile(lambda a: a.release, arrays))
        rows = [self._chunk(a, table, fixed, wide, np.dtype(FLOATS[element.format])) for a in arrays]
        rows = [chunk for chunk in rows if chunk is not None]
        if len({chunk.shape[1] for chunk in rows}) > 1:
            raise Lie
        return np.concatenate(rows) if rows else np.empty((0, self.dim), FLOATS[element.format])

    @staticmethod
    def _check_schema(s):
        if not s.release or s.format is None or s.dictionary or s.n_children < 0:
            raise Lie
        if s.n_children and not s.children:
            raise Lie

    @staticmethod
    def _child(n):
        if n.n_children != 1 or not n.children or not n.children[0]:
            raise Lie
        return n.children[0].contents

    @staticmethod
    def _check(a, buffers, children):
        wrong = (not a.release or a.dictionary or a.length < 0 or a.offset < 0 or a.length > 2**59 or
                 a.offset > 2**59 or a.n_buffers != buffers or not a.buffers or
                 a.n_children != children or not -1 <= a.null_count <= a.length)
        if wrong or a.null_count > 0 and not a.buffers[0]:
            raise Lie

    def _check_bits(self, a, first, n):
        if a.null_count == 0 or not a.buffers[0]:
            return
        for i in range(first, first + n):
            if not self.memory.read(a.buffers[0], i // 8, 1)[0] >> (i % 8) & 1:
                raise Lie  # a null, rather

    def _chunk(self, top, table, fixed, wide, dtype):
        lists = top
        if table:
            self._check(top, 1, 1)
            lists = self._child(top)
        self._check(lists, 1 if fixed else 2, 1)
        elements = self._child(lists)
        self._check(elements, 2, 0)
        n, first = top.length, top.offset if table else 0
        if first + n > lists.length:
            raise Lie
        if n == 0:
            return None
        if n > 2**30:
            raise Unknowable
        if table:
            self._check_bits(top, first, n)
        first += lists.offset
        self._check_bits(lists, first, n)
        if fixed:
            begin, dim = first * fixed, fixed
            if (first + n) * fixed > elements.length:
                raise Lie
        else:
            begin, dim = self._offsets(lists, first, n, np.dtype(wide), elements.length)
        begin += elements.offset
        if not elements.buffers[1]:
            raise Lie
        self._check_bits(elements, begin, n * dim)
        size = dtype.itemsize
        block = self.memory.read(elements.buffers[1], begin * size, n * dim * size)
        return np.frombuffer(block, dtype).reshape(n, dim)

    def _offsets(self, lists, first, n, wide, most):
        if not lists.buffers[1]:
            raise Lie
        ends = []
        for i in range(first, first + n + 1):
            block = self.memory.read(lists.buffers[1], i * wide.itemsize, wide.itemsize)
            ends.append(int(np.frombuffer(block, wide)[0]))
            if not (ends[-2] if len(ends) > 1 else 0) <= ends[-1]:
                raise Lie
            if len(ends) > 1 and (ends[-1] > most or ends[-1] - ends[-2] != ends[1] - ends[0]):
                raise Lie
        if not 1 <= ends[1] - ends[0] <= 65536:
            raise Lie
        return ends[0], ends[1] - ends[0]


# --- what is done with them -----------------------------------------------------------------------

MODELS = {}
GALLERIES = {}


def model(dim):
    if dim not in MODELS:
        rng = np.random.default_rng(dim)
        y = np.arange(60) % 3
        rows = (rng.normal(size=(60, dim)) + 3 * rng.normal(size=(3, dim))[y]).astype("f4")
        MODELS[dim] = koofu.fit(rows, y, lambda_=0.1, metric="euclidean", normalize=False)
        GALLERIES[dim] = koofu.Gallery.build(rows, metric="euclidean")
    return MODELS[dim]


def gallery(dim):
    model(dim)
    return GALLERIES[dim]


USES = [
    lambda rows, dim, n: koofu.Data(rows).rows(),
    lambda rows, dim, n: model(dim).transform(rows),
    lambda rows, dim, n: model(dim).classify(rows, top=2)[1],
    lambda rows, dim, n: np.frombuffer(
        koofu.Stats.of(rows, np.zeros(n, int), normalize=False).to_bytes(), "u1"),
    lambda rows, dim, n: gallery(dim).search(rows, k=3).scores,
    lambda rows, dim, n: model(dim).scores(rows),
]


def outcome(use, rows, dim, n):
    try:
        answer = use(rows, dim, n)
        return answer.shape, answer.tobytes()
    except (ValueError, TypeError) as error:
        return type(error), str(error)


def judge(number, lies, rows, wanted, dim):
    """Uses rows that may lie; wanted: the true rows, or None if they must be refused."""
    use = USES[number % len(USES)]
    n = 1 if wanted is None else len(wanted)
    got = outcome(use, rows, dim, n)
    say = f"case {number}, {lies}: {got}"
    if wanted is None:
        assert isinstance(got[1], str) and got[1].startswith("X"), say
        assert "labels" not in got[1], say
    else:
        want = outcome(use, np.ascontiguousarray(wanted), dim, n)
        # NaN where two bytes of one value and two of the next are read is put in different words.
        assert got[0] == want[0] if isinstance(got[0], type) else got == want, say


def test_arrow_lies():
    rng = np.random.default_rng(35)
    told = fine = number = 0
    while told < LIES:
        number += 1
        world = World(rng, chunks=int(rng.integers(1, 3)))
        lies = [world.lie() for _ in range(int(rng.choice([0, 1, 1, 1, 1, 2, 3])))]
        stream = len(world.arrays) > 1 or rng.random() < 0.5
        try:
            wanted = world.read(stream)
        except Lie:
            wanted = None
        except Unknowable:
            continue
        if wanted is not None and len(wanted) == 0:
            continue
        Chunks.released = 0
        judge(number, lies, (GivenStream if stream else GivenOne)(world.schema, world.arrays), wanted, world.dim)
        told += wanted is None
        fine += wanted is not None
        handed = sum(bool(array.release) for array in world.arrays)
        assert Chunks.released <= handed and (wanted is None or stream or Chunks.released == handed)
    assert fine > LIES / 10


# --- DLPack ---------------------------------------------------------------------------------------


class Claim:
    """A tensor, the name of its capsule, and the device it claims."""

    DELETER = ctypes.CFUNCTYPE(None, ctypes.c_void_p)

    def __init__(self, rng):
        self.memory, self.name, self.device = Memory(), b"dltensor", (1, 0)
        self.dtype = np.dtype(rng.choice(list(FLOATS.values())))
        n, self.dim = int(rng.integers(1, 8)), int(rng.integers(1, 6))
        before = int(rng.integers(0, 3))
        values = rng.normal(size=before + n * self.dim).astype(self.dtype)
        self.shape = (ctypes.c_int64 * 2)(n, self.dim)
        self.strides = (ctypes.c_int64 * 2)(*((self.dim, 1) if rng.random() < 0.7 else (1, n)))
        self.deleted, self.count = self.DELETER(self._delete), 0
        self.tensor = DLTensor(self.memory.put(values), (1, 0), 2, 2, 8 * self.dtype.itemsize, 1, self.shape,
                               self.strides if rng.random() < 0.8 else None, before * self.dtype.itemsize,
                               None, ctypes.cast(self.deleted, ctypes.c_void_p))

    def _delete(self, _):
        self.count += 1

    def __dlpack__(self, **options):
        return new_capsule(ctypes.addressof(self.tensor), self.name, None)

    def __dlpack_device__(self):
        return self.device

    def lie(self, rng):
        t, choice = self.tensor, rng.random()
        number = int(rng.choice(WILD)) if rng.random() < 0.5 else int(rng.integers(-9, 10))
        if choice < 0.25:
            at = int(rng.integers(2))
            self.shape[at] = number
            return f"shape[{at}] = {number}"
        if choice < 0.5:
            at = int(rng.integers(2))
            self.strides[at] = number
            return f"strides[{at}] = {number}"
        if choice < 0.6:
            t.byte_offset = number % 2**64
            return f"byte_offset = {t.byte_offset}"
        name, value = [("data", None), ("shape", None), ("strides", None), ("ndim", number % 2**31 - 2**30),
                       ("ndim", number), ("code", number % 256), ("bits", number % 256),
                       ("lanes", number % 65536), ("device", (number % 2**31, 0)), ("bits", 8),
                       ][rng.integers(10)]
        if choice > 0.97:
            self.name = [b"used_dltensor", b"dltensor_versioned", b"", b"arrow_array"][rng.integers(4)]
            return f"the capsule {self.name}"
        if choice > 0.94:
            self.device = (number % 2**31, 0)
            return f"__dlpack_device__ gives {self.device}"
        if name == "ndim":
            value = max(-2**31, min(2**31 - 1, value))
        setattr(t, name, value)
        return f"{name} = {value}"

    def read(self):
        """The rows according to dlpack.h."""
        t = self.tensor
        known = {(2, 16): "f2", (2, 32): "f4", (2, 64): "f8"}
        kind = known.get((t.code, t.bits))
        if (self.name != b"dltensor" or self.device[0] not in (1, 3) or t.device[0] not in (1, 3) or t.ndim != 2 or
                t.lanes != 1 or (kind is None and (t.code, t.bits) != (4, 16)) or not t.shape):
            raise Lie
        n, dim = t.shape[0], t.shape[1]
        if n < 0 or not 1 <= dim <= 65536 or n > 2**40 or (n > 0 and not t.data):
            raise Lie
        size = t.bits // 8
        down, across = (t.strides[0], t.strides[1]) if t.strides else (dim, 1)
        start = (t.data or 0) + t.byte_offset
        reach = [(n - 1) * down * size * i + (dim - 1) * across * size * j for i in (0, 1) for j in (0, 1)]
        if n > 0 and (start + min(reach) <= 0 or start + max(reach) + size > 2**64):
            raise Lie
        if n > 2**20 or kind is None:
            raise Unknowable
        place = [[t.byte_offset + i * down * size + j * across * size for j in range(dim)] for i in range(n)]
        block = b"".join(self.memory.read(t.data, at, size) for row in place for at in row)
        return np.frombuffer(block, kind).reshape(n, dim)


def test_dlpack_lies():
    rng = np.random.default_rng(35)
    told = fine = number = 0
    while told < LIES:
        number += 1
        claim = Claim(rng)
        lies = [claim.lie(rng) for _ in range(int(rng.choice([0, 1, 1, 1, 1, 2, 3])))]
        try:
            wanted = claim.read()
        except Lie:
            wanted = None
        except Unknowable:
            continue
        if wanted is not None and len(wanted) == 0:
            continue
        judge(number, lies, claim, wanted, claim.dim)
        told += wanted is None
        fine += wanted is not None
        assert claim.count <= 1 and (wanted is None or claim.count == 1)
    assert fine > LIES / 10


# --- one by one -----------------------------------------------------------------------------------


def world(kind="list", table=False):
    """The same column in all layouts: 4 rows of 3 columns, elements 0 to 11."""
    made = World(np.random.default_rng(0))
    made.kind, made.table = kind, table
    made.elements = node(Schema, b"f", b"item")
    text = {"fixed": b"+w:3", "list": b"+l", "large": b"+L"}[kind]
    made.lists = node(Schema, text, b"rows", children=[made.elements])
    made.schema = node(Schema, b"+s", b"", children=[made.lists]) if table else made.lists
    ends = np.arange(0, 13, 3).astype("i4" if kind == "list" else "i8")
    elements = node(Array, 12, 0, 0, buffers=[None, made.memory.put(np.arange(12, dtype="f4"))])
    lists = node(Array, 4, 0, 0, buffers=[None, *([] if kind == "fixed" else [made.memory.put(ends)])],
                 children=[elements])
    made.arrays = [node(Array, 4, 0, 0, buffers=[None], children=[lists]) if table else lists]
    return made


def part(made, name):
    array = made.arrays[0]
    return {"rows": array, "elements": array.parts[1][0], "schema": made.schema}[name]


def sets(name, **fields):
    def change(made):
        for field, value in fields.items():
            setattr(part(made, name), field, value)
    return change


def lacks_buffer(name, number):
    return lambda made: part(made, name).buffers.__setitem__(number, None)


def offsets(change):
    def changed(made):
        block = made.memory.blocks[made.arrays[0].buffers[1]]
        ends = np.frombuffer(block, "i4" if made.kind == "list" else "i8")
        ends[:] = change(ends.tolist())
    return changed


NO_CHILDREN = ctypes.POINTER(ctypes.POINTER(Array))()
NO_SCHEMAS = ctypes.POINTER(ctypes.POINTER(Schema))()
IS = "X is an Arrow array that "
NAMED_ARROW = [
    ("list", offsets(lambda ends: [e + 1 for e in ends]), "X: row 3 has elements 10 to 13 of an Arrow array of 12"),
    ("large", offsets(lambda ends: [e + 2**62 for e in ends]),
     f"X: row 0 has elements {2**62} to {2**62 + 3} of an Arrow array of 12"),
    ("list", offsets(lambda ends: [e - 3 for e in ends]), IS + "has a negative offset"),
    ("large", offsets(lambda ends: [*ends[:2], -2**63, *ends[3:]]),
     f"X: row 1 has elements 3 to {-2**63} of an Arrow array of 12"),
    ("list", sets("rows", offset=-1), IS + "has an impossible length or offset"),
    ("fixed", sets("rows", offset=-2**63), IS + "has an impossible length or offset"),
    ("fixed", sets("rows", length=-1), IS + "has an impossible length or offset"),
    ("fixed", sets("rows", length=5), IS + "has fewer elements than its rows need"),
    ("fixed", sets("rows", offset=1), IS + "has fewer elements than its rows need"),
    ("fixed", sets("rows", length=2**57, offset=2**57), IS + "has fewer elements than its rows need"),
    ("fixed", sets("elements", length=11), IS + "has fewer elements than its rows need"),
    ("fixed", sets("elements", offset=-1), IS + "has an impossible length or offset"),
    ("fixed", sets("rows", children=NO_CHILDREN), IS + "has the wrong number of children for its format"),
    ("list", sets("rows", n_children=0), IS + "has the wrong number of children for its format"),
    ("list", sets("rows", n_children=2), IS + "has the wrong number of children for its format"),
    ("list", sets("rows", n_buffers=1), IS + "has the wrong number of buffers for its format"),
    ("list", sets("elements", n_buffers=1), IS + "has the wrong number of buffers for its format"),
    ("list", sets("elements", buffers=ctypes.POINTER(ctypes.c_void_p)()),
     IS + "has the wrong number of buffers for its format"),
    ("list", lacks_buffer("rows", 1), IS + "has no offsets"),
    ("list", lacks_buffer("elements", 1), IS + "has no values"),
    ("list", sets("rows", null_count=1), IS + "has an impossible number of nulls"),
    ("list", sets("rows", null_count=-2), IS + "has an impossible number of nulls"),
    ("list", sets("rows", release=RELEASE_ARRAY()), IS + "has been released"),
    ("list", sets("elements", release=RELEASE_ARRAY()), IS + "has been released"),
    ("list", sets("elements", dictionary=1), IS + "is encoded by a dictionary"),
    ("list", sets("schema", children=NO_SCHEMAS), IS + "lacks children that its schema announces"),
    ("list", sets("schema", format=None), IS + "has no format"),
    ("list", sets("schema", release=RELEASE_SCHEMA()), IS + "has been released"),
    ("fixed", sets("schema", format=b"+w:99999999999999999999"),
     f"X has {2**63 - 1} columns; there must be 1 to 65536"),
    ("fixed", sets("schema", format=b"+w:3x"),
     "X has the Arrow format '+w:3x'; rows are lists of float16, float32 or float64, of one length"),
]


@pytest.mark.parametrize("number", range(len(NAMED_ARROW)))
def test_named_arrow_lies(number):
    kind, change, message = NAMED_ARROW[number]
    honest = world(kind)
    assert (koofu.Data(GivenOne(honest.schema, honest.arrays)).rows() == np.arange(12).reshape(4, 3)).all()
    made = world(kind)
    change(made)
    with pytest.raises((TypeError, ValueError)) as caught:
        model(3).transform(GivenOne(made.schema, made.arrays))
    assert str(caught.value) == message


@pytest.mark.parametrize("field, value", [("length", 5), ("offset", 1), ("length", 2**57)])
def test_tables_longer_than_their_column(field, value):
    made = world(table=True)
    assert len(koofu.Data(GivenStream(made.schema, made.arrays))) == 4
    made = world(table=True)
    setattr(made.arrays[0], field, value)
    with pytest.raises(ValueError, match="^X is an Arrow array that has fewer rows than its table$"):
        koofu.Data(GivenStream(made.schema, made.arrays))


def test_offsets_need_not_be_aligned():
    made = world("large")
    lists = made.arrays[0]
    room = made.memory.put(np.zeros(41, "u1"))
    ctypes.memmove(room + 1, lists.buffers[1], 40)
    lists.buffers[1] = room + 1
    assert (koofu.Data(GivenOne(made.schema, made.arrays)).rows() == np.arange(12).reshape(4, 3)).all()


def test_arrow_arrays_are_taken_once():
    """Capsules handed out twice contain moved-out structures, and may be freed."""
    rows = One([X])
    capsules = rows.__arrow_c_array__()

    class Again:
        def __arrow_c_array__(self, requested_schema=None):
            return capsules

    assert len(koofu.Data(Again())) == len(X)
    with pytest.raises(ValueError, match="^X is an Arrow array that has been released$"):
        koofu.Data(Again())


def test_arrow_files_with_shifted_offsets(tmp_path):
    """pyarrow loads such a file without an error."""
    pa = pytest.importorskip("pyarrow")
    rows = pa.array(np.arange(1200, dtype="f4").reshape(100, 12).tolist(), pa.list_(pa.float32()))
    path = tmp_path / "rows.arrow"
    with pa.ipc.new_file(path, pa.schema([("x", rows.type)])) as file:
        file.write(pa.record_batch([rows], ["x"]))
    blob, ends = path.read_bytes(), np.arange(0, 1201, 12, dtype="i4")
    assert blob.count(ends.tobytes()) == 1
    for by in 12, 1 << 24:
        path.write_bytes(blob.replace(ends.tobytes(), (ends + by).astype("i4").tobytes()))
        table = pa.ipc.open_file(path).read_all()
        with pytest.raises(ValueError, match="^X: row .* of an Arrow array of 1200$"):
            model(12).transform(table)


def claim(**fields):
    made = Claim(np.random.default_rng(1))
    for name, value in fields.items():
        setattr(made.tensor, name, value)
    return made


OUTSIDE = "X has elements outside the address space: its pointer, its shape or its strides are wrong"


NAMED_DLPACK = [
    ({"shape": None}, "X is a DLPack tensor without a shape"),
    ({"data": None}, OUTSIDE),
    ({"byte_offset": 2**64 - 1}, "X is a DLPack tensor whose offset is beyond all memory"),
    ({"strides": (ctypes.c_int64 * 2)(2**61, 1)}, OUTSIDE),
    ({"strides": (ctypes.c_int64 * 2)(1, -2**63)}, OUTSIDE),
    ({"shape": (ctypes.c_int64 * 2)(-1, 3)}, "X has -1 rows"),
    ({"shape": (ctypes.c_int64 * 2)(3, -1)}, "X has -1 columns; there must be 1 to 65536"),
    ({"shape": (ctypes.c_int64 * 2)(2**41, 1), "strides": (ctypes.c_int64 * 2)(0, 1)},
     "X has more than 2^40 rows"),
    ({"ndim": -1}, "X has -1 dimensions; it must have 2, rows and columns"),
    ({"ndim": 2**31 - 1}, f"X has {2**31 - 1} dimensions; it must have 2, rows and columns"),
    ({"device": (2, 0)}, "X is on a device (DLPack type 2), not in CPU memory; copy it there "
                         "first, for example with .cpu()"),
]


@pytest.mark.parametrize("number", range(len(NAMED_DLPACK)))
def test_named_dlpack_lies(number):
    fields, message = NAMED_DLPACK[number]
    made = claim(**fields)
    with pytest.raises(ValueError) as caught:
        model(made.dim).transform(made)
    assert str(caught.value) == message


def test_lanes_of_dlpack():
    with pytest.raises(TypeError, match="^X has elements of DLPack type 2 with [0-9]+ bits and 2 lanes; rows are "):
        model(3).transform(claim(lanes=2))


def test_answers_that_are_no_tuples():
    class Arrow:
        def __arrow_c_array__(self, requested_schema=None):
            return 5

    for rows in Arrow(), Tensor(X, 5):
        with pytest.raises(TypeError, match="^a tuple from __.*__ is needed, not a int$"):
            koofu.Data(rows)
    for device in (), (1,), (1, 0, 0), ("cpu", 0), (2**40, 0):
        with pytest.raises((TypeError, OverflowError)):
            koofu.Data(Tensor(X, device))
