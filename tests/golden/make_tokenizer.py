#!/usr/bin/env python3
"""Writes tests/golden/tokenizer/: small tokenizers of CLIP's kind in every form of files, hostile texts,
and the tokens that the reference (CLIPTokenizer of transformers) gives for them.

    python tests/golden/make_tokenizer.py

Needs transformers and tokenizers. The words below are all that the merges are learnt from.
"""

import gzip
import json
import pathlib
import random
import shutil
import sys

from tokenizers import Tokenizer, models, pre_tokenizers, trainers
from transformers import CLIPTokenizer

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "oracle"))
import tokens as oracle  # noqa: E402

OUT = HERE / "tokenizer"
WORDS = """
a photo of a dog and a photo of the cat. a drawing of the small brown dog, not of the large one.
it's the owner's photo; they're there, we've seen them, i'd say they'll stay. i'm here, and it isn't rain.
ein foto von der katze, une photo du chien, una foto del perro, zdjęcie psa, собака и кошка, 犬の写真
the good, the bad and the other: another photo of another thing in the other room.
a close-up photo of the dog! a bad photo of the dog? a low resolution photo of many dogs...
the origami dog, the embroidered dog, the plastic dog, the toy dog, the sculpture of the dog.
"""
MERGES = 96
CONTEXT = 77


def learn_merges():
    symbols = oracle.byte_characters()
    trainer = trainers.BpeTrainer(
        vocab_size=512 + MERGES, initial_alphabet=symbols, end_of_word_suffix="</w>", min_frequency=1, show_progress=False
    )
    learner = Tokenizer(models.BPE(end_of_word_suffix="</w>"))
    learner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    text = " ".join(WORDS.lower().split())
    # Words without the space before them, which CLIP's tokenizer never sees.
    words = [w.strip("\u0120") for w, _ in learner.pre_tokenizer.pre_tokenize_str(text)]
    learner.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    learner.train_from_iterator([" ".join(words)], trainer)
    return [tuple(m) for m in json.loads(learner.to_str())["model"]["merges"]][:MERGES]


def write_two(folder, tokens, merges):
    folder.mkdir()
    (folder / "vocab.json").write_text(json.dumps({t: i for i, t in enumerate(tokens)}) + "\n")
    lines = "".join(f"{a} {b}\n" for a, b in merges)
    (folder / "merges.txt").write_text("#version: 0.2\n" + lines)


def write_all(merges):
    symbols = oracle.byte_characters()
    specials = [oracle.START, oracle.END]
    every = symbols + [s + "</w>" for s in symbols]
    write_two(OUT / "two", every + ["".join(m) for m in merges] + specials, merges)
    few = [s for s in every if s[0] in "abcdefghijklmnop'.!"]
    some = []
    for a, b in merges:
        if a in few + ["".join(m) for m in some] and b in few + ["".join(m) for m in some]:
            some.append((a, b))
    write_two(OUT / "few", few + ["".join(m) for m in some] + specials, some)
    reference = CLIPTokenizer.from_pretrained(OUT / "two")
    reference.save_pretrained(OUT / "json")
    whole = json.loads((OUT / "json" / "tokenizer.json").read_text())
    (OUT / "json" / "tokenizer.json").write_text(json.dumps(whole) + "\n")
    (OUT / "json" / "tokenizer_config.json").write_text(json.dumps({"pad_token": oracle.END}) + "\n")
    text = '"bpe_simple_vocab_16e6.txt#version: 0.2\n' + "".join(f"{a} {b}\n" for a, b in merges)
    for name in "packed", "text":
        (OUT / name).mkdir()
    (OUT / "packed" / oracle.FILE).write_bytes(gzip.compress(text.encode(), 9, mtime=0))
    (OUT / "text" / oracle.FILE[:-3]).write_text(text)
    return reference, CLIPTokenizer.from_pretrained(OUT / "few")


def texts():
    rng = random.Random(77)
    lines = ["", " ", " \t\n", "A photo of a Dog.", "it's", "IT'S", "a" * 200, "\u0130\u0323 I\u0307"]
    lines += [p for p in oracle.PIECES if "\0" not in p]
    while len(lines) < 400:
        line = oracle.hostile_line(rng)
        if "\0" not in line and len(line) < 80:  # JSON as koofu reads it has no NUL
            lines.append(line)
    return lines


def main():
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir()
    full, few = write_all(learn_merges())

    def tokens(reference, text):
        return reference(text, truncation=True, max_length=CONTEXT)["input_ids"]

    with open(OUT / "expected.json", "w") as file:
        file.write("[")
        for i, text in enumerate(texts()):
            entry = {"text": text, "full": tokens(full, text), "few": tokens(few, text)}
            file.write((",\n " if i else "\n ") + json.dumps(entry, separators=(",", ":")))
        file.write("\n]\n")
    print(sum(path.stat().st_size for path in OUT.rglob("*") if path.is_file()), "bytes")


if __name__ == "__main__":
    main()
