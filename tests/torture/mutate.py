"""Changes to files that keep enough structure to get past the first checks.

mutate(kind, content, rng) gives (name of the change, new content, must): `must` is True if koofu
must refuse the result, None if it may also accept it. Checksums are corrected, unless the change is
meant as damage.
"""

import json
import struct
import zlib

MASK = (1 << 64) - 1
P1, P2, P3, P4, P5 = (11400714785074694791, 14029467366897019727, 1609587929392839161, 9650029242287828579, 2870177450012600261)


# --- checksums ----------------------------------------------------------------------------------------


def rotate(x, n):
    return (x << n | x >> (64 - n)) & MASK


def scramble(lane, word):
    return rotate((lane + word * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    """XXH64 with seed 0, as docs/formats.md wants it."""
    at, n = 0, len(data)
    if n >= 32:
        lanes = [(P1 + P2) & MASK, P2, 0, -P1 & MASK]
        whole = n // 32 * 4
        words = struct.unpack_from(f"<{whole}Q", data)
        a, b, c, d = lanes
        for i in range(0, whole, 4):
            a, b = scramble(a, words[i]), scramble(b, words[i + 1])
            c, d = scramble(c, words[i + 2]), scramble(d, words[i + 3])
        h = (rotate(a, 1) + rotate(b, 7) + rotate(c, 12) + rotate(d, 18)) & MASK
        for lane in (a, b, c, d):
            h = ((h ^ scramble(0, lane)) * P1 + P4) & MASK
        at = whole * 8
    else:
        h = P5
    h = (h + n) & MASK
    while at + 8 <= n:
        h = (rotate(h ^ scramble(0, struct.unpack_from("<Q", data, at)[0]), 27) * P1 + P4) & MASK
        at += 8
    if at + 4 <= n:
        h = (rotate(h ^ struct.unpack_from("<I", data, at)[0] * P1 & MASK, 23) * P2 + P3) & MASK
        at += 4
    for byte in data[at:]:
        h = rotate(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32


def seal(content):
    """The file with the checksum it should have, if it has one."""
    at = content.find(b'"checksum":"')
    if at < 0 or at + 28 > len(content):
        return content
    at += 12
    blank = content[:at] + b"0" * 16 + content[at + 16:]
    return blank[:at] + b"%016x" % xxh64(blank) + blank[at + 16:]


# --- bytes --------------------------------------------------------------------------------------------

MEANINGFUL = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 32, 1 << 40, (1 << 63) - 1,
              1 << 63, MASK]


def cut(content, rng):
    return content[:rng.randrange(len(content))] if content else content


def lengthen(content, rng):
    return content + rng.randbytes(rng.choice((1, 4, 8, 64, 5000)))


def flip(content, rng):
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        if changed:
            changed[rng.randrange(len(changed))] ^= rng.randrange(1, 256)
    return bytes(changed)


def number_bytes(content, rng):
    """A number of 1 to 8 bytes somewhere becomes one that is at a limit."""
    size = rng.choice((1, 2, 4, 8))
    if len(content) < size:
        return content
    at = rng.randrange(len(content) - size + 1)
    value = rng.choice(MEANINGFUL) & (1 << 8 * size) - 1
    return content[:at] + value.to_bytes(size, rng.choice(("little", "big"))) + content[at + size:]


def move(content, rng):
    """A piece is removed, duplicated, or moved."""
    if len(content) < 2:
        return content
    a, b = sorted(rng.randrange(len(content) + 1) for _ in range(2))
    b = min(b, a + 200)
    piece, rest = content[a:b], content[:a] + content[b:]
    how = rng.randrange(3)
    if how == 0:
        return rest
    if how == 1:
        return content[:b] + piece + content[b:]
    to = rng.randrange(len(rest) + 1)
    return rest[:to] + piece + rest[to:]


BYTES = (cut, lengthen, flip, number_bytes, move)


def mutate_bytes(content, rng):
    how = rng.choice(BYTES)
    return how.__name__, how(content, rng)


# --- JSON ---------------------------------------------------------------------------------------------


class Pairs(list):
    """An object as a list of pairs, so that keys can occur twice."""


def parse_json(text):
    return json.loads(text, object_pairs_hook=Pairs)


def is_json(value):
    """Whether a text is a list or an object; an earlier mutation may have spoiled it."""
    try:
        return isinstance(value, str) and isinstance(parse_json(value), list)
    except (ValueError, RecursionError):
        return False


class Raw(str):
    """Text that JSON contains verbatim."""


def print_json(value):
    if isinstance(value, Raw):
        return str(value)
    if isinstance(value, Pairs):
        return "{" + ",".join(f"{print_json(k)}:{print_json(v)}" for k, v in value) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(print_json, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


WRONG_JSON = [None, True, False, 0, 1, -1, 2, 3, 7, 64, 65536, 1 << 31, 1 << 32, 1 << 53, (1 << 63) - 1, 1 << 64, -(1 << 63), 0.5, 1e-320, 1e308,
              Raw("1e400"), Raw("-0"), Raw("NaN"), Raw("01"), Raw("1."), Raw("0x10"), Raw('"\\u0000"'), Raw('"\\ud800"'), Raw('"\\x41"'), Raw('"\t"'),
              "", "x", "0", "1", "-1", "nan", "inf", "1e999", "-0", " 1", "1 ", "0x1p3", "é", "\u202e\u009b31m", "a/../../b", "../x", "/etc/passwd",
              "y" * 300, Pairs(), [], [[]], [0], [1, 2, 3, 4, 5, 6, 7, 8, 9], Pairs([("a", 1)]), Raw("[" * 70 + "]" * 70),
              Raw("[" * 60 + "]" * 60), Raw('{"a":' * 70 + "1" + "}" * 70), Raw(""), Raw("//"), Raw("[" + "0," * 3000 + "0]")]


def places(value, found, path=()):
    """Paths to every value and every pair of an object."""
    if isinstance(value, Pairs):
        for i, (_, inner) in enumerate(value):
            found.append(path + (i,))
            places(inner, found, path + (i,))
    elif isinstance(value, list):
        for i, inner in enumerate(value):
            found.append(path + (i,))
            places(inner, found, path + (i,))
    return found


def parent_of(value, path):
    for i in path[:-1]:
        value = value[i][1] if isinstance(value, Pairs) else value[i]
    return value


def mutate_value(value, rng):
    """One place of a parsed document, changed in place; what was done."""
    found = places(value, [])
    if not found:
        return "nothing"
    # Places near the top are few and matter; those in long lists are many and alike.
    path = rng.choice([p for p in found if len(p) <= 2] or found) if rng.random() < 0.4 else rng.choice(found)
    parent, i = parent_of(value, path), path[-1]
    how = rng.choice(("replace", "replace", "replace", "nudge", "drop", "double", "swap", "key", "again"))
    old = parent[i][1] if isinstance(parent, Pairs) else parent[i]
    if how == "drop":
        del parent[i]
    elif how == "double":
        parent.insert(rng.randrange(len(parent) + 1), parent[i])
    elif how == "swap":
        j = rng.randrange(len(parent))
        if isinstance(parent, Pairs):
            parent[i], parent[j] = (parent[i][0], parent[j][1]), (parent[j][0], parent[i][1])
        else:
            parent[i], parent[j] = parent[j], parent[i]
    elif how == "key" and isinstance(parent, Pairs):
        parent[i] = (rng.choice(("", "x", parent[rng.randrange(len(parent))][0], parent[i][0].upper(), parent[i][0] + " ", "__metadata__", "\u009b")), old)
    elif how == "again" and isinstance(parent, Pairs):
        parent.append((parent[i][0], rng.choice(WRONG_JSON)))
    else:
        new = nudged(old, rng) if how == "nudge" else rng.choice(WRONG_JSON)
        parent[i] = (parent[i][0], new) if isinstance(parent, Pairs) else new
    return how


def nudged(old, rng):
    """Something of the same type that is almost right."""
    if isinstance(old, bool):
        return not old
    if isinstance(old, int):
        return rng.choice((old + 1, old - 1, -old, old * 2, old // 2, old << 32, old + (1 << 32), old * 1000003))
    if isinstance(old, float):
        return rng.choice((-old, old * 2, old / 3, old * 1e30, old * 1e-30, int(old)))
    if isinstance(old, str):
        try:
            return repr(nudged(float(old) if any(c in old for c in ".e") else int(old), rng))
        except (ValueError, OverflowError):
            at = rng.randrange(len(old) + 1)
            return rng.choice((old[:at] + old[at + 1:], old[:at] + rng.choice("\0\n\t\x1b\u0085\u202e,\"\\xß𝄞") + old[at:], old * 2, old.upper(), old[::-1]))
    return rng.choice(WRONG_JSON)


def mutate_json(content, rng):
    if rng.random() < 0.15:
        return mutate_bytes(content, rng)
    document = parse_json(content.decode("utf-8"))
    how = "+".join(mutate_value(document, rng) for _ in range(rng.choice((1, 1, 1, 2))))
    return how, print_json(document).encode("utf-8", "surrogatepass")


# --- numbers ------------------------------------------------------------------------------------------

FORMS = {"F64": "d", "F32": "f", "F16": "e", "I64": "q", "U64": "Q", "I32": "i", "U8": "B", "I16": "h", "U16": "H", "I8": "b", "U32": "I"}
FLOATS = [float("nan"), float("inf"), float("-inf"), 0.0, -0.0, 1.0, -1.0, 2.0, 5e-324, 1e-45, 1e-30, 1e30, -1e30, 3e38, 1e300, -1e308, 0.5, 1e-3, 65504.0]
INTEGERS = [0, 1, -1, 2, 3, 127, -128, 255, 1 << 22, (1 << 22) + 1, (1 << 31) - 1, -(1 << 31), 1 << 40, 1 << 44, 1 << 62, (1 << 63) - 1, -(1 << 63), MASK]


def pack_into(form, value):
    """The bytes of a number, as near as the type allows."""
    try:
        return struct.pack("<" + form, value)
    except (OverflowError, struct.error):
        if form in "efd":
            return struct.pack("<" + form, float("inf") if value > 0 else float("-inf"))
        size = struct.calcsize("<" + form)
        return (int(value) & (1 << 8 * size) - 1).to_bytes(size, "little")


def mutate_numbers(content, form, rng):
    """Some or all numbers of an array."""
    size = struct.calcsize("<" + form)
    n = len(content) // size
    if n == 0:
        return "nothing", content
    changed = bytearray(content)
    pool = FLOATS if form in "efd" else INTEGERS
    how = rng.choice(("one", "one", "one", "few", "all", "scaled", "negated", "swapped", "copied"))
    if how in ("one", "few", "all"):
        picked = range(n) if how == "all" else [rng.randrange(n) for _ in range(1 if how == "one" else 5)]
        value = rng.choice(pool)
        for i in picked:
            changed[i * size:(i + 1) * size] = pack_into(form, value)
    else:
        i, j = rng.randrange(n), rng.randrange(n)
        value, other = (struct.unpack_from("<" + form, changed, k * size)[0] for k in (i, j))
        if how == "scaled":
            value *= rng.choice((2, 3, 1000, 1000000007)) if form not in "efd" else rng.choice((2.0, 0.5, 1e20, 1e-20, 1.001))
        elif how == "negated":
            value = -value
        elif how == "swapped":
            changed[j * size:(j + 1) * size] = pack_into(form, value)
            value = other
        else:
            value = other
        changed[i * size:(i + 1) * size] = pack_into(form, value)
    return how, bytes(changed)


# --- safetensors --------------------------------------------------------------------------------------


def split_safetensors(content):
    length = struct.unpack_from("<Q", content)[0]
    return parse_json(content[8:8 + length].decode("utf-8")), content[8 + length:]


def join_safetensors(header, data):
    text = print_json(header).encode("utf-8", "surrogatepass")
    text += b" " * (-(8 + len(text)) % 8)
    return struct.pack("<Q", len(text)) + text + data


def tensors_of(header):
    return [(name, Pairs(entry), dict(entry)) for name, entry in header if name != "__metadata__" and isinstance(entry, Pairs)]


def mutate_metadata(header, rng):
    for name, entry in header:
        if name == "__metadata__" and isinstance(entry, Pairs) and entry:
            i = rng.randrange(len(entry))
            if entry[i][0] == "checksum":
                i = rng.randrange(len(entry))
            how = rng.choice(("replace", "nudge", "drop", "inner"))
            key, value = entry[i]
            if how == "drop":
                del entry[i]
            elif how == "inner" and is_json(value):
                inner = parse_json(value)
                mutate_value(inner, rng)
                entry[i] = (key, print_json(inner))
            else:
                new = nudged(value, rng) if how == "nudge" else rng.choice([v for v in WRONG_JSON if rng.random() < 0.3 or isinstance(v, str)] or [""])
                entry[i] = (key, new)
            return f"metadata {key} {how}"
    return "nothing"


def resize_tensor(header, data, rng):
    """A tensor that is longer or shorter, with its shape and all offsets corrected."""
    entries = tensors_of(header)
    if not entries:
        return "nothing", header, data
    chosen = rng.choice(entries)[0]
    form = rng.choice((None, None, "F32", "F64", "F16", "BF16", "I64", "I32", "U8", "BOOL", "I8"))
    out, new_data, at = Pairs(), b"", 0
    for name, entry in header:
        fields = dict(entry) if isinstance(entry, Pairs) else {}
        if name == "__metadata__" or not is_sound(fields):
            out.append((name, entry))
            continue
        begin, end = fields["data_offsets"]
        piece, shape, dtype = data[begin:end], list(fields["shape"]), fields["dtype"]
        if name == chosen and shape:
            n = max(1, len(piece) // max(1, product(shape)))
            axis = rng.randrange(len(shape))
            shape[axis] = max(0, rng.choice((shape[axis] + 1, shape[axis] - 1, shape[axis] * 2, 0, 1)))
            if rng.random() < 0.2:
                shape = rng.choice((shape[::-1], [product(shape)], shape + [1], []))
            piece = (piece * 3 + b"\0" * 8 * n)[:product(shape) * n]
            dtype = form or dtype
            if form:
                width = {"F64": 8, "I64": 8, "F32": 4, "I32": 4, "F16": 2, "BF16": 2}.get(form, 1)
                piece = (piece * 8 + b"\0" * 64)[:product(shape) * width]
        out.append((name, Pairs([("dtype", dtype), ("shape", shape), ("data_offsets", [at, at + len(piece)])])))
        new_data, at = new_data + piece, at + len(piece)
    return f"tensor {chosen} resized", out, new_data


def is_sound(fields):
    """Whether the entry of a tensor can still be read, after an earlier change."""
    numbers = [fields.get("shape"), fields.get("data_offsets")]
    return (all(isinstance(n, list) and all(type(x) is int and 0 <= x < 1 << 20 for x in n) for n in numbers) and len(numbers[1]) == 2
            and isinstance(fields.get("dtype"), str) and product(numbers[0]) < 1 << 20)


def product(shape):
    n = 1
    for length in shape:
        n *= length
    return n


def mutate_tensor_values(header, data, rng):
    entries = [e for e in tensors_of(header) if is_sound(e[2]) and e[2]["dtype"] in FORMS]
    if not entries:
        return "nothing", data
    name, _, fields = rng.choice(entries)
    begin, end = fields["data_offsets"]
    how, piece = mutate_numbers(data[begin:end], FORMS[fields["dtype"]], rng)
    return f"{name} {how}", data[:begin] + piece + data[end:]


def mutate_safetensors(content, rng):
    kind = rng.random()
    if kind < 0.10:
        how, changed = mutate_bytes(content, rng)
        return how, seal(changed)
    if kind < 0.18:
        return mutate_length(content, rng)
    header, data = split_safetensors(content)
    how = []
    for _ in range(rng.choice((1, 1, 1, 1, 2))):
        kind = rng.random()
        if kind < 0.30:
            how.append(mutate_metadata(header, rng))
        elif kind < 0.68:
            name, data = mutate_tensor_values(header, data, rng)
            how.append(name)
        elif kind < 0.82:
            name, header, data = resize_tensor(header, data, rng)
            how.append(name)
        else:
            how.append("header " + mutate_value(header, rng))
    return ", ".join(how), seal(join_safetensors(header, data))


def mutate_length(content, rng):
    length = struct.unpack_from("<Q", content)[0]
    new = rng.choice((*MEANINGFUL, length - 1, length + 1, length + 8, len(content), len(content) - 8, len(content) - 7, 100_000_000, 100_000_001))
    return "header length", seal(struct.pack("<Q", new & MASK) + content[8:])


# --- arrays -------------------------------------------------------------------------------------------


def mutate_npy(content, rng):
    kind = rng.random()
    begin = 10 + struct.unpack_from("<H", content, 8)[0]
    if kind < 0.2:
        return mutate_bytes(content, rng)
    if kind < 0.6:
        header = content[10:begin].decode("latin-1")
        for form in ("<f4", "<f8", "<f2", "<i4", "<U", "|S"):
            if form in header:
                break
        letter = {"<f4": "f", "<f8": "d", "<f2": "e", "<i4": "i"}.get(form)
        if letter:
            how, data = mutate_numbers(content[begin:], letter, rng)
            return "values " + how, content[:begin] + data
    header = content[10:begin].decode("latin-1").rstrip()
    new = rng.choice((
        header.replace("<", rng.choice((">", "|", "=", ""))), header.replace("'shape': (", "'shape': (" + rng.choice(("0, ", "1, ", "99999999999, ", "-1, ", "(")), 1),
        header.replace("False", rng.choice(("True", "None", "0", "[]"))), header.replace("f4", rng.choice(("f8", "f2", "i4", "c8", "O", "f16", "f04", "U3", "V4"))),
        header.replace("'descr'", rng.choice(("'shape'", "descr", "''", '"descr"'))), header + " , 'x': 1}", header.replace("}", ""), "{}", header * 40, "(" * 500,
        header.replace(", ", ","), header.replace("(", "[").replace(")", "]"), "\xff" + header, header.replace(",", "L,"), ""))
    text = new.encode("latin-1") + b" " * rng.randrange(64) + b"\n"
    version = rng.choice((1, 1, 1, 2, 3, 0, 4))
    length = struct.pack("<H" if version == 1 else "<I", len(text) & 0xFFFF)
    return "header", b"\x93NUMPY" + bytes([version, 0]) + length + text + content[begin:]


def mutate_zip(content, rng):
    """The directory, the ends and the members of an archive; CRC-32 of members are not made right, as numpy writes them right."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    changed = bytearray(content)
    signature = rng.choice((b"PK\x01\x02", b"PK\x05\x06", b"PK\x03\x04"))
    found = [i for i in range(len(content) - 4) if content[i:i + 4] == signature]
    if not found:
        return "nothing", content
    at = rng.choice(found) + rng.randrange(4, 46)
    size = rng.choice((2, 4))
    value = rng.choice((*MEANINGFUL, len(content), len(content) - 22, at))
    changed[at:at + size] = (value & (1 << 8 * size) - 1).to_bytes(size, "little")
    return f"{signature[2]:02x} field", bytes(changed)


def mutate_tar(content, rng):
    """Fields of a header, whose checksum is corrected."""
    headers = [i for i in range(0, len(content) - 511, 512) if content[i + 257:i + 262] == b"ustar"]
    if rng.random() < 0.3 or not headers:
        return mutate_bytes(content, rng)
    changed, at = bytearray(content), rng.choice(headers)
    field, size = rng.choice(((0, 100), (124, 12), (124, 12), (156, 1), (257, 8), (345, 155)))
    value = rng.choice((bytes(size), b"\xff" * size, b"7" * size, b"0" * size, b"\x80" + b"\xff" * (size - 1), rng.randbytes(size), b"L", b"x", b"g", b"S", b"5", b"2",
                        f"{rng.choice(MEANINGFUL) & 0xFFFFFFFF:o}".encode()))[:size]
    changed[at + field:at + field + len(value)] = value
    changed[at + 148:at + 156] = b" " * 8
    changed[at + 148:at + 156] = f"{sum(changed[at:at + 512]):06o}\0 ".encode()
    return f"field {field}", bytes(changed)


def mutate_vecs(content, rng):
    kind = rng.random()
    if kind < 0.3:
        return mutate_bytes(content, rng)
    if kind < 0.65:
        at = rng.choice((0, 4, 4 * rng.randrange(len(content) // 4)))
        return "count", content[:at] + struct.pack("<I", rng.choice(MEANINGFUL) & 0xFFFFFFFF) + content[at + 4:]
    how, changed = mutate_numbers(content, "f", rng)
    return "values " + how, changed


# --- text ---------------------------------------------------------------------------------------------

WRONG_LINES = [b"", b" ", b"\t", b"\0", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xef\xbb\xbfant", b"x" * 70000, b"y" * 65536, b'"', b'"a', b'a"b',
               b'"a""b"', b"a,b,c,d", b",", b"{}", b"{", b"}{", b"{{}}", b"{} {} {}", b"-1", b"99999999999999999999", b"1e5", b"=1+1", b"+x", b"@x",
               "\u202eant\u2066".encode(), b"\x1b[31mred", "\u009b31m".encode(), b"\r", b"a\rb", b"../../etc/passwd", b"/dev/zero", b"/dev/stdin",
               b"%s%n%s", b"-o", b"--", b"ant\tbee\tcat", "ﬁ".encode(), "e\u0301".encode(), b"[0]", b"[[0]]", b"nan"]


def mutate_text(content, rng):
    if rng.random() < 0.15:
        return mutate_bytes(content, rng)
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 2, 3))):
        i = rng.randrange(len(lines))
        how = rng.choice(("replace", "insert", "drop", "double", "swap", "join", "crlf", "bom", "edge", "within"))
        if how == "replace":
            lines[i] = rng.choice(WRONG_LINES)
        elif how == "insert":
            lines.insert(i, rng.choice(WRONG_LINES))
        elif how == "drop" and len(lines) > 1:
            del lines[i]
        elif how == "double":
            lines[i:i] = [lines[i]] * rng.choice((1, 2, 300))
        elif how == "swap":
            j = rng.randrange(len(lines))
            lines[i], lines[j] = lines[j], lines[i]
        elif how == "join" and i + 1 < len(lines):
            lines[i:i + 2] = [lines[i] + rng.choice((b"", b",", b"\t", b"\r", b"\0")) + lines[i + 1]]
        elif how == "crlf":
            lines = [line + b"\r" for line in lines]
        elif how == "bom":
            lines[0] = b"\xef\xbb\xbf" + lines[0]
        elif how == "edge":
            lines[i] = rng.choice((b" ", b"\t", b"\xc2\xa0")) + lines[i] + rng.choice((b" ", b"\t", b""))
        else:
            at = rng.randrange(len(lines[i]) + 1)
            lines[i] = lines[i][:at] + rng.choice(WRONG_LINES) + lines[i][at:]
    return how, b"\n".join(lines)


# --- pictures -----------------------------------------------------------------------------------------


def change_part(parts, i, how, names, rng):
    """What pictures have in common: lists of chunks or segments, (name, body); the i-th changes."""
    name, body = parts[i]
    if how == "field":
        parts[i] = name, number_bytes(body, rng)
    elif how == "drop":
        del parts[i]
    elif how == "double":
        parts.insert(rng.randrange(len(parts)), parts[i])
    elif how == "swap":
        j = rng.randrange(len(parts))
        parts[i], parts[j] = parts[j], parts[i]
    elif how == "kind":
        parts[i] = rng.choice(names), body


PNG_CHUNKS = (b"IHDR", b"PLTE", b"IDAT", b"tRNS", b"gAMA", b"eXIf", b"iCCP", b"zTXt", b"iTXt", b"sBIT", b"ABCD", b"\0\0\0\0")
JPEG_MARKERS = (0xC0, 0xC1, 0xC2, 0xC3, 0xC4, 0xC9, 0xCC, 0xDB, 0xDD, 0xDC, 0xE0, 0xE1, 0xE2, 0xEE, 0xFE, 0xD8)
WEBP_CHUNKS = (b"VP8 ", b"VP8L", b"VP8X", b"ALPH", b"ANIM", b"ANMF", b"EXIF", b"XMP ", b"ICCP", b"zzzz")


def mutate_png(content, rng):
    """Chunks and their fields, with right CRCs."""
    if rng.random() < 0.2:
        return mutate_bytes(content, rng)
    chunks, at = [], 8
    while at + 12 <= len(content):
        n = struct.unpack_from(">I", content, at)[0]
        chunks.append((content[at + 4:at + 8], content[at + 8:at + 8 + n]))
        at += 12 + n
    i = rng.randrange(len(chunks))
    how = rng.choice(("field", "field", "drop", "double", "swap", "kind", "empty", "inflate", "size"))
    name, body = chunks[i]
    if how == "field" and not body:
        how = "size"
    if how == "empty":
        chunks[i] = name, b""
    elif how == "inflate":
        chunks[i] = rng.choice((b"IDAT", b"zTXt", b"iCCP")), rng.choice((b"", b"a\0\0")) + zlib.compress(bytes(rng.choice((1, 10_000, 3_000_000))), 9)
    elif how == "size":
        width, height = (rng.choice((0, 1, 2, 65535, 65536, 1 << 20, (1 << 31) - 1, 1 << 31, 13377)) for _ in range(2))
        first = chunks[0][1]
        chunks[0] = chunks[0][0], struct.pack(">II", width, height) + (bytes([rng.choice((1, 2, 4, 8, 16, 3)), rng.randrange(8)]) + first[10:]
                                                                      if rng.random() < 0.3 else first[8:])
    else:
        change_part(chunks, i, how, PNG_CHUNKS, rng)
    out = content[:8]
    for name, body in chunks:
        out += struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
    return how, out


def mutate_jpeg(content, rng):
    """Segments and their fields."""
    if rng.random() < 0.3:
        return mutate_bytes(content, rng)
    segments, at = [], 2
    while at + 4 <= len(content) and content[at] == 0xFF and content[at + 1] != 0xDA:
        n = struct.unpack_from(">H", content, at + 2)[0]
        segments.append((content[at + 1], content[at + 4:at + 2 + n]))
        at += 2 + n
    rest = content[at:]
    if not segments:
        return mutate_bytes(content, rng)
    i = rng.randrange(len(segments))
    how = rng.choice(("field", "field", "drop", "double", "swap", "kind", "size", "rest", "length"))
    change_part(segments, i, how, JPEG_MARKERS, rng)
    if how == "size":
        for k, (m, b) in enumerate(segments):
            if m in (0xC0, 0xC1, 0xC2) and len(b) > 5:
                sizes = struct.pack(">HH", *(rng.choice((0, 1, 8, 65535, 65500, 13377)) for _ in range(2)))
                segments[k] = m, b[:1] + sizes + b[5:]
    elif how == "rest":
        rest = mutate_bytes(rest, rng)[1]
    out = content[:2]
    for k, (m, b) in enumerate(segments):
        n = len(b) + 2
        if how == "length" and k == i:
            n = rng.choice((0, 1, 2, n - 1, n + 1, 65535))
        out += bytes([0xFF, m]) + struct.pack(">H", n & 0xFFFF) + b
    return how, out + rest


def mutate_webp(content, rng):
    """Chunks of the RIFF, and its length."""
    if rng.random() < 0.4:
        return mutate_bytes(content, rng)
    chunks, at = [], 12
    while at + 8 <= len(content):
        n = struct.unpack_from("<I", content, at + 4)[0]
        chunks.append((content[at:at + 4], content[at + 8:at + 8 + n]))
        at += 8 + n + n % 2
    if not chunks:
        return mutate_bytes(content, rng)
    i = rng.randrange(len(chunks))
    how = rng.choice(("field", "field", "drop", "double", "swap", "kind", "length", "head"))
    change_part(chunks, i, how, WEBP_CHUNKS, rng)
    if how == "head":
        name, body = chunks[i]
        chunks[i] = name, number_bytes(body[:10], rng) + body[10:]
    out = b""
    for k, (name, body) in enumerate(chunks):
        n = rng.choice(MEANINGFUL) & 0xFFFFFFFF if how == "length" and k == i else len(body)
        out += name + struct.pack("<I", n) + body + b"\0" * (len(body) % 2)
    return how, b"RIFF" + struct.pack("<I", len(out) + 4) + b"WEBP" + out


def mutate_gzip(content, rng):
    if rng.random() < 0.5:
        return mutate_bytes(content, rng)
    text = mutate_text(zlib.decompress(content, 31), rng)[1]
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    return "text", packer.compress(text) + packer.flush()


# --- damage -------------------------------------------------------------------------------------------


def damage(content, rng):
    """What a disk or a cable does: bytes are lost or changed, and nothing is corrected."""
    how = rng.choice((cut, flip, flip, lengthen))
    changed = how(content, rng)
    return "damage " + how.__name__, changed, None if changed == content else True


MUTATORS = {"safetensors": mutate_safetensors, "npy": mutate_npy, "zip": mutate_zip, "tar": mutate_tar, "vecs": mutate_vecs, "text": mutate_text, "json": mutate_json,
            "png": mutate_png, "jpeg": mutate_jpeg, "webp": mutate_webp, "gzip": mutate_gzip}


def mutate(kind, content, rng):
    if kind == "safetensors" and b'"checksum":"' in content and rng.random() < 0.06:
        return damage(content, rng)
    how, changed = MUTATORS[kind](content, rng)
    return how, changed, None
