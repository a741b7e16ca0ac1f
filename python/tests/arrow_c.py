"""Arrow arrays with only the C interfaces, and tensors with only DLPack, so that both are tested
without pyarrow and torch."""

import ctypes

import numpy as np


class Schema(ctypes.Structure):
    pass


class Array(ctypes.Structure):
    pass


class Stream(ctypes.Structure):
    pass


RELEASE_SCHEMA = ctypes.CFUNCTYPE(None, ctypes.POINTER(Schema))
RELEASE_ARRAY = ctypes.CFUNCTYPE(None, ctypes.POINTER(Array))
RELEASE_STREAM = ctypes.CFUNCTYPE(None, ctypes.POINTER(Stream))
GET_SCHEMA = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Schema))
GET_NEXT = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Stream), ctypes.POINTER(Array))
GET_ERROR = ctypes.CFUNCTYPE(ctypes.c_char_p, ctypes.POINTER(Stream))
Schema._fields_ = [
    ("format", ctypes.c_char_p), ("name", ctypes.c_char_p), ("metadata", ctypes.c_char_p),
    ("flags", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("children", ctypes.POINTER(ctypes.POINTER(Schema))), ("dictionary", ctypes.c_void_p),
    ("release", RELEASE_SCHEMA), ("private", ctypes.c_void_p)]
Array._fields_ = [
    ("length", ctypes.c_int64), ("null_count", ctypes.c_int64), ("offset", ctypes.c_int64),
    ("n_buffers", ctypes.c_int64), ("n_children", ctypes.c_int64),
    ("buffers", ctypes.POINTER(ctypes.c_void_p)),
    ("children", ctypes.POINTER(ctypes.POINTER(Array))), ("dictionary", ctypes.c_void_p),
    ("release", RELEASE_ARRAY), ("private", ctypes.c_void_p)]
Stream._fields_ = [
    ("get_schema", GET_SCHEMA), ("get_next", GET_NEXT), ("get_last_error", GET_ERROR),
    ("release", RELEASE_STREAM), ("private", ctypes.c_void_p)]

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]


@RELEASE_SCHEMA
def release_schema(schema):
    schema.contents.release = RELEASE_SCHEMA()


@RELEASE_ARRAY
def release_array(array):
    Chunks.released += 1
    array.contents.release = RELEASE_ARRAY()


@RELEASE_STREAM
def release_stream(stream):
    stream.contents.release = RELEASE_STREAM()


FORMATS = {"f2": b"e", "f4": b"f", "f8": b"g", "i4": b"i"}


class Chunks:
    """Chunks of rows as an Arrow stream of fixed-size lists (or lists with offsets), each chunk a
    slice of a longer array."""

    released = 0

    def __init__(self, chunks, kind="fixed", null=None):
        self.chunks, self.kind, self.null = chunks, kind, null
        self.kept = []

    def _keep(self, thing):
        self.kept.append(thing)
        return thing

    def _schema(self, out):
        dtype = self.chunks[0].dtype.str[1:]
        child = self._keep(Schema(FORMATS[dtype], b"item", None, 2, 0, None, None, release_schema))
        children = self._keep((ctypes.POINTER(Schema) * 1)(ctypes.pointer(child)))
        text = {"fixed": b"+w:%d" % self.chunks[0].shape[1], "list": b"+l", "large": b"+L"}
        out.format, out.name, out.flags, out.n_children = self._keep(text[self.kind]), b"rows", 2, 1
        out.children, out.release = children, release_schema

    def _array(self, rows, out):
        skipped = 3  # rows before the slice
        n, dim = rows.shape
        flat = np.concatenate([np.full((skipped, dim), 7, rows.dtype), rows]).reshape(-1)
        flat = self._keep(np.ascontiguousarray(flat))
        buffers = self._keep((ctypes.c_void_p * 2)(None, flat.ctypes.data))
        child = self._keep(Array(flat.size, 0, 0, 2, 0, buffers, None, None, release_array))
        children = self._keep((ctypes.POINTER(Array) * 1)(ctypes.pointer(child)))
        own = [None]
        if self.null is not None:
            bits = np.ones(n + skipped, bool)
            bits[skipped + self.null] = False
            own[0] = self._keep(np.packbits(bits, bitorder="little")).ctypes.data
        if self.kind != "fixed":
            offsets = np.arange(n + skipped + 1) * dim
            own.append(self._keep(offsets.astype("i4" if self.kind == "list" else "i8")).ctypes.data)
        out.length, out.offset, out.null_count = n, skipped, -1 if self.null is not None else 0
        out.n_buffers, out.n_children = len(own), 1
        out.buffers = self._keep((ctypes.c_void_p * len(own))(*own))
        out.children, out.release = children, release_array

    def __arrow_c_stream__(self, requested_schema=None):
        left = list(self.chunks)

        def get_schema(_, out):
            self._schema(out.contents)
            return 0

        def get_next(_, out):
            if left:
                self._array(left.pop(0), out.contents)
            else:
                out.contents.release = RELEASE_ARRAY()
            return 0

        stream = self._keep(Stream(GET_SCHEMA(get_schema), GET_NEXT(get_next),
                                   GET_ERROR(lambda _: None), release_stream))
        return new_capsule(ctypes.addressof(stream), b"arrow_array_stream", None)


class One(Chunks):
    """The rows as a single array."""

    __arrow_c_stream__ = property()  # not there

    def __arrow_c_array__(self, requested_schema=None):
        schema, array = self._keep(Schema()), self._keep(Array())
        self._schema(schema)
        self._array(self.chunks[0], array)
        return (new_capsule(ctypes.addressof(schema), b"arrow_schema", None),
                new_capsule(ctypes.addressof(array), b"arrow_array", None))


class Tensor:
    """An object with DLPack only."""

    def __init__(self, array, device=(1, 0)):
        self.array, self.device = array, device

    def __dlpack__(self, **options):
        return self.array.__dlpack__(**options)

    def __dlpack_device__(self):
        return self.device


class DLTensor(ctypes.Structure):
    _fields_ = [
        ("data", ctypes.c_void_p), ("device", ctypes.c_int32 * 2), ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)), ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64), ("manager", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p)]


class Expanded:
    """One value as a tensor with strides of 0, like torch.ones(1).expand(n, dim)."""

    def __init__(self, value, shape, dtype):
        self.value = np.array([value], dtype)
        self.numbers = (ctypes.c_int64 * 2)(*shape), (ctypes.c_int64 * 2)(0, 0)
        self.tensor = DLTensor(self.value.ctypes.data, (1, 0), 2, 2, 8 * self.value.itemsize, 1, *self.numbers)

    def __dlpack__(self, **options):
        return new_capsule(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0


class BFloat16:
    """A tensor in bfloat16, which numpy cannot have, as torch makes it."""

    ndim, dtype = 2, "torch.bfloat16"

    def __init__(self, array):
        self.bits = (np.ascontiguousarray(array, "f4").view("u4") >> 16).astype("u2")
        self.values = (self.bits.astype("u4") << 16).view("f4")
        self.shape = array.shape
        self.tensor = DLTensor(self.bits.ctypes.data, (1, 0), 2, 4, 16, 1, (ctypes.c_int64 * 2)(*self.shape), None)

    def __array__(self, *_, **__):
        raise TypeError("Got unsupported ScalarType BFloat16")

    def __len__(self):
        return len(self.bits)

    def __dlpack__(self, **options):
        return new_capsule(ctypes.addressof(self.tensor), b"dltensor", None)

    def __dlpack_device__(self):
        return 1, 0
