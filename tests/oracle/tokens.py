#!/usr/bin/env python3
"""The tokenizer against the reference (CLIPTokenizer of transformers): the same tokens, always.

    python tests/oracle/tokens.py KOOFU LIBKOOFU [DATA]

Needs transformers and the vocabulary that OpenAI published, in DATA/tokenizer (../shared/data beside
the repository, unless told). Exits with 77 where one is missing. The tokenizer is read from all forms of
files, and given

  - the 80 x 1000 prompts of ImageNet,
  - 5,000 lines of hostile Unicode, at several lengths of context,
  - every code point there is, alone and between two letters,
  - folders whose special tokens are unusual,
  - texts that are not UTF-8, which must be refused.
"""

import gzip
import json
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile

try:
    from transformers import CLIPTokenizer, logging

    logging.set_verbosity_error()
except ImportError:
    print("left out: transformers is not installed")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILE = "bpe_simple_vocab_16e6.txt.gz"
START, END = "<|startoftext|>", "<|endoftext|>"


# --- folders --------------------------------------------------------------------------------------


def byte_characters():
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    rest = [b for b in range(256) if b not in printable]
    return [chr(b) for b in printable] + [chr(256 + i) for i in range(len(rest))]


def vocabulary(packed):
    lines = gzip.decompress(packed).decode().split("\n")
    merges = [tuple(line.split()) for line in lines[1 : 49152 - 256 - 2 + 1]]
    symbols = byte_characters()
    tokens = symbols + [s + "</w>" for s in symbols] + ["".join(m) for m in merges] + [START, END]
    return {token: i for i, token in enumerate(tokens)}, merges


def make_folders(packed, base):
    """The same tokenizer in every form; the reference reads the first."""
    tokens, merges = vocabulary(packed)
    assert len(tokens) == 49408
    names = ["two", "json", "json-old", "packed", "text"]
    for name in names:
        (base / name).mkdir()
    (base / "two" / "vocab.json").write_text(json.dumps(tokens))
    lines = "\n".join(" ".join(m) for m in merges)
    (base / "two" / "merges.txt").write_text("#version: 0.2\n" + lines + "\n")
    reference = CLIPTokenizer.from_pretrained(base / "two")
    reference.save_pretrained(base / "json")
    # As files were before: merges in one string, the shorter expression, no escapes for Unicode.
    whole = json.loads((base / "json" / "tokenizer.json").read_text())
    whole["model"]["merges"] = [" ".join(m) for m in merges]
    split = whole["pre_tokenizer"]["pretokenizers"][0]["pattern"]
    split["Regex"] = split["Regex"].split("|>|")[-1]
    assert split["Regex"].startswith("'s|")
    (base / "json-old" / "tokenizer.json").write_text(json.dumps(whole, ensure_ascii=False))
    (base / "packed" / FILE).write_bytes(packed)
    (base / "text" / FILE[:-3]).write_bytes(gzip.decompress(packed))
    return reference, names


def added(content, normalized, **more):
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip"), False)
    return {"content": content, "normalized": normalized, **flags, **more}


def odd_folders(base):
    """Folders with other special tokens: name, files beside the vocabulary, and how tokenizer.json
    changes (None: vocab.json and merges.txt)."""
    typed = {"__type": "AddedToken"}
    listed = {"49406": added(START, True, special=True), "49407": added(END, False, special=True)}
    config, names = "tokenizer_config.json", "special_tokens_map.json"

    def more(*tokens):
        def change(whole):
            whole["added_tokens"] += tokens

        return change

    def normalized(whole):
        for token in whole["added_tokens"]:
            token["normalized"] = True

    cases = [
        ("as-published", {names: {"bos_token": added(START, True), "eos_token": added(END, True),
                                  "unk_token": added(END, True), "pad_token": END}}, normalized),
        ("two-published", {names: {"bos_token": added(START, True), "eos_token": added(END, True),
                                   "unk_token": added(END, True), "pad_token": END}}, None),
        ("last-decides", {names: {"eos_token": added(END, False), "unk_token": added(END, False),
                                  "pad_token": added(END, True)}}, None),
        ("typed", {config: {"bos_token": added(START, True, **typed), "pad_token": END}}, None),
        ("pad-exclamation", {config: {"pad_token": "!"}}, None),
        ("map-over-config", {config: {"pad_token": "!"}, names: {"pad_token": END}}, None),
        ("new-pad", {config: {"pad_token": "[PAD]"}}, None),
        ("decoder", {config: {"added_tokens_decoder": listed, "pad_token": "!"}, names: {"pad_token": END}}, None),
        ("extra", {config: {"extra_special_tokens": ["hi", "dog"]}}, None),
        ("additional", {config: {"additional_special_tokens": ["hi"]}}, None),
        ("own-name", {config: {"mask_token": "dog", "image_token": "<image>"}}, None),
        ("normalized-new", {}, more(added("HI\u0301", True, special=False, id=49408))),
        ("longest", {}, more(added("h", False, special=False, id=71), added("hi", False, special=False, id=677))),
        ("stripping", {}, more(added("dog", False, special=True, id=7252, lstrip=True, rstrip=True))),
        ("legacy", {"added_tokens.json": {"<new>": 49408, "Dog": 49409}}, None),
    ]
    for name, files, change in cases:
        folder = base / ("odd-" + name)
        shutil.copytree(base / ("two" if change is None else "json"), folder)
        if change is not None:
            (folder / "tokenizer_config.json").unlink()
            whole = json.loads((folder / "tokenizer.json").read_text())
            change(whole)
            if name == "longest":
                tokens = whole["model"]["vocab"]
                whole["added_tokens"][-2]["id"], whole["added_tokens"][-1]["id"] = tokens["h"], tokens["hi"]
            if name == "stripping":
                whole["added_tokens"][-1]["id"] = whole["model"]["vocab"]["dog"]
            (folder / "tokenizer.json").write_text(json.dumps(whole))
        for file, content in files.items():
            (folder / file).write_text(json.dumps(content))
        yield folder


# --- texts ----------------------------------------------------------------------------------------

RANGES = [
    (0x00, 0x20), (0x20, 0x7F), (0x7F, 0xA1), (0xA0, 0x250), (0x250, 0x370), (0x300, 0x370), (0x370, 0x400),
    (0x400, 0x530), (0x590, 0x780), (0x900, 0xE00), (0xE00, 0x1000), (0x1100, 0x1200), (0x1AB0, 0x1B00),
    (0x1DC0, 0x1F00), (0x1F00, 0x2000), (0x2000, 0x2070), (0x2070, 0x2200), (0x20D0, 0x2100), (0x2C00, 0x2E00),
    (0x3000, 0x3100), (0x3400, 0x4E00), (0x4E00, 0xA000), (0xA640, 0xA800), (0xAC00, 0xD7B0), (0xE000, 0xE100),
    (0xF900, 0xFB50), (0xFB50, 0xFE00), (0xFE00, 0xFE30), (0xFE30, 0x10000), (0x10000, 0x11A00),
    (0x16E40, 0x16EE0), (0x1D100, 0x1D200), (0x1D400, 0x1D800), (0x1E000, 0x1EF00), (0x1F000, 0x1FB00),
    (0x20000, 0x2FA20), (0x30000, 0x33480), (0xE0000, 0xE01F0), (0x10FF00, 0x110000),
]  # fmt: skip
PIECES = [
    START, END, START.upper(), END.title(), "<|endoftext|", "|endoftext|>", "<|", "|>", "</w>", "'s", "'S", "'ll", "'LL",
    "'re", "'ve", "'t", "'m", "'d", "''s", "don't", "'", "\u2019s", "!", "!'s", "I\u0307", "\u0130", "\u0130\u0323", "\u03a3",
    "\u039f\u0394\u039f\u03a3", "\u1e9e", "\u00df", "\u212a", "\u212b", "\u2126", "\ufb01", "\u01c5", "a\u0301\u0323", "a\u0323\u0301", "\u00e9", "e\u0301",
    "\u1100\u1161\u11a8", "\uac00\u11a8", "\uac01", "\u1100\u1161", "\u0344", "\u0958", "\u2adc", "\U0001d15e", "\u0f73", "\u09c7\u09be",
    "\U00011935\U00011930", "\U000110a5\U000110ba", "\u200d", "\ufe0f", "\u20e3", "\u200b", "\u200e", "\u202e", "\ufeff", "\u00ad", "\u034f",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f3f4\u200d\u2620\ufe0f", "\U0001f44d\U0001f3fd", "\U0001f1e9\U0001f1ea", "1\ufe0f\u20e3", "\u05d0\u05b8\u05d1", "\u0645\u0631\u062d\u0628\u0627",
    "\u0928\u092e\u0938\u094d\u0924\u0947", "\u4f60\u597d", "\u3053\u3093", "\u304b\u3099", "\u0661\u0662", "\u00bd", "\u2168", "\u3007", "\U0001d7d8", "\t", "\n", "\r\n", "\v", "\f", "\x1c", "\x85", "\xa0",
    "\u1680", "\u2003", "\u2028", "\u202f", "\u205f", "\u3000", "\u180e", "\0", "\x01", "\x02", "\x7f", " ", "  ", "_", "a_b", "3.14", "1,000", "x" * 30,
    "photo", "Dog", "of a", "supercalifragilistic", "&amp;", "&lt;br&gt;", "\xc3\xa9", "hi", "h", "[PAD]", "<image>",
]  # fmt: skip


def character(rng):
    while True:
        c = rng.randrange(*rng.choice(RANGES)) if rng.random() < 0.95 else rng.randrange(0x110000)
        if not 0xD800 <= c < 0xE000:
            return chr(c)


def hostile_line(rng):
    kind = rng.random()
    if kind < 0.45:
        return "".join(rng.choice(PIECES) for _ in range(rng.randrange(1, 14)))
    if kind < 0.8:
        return "".join(character(rng) if rng.random() < 0.6 else rng.choice(PIECES) for _ in range(rng.randrange(1, 40)))
    if kind < 0.9:  # marks in disorder behind one letter
        marks = [chr(c) for c in (*range(0x300, 0x370), *range(0x5B0, 0x5C0), *range(0x1DC0, 0x1E00), 0x3099, 0x309A, 0x94D, 0x93C)]
        run = "".join(rng.choice(marks) for _ in range(rng.choice((2, 5, 31, 32, 33, 34, 90))))
        return rng.choice("aeio\u00e9\u01d6\u304b\u0928") + run + rng.choice(PIECES)
    if kind < 0.95:  # very long words
        letters = rng.choice(("abcdefghijklmnopqrstuvwxyz", "ab", "\u0430\u0431\u0432", "\u4e00\u4e8c\u4e09", "!?.", "hahaha", "\U0001f600\U0001f602"))
        return "".join(rng.choice(letters) for _ in range(rng.choice((47, 48, 49, 50, 51, 300, 2000))))
    lead = rng.randrange(0x1100, 0x1113), rng.randrange(0x1161, 0x1176), rng.randrange(0x11A7, 0x11C3)
    return "".join(chr(c) for c in lead) * rng.randrange(1, 5) + chr(rng.randrange(0xAC00, 0xD7A4)) + chr(0x11A8)


# --- comparing ------------------------------------------------------------------------------------


def ours(tool, folder, texts, context):
    """Tokens of each text, without the padding, and the padding's length checked."""
    data = b"".join(b"\1" + t.replace(b"\2", b"\2\3").replace(b"\0", b"\2\2") + b"\0" for t in texts)
    done = subprocess.run([tool, folder, str(context)], input=data, capture_output=True)
    lines = done.stdout.decode(errors="replace").splitlines()
    if done.returncode != 0 or len(lines) != len(texts):
        sys.exit(f"{folder}: {done.stdout[:300]!r} {done.stderr[:300]!r}")
    return lines


def theirs(reference, texts, context):
    encoded = reference(texts, padding="max_length", truncation=True, max_length=context)
    for tokens, mask in zip(encoded["input_ids"], encoded["attention_mask"]):
        yield " ".join(map(str, tokens)) + f" {sum(mask)}"


def compare(tool, reference, folder, texts, context, what):
    got = ours(tool, folder, [t.encode() for t in texts], context)
    wrong = 0
    for text, a, b in zip(texts, got, theirs(reference, texts, context)):
        if a != b:
            wrong += 1
            if wrong <= 5:
                print(f"{folder.name}: {text!r} ({' '.join(f'{ord(c):x}' for c in text[:40])})\n  ours   {a}\n  theirs {b}")
    print(f"{what}: {len(texts):,} texts, context {context}, {folder.name}: {wrong} differ", flush=True)
    return wrong


def compare_bad(tool, folder):
    """Texts that are not UTF-8, and where."""
    cases = [(b"\xff", 0), (b"ab\xc3", 2), (b"ab\xc3(", 2), (b"\xc0\x80", 0), (b"x\xe0\x80\x80", 1), (b"\xed\xa0\x80", 0),
             (b"ok \xf4\x90\x80\x80", 3), (b"\xf8\x88\x80\x80\x80", 0), (b"caf\xe9", 3), (b"\x80", 0), ("é".encode() + b"\xe2\x82", 2)]  # fmt: skip
    lines = ours(tool, folder, [text for text, _ in cases], 77)
    wrong = [c for c, line in zip(cases, lines) if not line.endswith(f"is not valid UTF-8 at its byte {c[1]}")]
    print(f"not UTF-8: {len(cases)} texts: {len(wrong)} not refused {wrong}")
    return len(wrong)


def main():
    koofu = pathlib.Path(sys.argv[1])
    data = pathlib.Path(sys.argv[3]) if len(sys.argv) > 3 else ROOT.parent / "shared" / "data"
    packed = data / "tokenizer" / FILE
    tool = koofu.resolve().parent / "tests" / "tokenize_tool"
    for path in packed, tool:
        if not path.exists():
            print(f"left out: there is no {path}")
            sys.exit(77)
    with tempfile.TemporaryDirectory() as folder:
        base = pathlib.Path(folder)
        reference, names = make_folders(packed.read_bytes(), base)
        rng = random.Random(6)
        hostile = ["", " ", "\n\t ", "\0", *(hostile_line(rng) for _ in range(4996))]
        imagenet = json.loads((data / "imagenet" / "imagenet_classes_templates.json").read_text())
        prompts = [t.format(c) for c in imagenet["classes"] for t in imagenet["templates"]]
        wrong = 0
        for name in names:
            wrong += compare(tool, reference, base / name, prompts, 77, "prompts")
            wrong += compare(tool, reference, base / name, hostile, 77, "hostile")
        for context in 2, 3, 5, 16, 32, 1000:
            wrong += compare(tool, reference, base / "two", hostile, context, "hostile")
        for odd in odd_folders(base):
            other = CLIPTokenizer.from_pretrained(odd)
            wrong += compare(tool, other, odd, hostile[:2000], 77, "special")
        points = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
        step = 100000
        for i in range(0, len(points), step):
            part = points[i : i + step]
            wrong += compare(tool, reference, base / "two", part + [f"a{c}b" for c in part], 12, "code points")
        wrong += compare_bad(tool, base / "two")
    print("all the same" if wrong == 0 else f"{wrong} DIFFER")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
