"""Reads what `koofu export` writes, with nothing but the standard library: protobuf and the graph in it, FAISS, zip."""

import ast
import io
import math
import struct
import zipfile

# --- protobuf ---


def varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def fields(data):
    """{number: [values]} of a message: integers, and bytes for fields with a length."""
    found, at = {}, 0
    while at < len(data):
        tag, at = varint(data, at)
        if tag & 7 == 0:
            value, at = varint(data, at)
        else:
            assert tag & 7 == 2, f"kind {tag & 7}"
            n, at = varint(data, at)
            value, at = data[at:at + n], at + n
            assert len(value) == n, "a message is cut short"
        found.setdefault(tag >> 3, []).append(value)
    return found


def entries(messages):
    found = [fields(m) for m in messages]
    return {f[1][0].decode(): f[2][0].decode() for f in found}


class Graph:
    """A model in ONNX: metadata, tensors, and what it computes."""

    def __init__(self, data, beside=None):
        model = fields(data)
        assert model[1] == [8] and [fields(o) for o in model[8]] == [{2: [17]}], "versions"
        graph = fields(model[7][0])
        self.meta = entries(model.get(14, []))
        self.inputs, self.outputs = ([fields(v)[1][0].decode() for v in graph[n]] for n in (11, 12))
        self.nodes = [fields(n) for n in graph[1]]
        self.outside = set()
        self.tensors = dict(self.tensor(fields(t), beside) for t in graph[5])

    def tensor(self, t, beside):
        name, code = t[8][0].decode(), {1: "f", 11: "d"}[t[2][0]]
        if t.get(14) == [1]:
            where = entries(t[13])
            raw = beside[where["location"]][int(where["offset"]):][:int(where["length"])]
            self.outside.add(name)
        else:
            raw = t[9][0]
        shape = t.get(1, [])
        flat = list(struct.unpack(f"<{math.prod(shape)}{code}", raw))
        if len(shape) == 2:
            return name, [flat[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
        return name, flat if shape else flat[0]

    def run(self, rows):
        """{output: rows of it}. Numbers are doubles; casts to f32 round."""
        values = {**self.tensors, self.inputs[0]: rows}
        for node in self.nodes:
            attributes = {fields(a)[1][0].decode(): a for a in node.get(5, [])}
            rounds = "to" in attributes and fields(attributes["to"])[3] == [1]
            inputs = [values[name.decode()] for name in node[1]]
            values[node[2][0].decode()] = OPERATORS[node[4][0].decode()](*inputs, rounds)
        return {name: values[name] for name in self.outputs}


def f32(x):
    return struct.unpack("<f", struct.pack("<f", x))[0]


def each(function):
    """An operator on rows, with rows of one column, a row, or a number as the other sides."""
    def row_of(x, i, n):
        if not isinstance(x, list):
            return [x] * n
        row = x[i] if isinstance(x[0], list) else x
        return row * n if len(row) == 1 else row

    def apply(*words):
        inputs = words[:-1]
        rows = next(len(x) for x in inputs if isinstance(x, list) and isinstance(x[0], list))
        width = max(len(row_of(x, 0, 1)) for x in inputs)
        return [[function(*v) for v in zip(*(row_of(x, i, width) for x in inputs))] for i in range(rows)]
    return apply


def softmax(row):
    e = [math.exp(x - max(row)) for x in row]
    return [x / sum(e) for x in e]


def gemm(a, b, *rest):
    offset = rest[0] if len(rest) == 2 else [0] * len(b)
    return [[sum(x * y for x, y in zip(row, column)) + c for column, c in zip(b, offset)] for row in a]


OPERATORS = {
    "Abs": each(abs), "Greater": each(lambda x, y: x > y), "Where": each(lambda c, x, y: x if c else y),
    "Div": each(lambda x, y: x / y), "Sub": each(lambda x, y: x - y), "Mul": each(lambda x, y: x * y), "Max": each(max),
    "Sqrt": each(math.sqrt), "Gemm": gemm, "Identity": lambda x, _: x,
    "Cast": lambda x, rounds: [[f32(v) for v in row] for row in x] if rounds else x,
    "ReduceMax": lambda x, _: [[max(row)] for row in x],
    "ReduceL2": lambda x, _: [[math.sqrt(sum(v * v for v in row))] for row in x],
    "ReduceSumSquare": lambda x, _: [[sum(v * v for v in row)] for row in x],
    "Concat": lambda x, y, _: [a + b for a, b in zip(x, y)],
    "Softmax": lambda x, _: [softmax(row) for row in x],
}


# --- FAISS ---


class Index:
    """What is in a .faiss file: transforms, rows, ids, and a brute-force search."""

    def __init__(self, data):
        self.file = io.BytesIO(data)
        self.transforms, self.ids = [], None
        self.index()
        assert not self.file.read(), "bytes are left over"

    def take(self, layout):
        values = struct.unpack("<" + layout, self.file.read(struct.calcsize("<" + layout)))
        return values[0] if len(values) == 1 else values

    def vector(self, code):
        return list(struct.unpack(f"<{(n := self.take('Q'))}{code}", self.file.read(n * struct.calcsize(code))))

    def index(self):
        kind = self.file.read(4)
        dim, n, a, b, trained, metric = self.take("iqqqBi")
        assert (a, b, trained) == (1 << 20, 1 << 20, 1), "header"
        if kind == b"IxPT":
            self.dim_in = dim
            self.transforms = [self.transform() for _ in range(self.take("i"))]
            self.index()
        elif kind == b"IxM2":
            self.index()
            self.ids = self.vector("q")
            assert len(self.ids) == n, "ids"
        else:
            assert kind == {0: b"IxFI", 1: b"IxF2"}[metric], kind
            flat = self.vector("f")
            assert len(flat) == n * dim, "rows"
            self.dim, self.distances, self.rows = dim, metric == 1, [flat[i * dim:(i + 1) * dim] for i in range(n)]

    def transform(self):
        kind = self.file.read(4)
        if kind == b"VNrm":
            assert self.take("f") == 2
            matrix = None
        else:
            assert kind == b"LTra", kind
            biased, flat, bias = self.take("B"), self.vector("f"), self.vector("f")
            matrix = (flat, bias if biased else None)
        dim_in, dim_out, trained = self.take("iiB")
        assert trained == 1 and (matrix is None or len(matrix[0]) == dim_in * dim_out), "dimensions"
        return lambda x: unit(x) if matrix is None else multiply(matrix, x)

    def search(self, x, k):
        """The nearest rows by their ids, with inner products or distances."""
        for t in self.transforms:
            x = t(x)
        scores = [-math.dist(x, row) if self.distances else sum(a * b for a, b in zip(x, row)) for row in self.rows]
        best = sorted(range(len(scores)), key=lambda i: -scores[i])[:k]
        return [self.ids[i] if self.ids else i for i in best], [abs(scores[i]) if self.distances else scores[i] for i in best]


def unit(x):
    length = math.sqrt(sum(v * v for v in x))
    return [v / length for v in x] if length else x


def multiply(matrix, x):
    flat, bias = matrix
    n = len(flat) // len(x)
    return [sum(a * b for a, b in zip(flat[i * len(x):], x)) + (bias[i] if bias else 0) for i in range(n)]


# --- arrays of numpy ---


def arrays(data):
    """{name: number, list or list of rows} of an .npz."""
    found = {}
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        assert archive.testzip() is None, "a checksum is wrong"
        for name in archive.namelist():
            found[name.removesuffix(".npy")] = array(archive.read(name))
    return found


def array(data):
    assert data[:8] == b"\x93NUMPY\1\0"
    n = int.from_bytes(data[8:10], "little")
    header = ast.literal_eval(data[10:10 + n].decode())
    shape, kind, body = header["shape"], header["descr"], data[10 + n:]
    if kind[1] == "U":
        size = 4 * int(kind[2:])
        return [body[i * size:(i + 1) * size].decode("utf-32-le").rstrip("\0") for i in range(shape[0])]
    flat = list(struct.unpack(f"<{math.prod(shape)}{ {'<f8': 'd', '<f4': 'f', '<i8': 'q', '|u1': 'B'}[kind] }", body))
    if len(shape) == 2:
        return [flat[i * shape[1]:(i + 1) * shape[1]] for i in range(shape[0])]
    return flat if shape else flat[0]
