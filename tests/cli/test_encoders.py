"""Which encoder embeddings come from: written into files, and compared wherever two of them meet."""

import json
import math
import os
import shutil

from harness import BAD_DATA, IO, check, equal, test
from photos import CLIP, TEXT, photos

OTHER = "finetuned"
ANY = "--any-encoder"


def finetune(box):
    """A model of the same sizes whose weights differ a little."""
    shutil.copytree(CLIP, box.path(OTHER))
    weights = bytearray(box.read(f"{OTHER}/model.safetensors"))
    for at in range(8 + int.from_bytes(weights[:8], "little") + 1, len(weights), 4):
        weights[at] ^= 0x55
    box.write(f"{OTHER}/model.safetensors", bytes(weights))


def header_of(box, name):
    raw = box.read(name)
    size = int.from_bytes(raw[:8], "little")
    return json.loads(raw[8:8 + size]), raw[8 + size:]


def encoder_of(box, name):
    metadata = header_of(box, name)[0]["__metadata__"]
    return metadata.get("encoder"), metadata.get("encoder_checksum")


def write_file(box, name, header, data):
    text = json.dumps(header).encode()
    return box.write(name, len(text).to_bytes(8, "little") + text + data)


def files_of(box, prefix, clip):
    """Everything that one encoder leads to: PREFIX-data, -text, -stats, -model, -gallery."""
    names = {kind: f"{prefix}-{kind}.safetensors" for kind in ("data", "prompts", "text", "stats", "model", "fused", "gallery", "raw")}
    box.write("names.txt", "ant\nfox\nowl\n")
    box.works("embed", clip, "p", "-o", names["data"])
    box.works("embed-text", clip, "--classes", "names.txt", "-o", names["prompts"])
    box.works("text-prototypes", names["prompts"], "-o", names["text"])
    box.works("stats", names["data"], "-o", names["stats"])
    box.works("fit", names["stats"], "--lambda", "1x", "-o", names["model"])
    box.works("fit", names["data"], "--text", names["text"], "-o", names["fused"])
    box.works("index", names["data"], "--model", names["model"], "-o", names["gallery"])
    box.works("index", names["data"], "-o", names["raw"])
    return names


@test
def every_file_knows_its_encoder(box):
    photos(box, "p", ["ant", "fox", "owl"], 4)
    finetune(box)
    names = files_of(box, "a", CLIP)
    known = encoder_of(box, names["data"])
    equal(known[0], "clip-f32", "the name")
    for name in names.values():
        equal(encoder_of(box, name), known, name)
        check(f"encoder      clip-f32 ({known[1][:8]})" in box.works("info", name).out, f"info of {name}")
        equal(json.loads(box.works("info", "--json", name).out)["encoder"], "clip-f32", f"info --json of {name}")
    # Whichever towers are loaded, in any precision, it is the same model.
    box.works("embed", CLIP, "p", "--precision", "f32", "-o", "exact.safetensors")
    equal(encoder_of(box, "exact.safetensors"), known, "another precision")
    box.works("embed", OTHER, "p", "-o", "other.safetensors")
    check(encoder_of(box, "other.safetensors")[1] != known[1], "another model")
    # Rows that were mapped are no longer the encoder's; those of a list of classes still are.
    box.works("transform", names["model"], names["data"], "-o", "mapped.safetensors")
    mapped = encoder_of(box, "mapped.safetensors")
    equal(mapped[0], "clip-f32, mapped", "mapped rows")
    check(mapped[1] != known[1], "the map's checksum is not the encoder's")
    box.works("convert", names["gallery"], "-o", "from-gallery.safetensors")
    equal(encoder_of(box, "from-gallery.safetensors"), mapped, "mapped rows of a gallery")
    box.works("convert", names["data"], "--only", "names.txt", "-o", "some.safetensors")
    equal(encoder_of(box, "some.safetensors"), known, "some rows")
    box.works("convert", names["data"], "-o", "copy.safetensors")
    equal(encoder_of(box, "copy.safetensors"), known, "a copy")


@test
def rows_are_mapped_once(box):
    """A model refuses rows that it mapped itself, even if it does not know the encoder."""
    box.works("synth", "--seed", "3", "--dim", "16", "--classes", "4", "--per-class", "10", "-o", "raw.safetensors")
    box.works("fit", "raw.safetensors", "--lambda", "1x", "-o", "m.safetensors")
    box.works("fit", "raw.safetensors", "--lambda", "3x", "-o", "other.safetensors")
    box.works("index", "raw.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")
    box.works("index", "raw.safetensors", "--model", "m.safetensors", "-o", "changed.safetensors")
    box.works("index", "raw.safetensors", "--append", "changed.safetensors")
    for first, name in (
        (["transform", "m.safetensors", "raw.safetensors"], "mapped.safetensors"),
        (["transform", "m.safetensors", "raw.safetensors"], "mapped.parquet"),
        (["convert", "g.safetensors"], "converted.safetensors"),
        (["convert", "changed.safetensors"], "converted.parquet"),
    ):
        box.works(*first, "-o", name)
        for words in (
            ["transform", "m.safetensors", name, "-o", "again.safetensors"],
            ["classify", "m.safetensors", name],
            ["eval", "m.safetensors", name],
            ["index", name, "--model", "m.safetensors", "-o", "again.safetensors"],
            ["search", "g.safetensors", name, "-k", "2"],
        ):
            box.refuses(BAD_DATA, *words, naming=[name, "mapped by this model already"])
            box.works(*words, ANY)
        # Files made from mapped rows match rows of the same map, not those of another.
        box.works("fit", name, "--lambda", "1x", "-o", "second.safetensors")
        box.works("eval", "second.safetensors", name)
        box.works("transform", "other.safetensors", "raw.safetensors", "-o", "elsewhere.safetensors")
        box.refuses(BAD_DATA, "eval", "second.safetensors", "elsewhere.safetensors", naming=["elsewhere.safetensors"])
    # A converted file has rows of one map or of none.
    box.works("index", "raw.safetensors", "--model", "other.safetensors", "-o", "h.safetensors")
    box.refuses(BAD_DATA, "convert", "g.safetensors", "h.safetensors", "-o", "both.safetensors",
                naming=["g.safetensors", "h.safetensors"])
    box.works("convert", "g.safetensors", "h.safetensors", ANY, "-o", "both.safetensors")
    equal(encoder_of(box, "both.safetensors"), (None, None), "rows of two maps")


@test
def maps_that_are_none(box):
    """Rows of a gallery with an invalid map are refused."""
    box.works("synth", "--seed", "3", "--dim", "16", "--classes", "4", "--per-class", "10", "-o", "raw.safetensors")
    box.works("fit", "raw.safetensors", "--lambda", "1x", "-o", "m.safetensors")
    box.works("index", "raw.safetensors", "--model", "m.safetensors", "-o", "g.safetensors")

    def refused(change, naming):
        header, data = header_of(box, "g.safetensors")
        del header["__metadata__"]["checksum"]  # otherwise it would not fit
        change(header)
        write_file(box, "bad.safetensors", header, data)
        box.refuses(BAD_DATA, "convert", "bad.safetensors", "-o", "out.safetensors", naming=["bad.safetensors", naming])

    refused(lambda header: header["__metadata__"].pop("normalized"), "normalized")
    refused(lambda header: header["__metadata__"].pop("centre"), "centre")
    refused(lambda header: header["transform"].update(dtype="F32", shape=[16, 32]), "transform")
    refused(lambda header: header["transform"].update(shape=[256]), "transform")
    refused(lambda header: header["transform"].update(shape=[32, 8]), "mean")
    refused(lambda header: header.update(average=header.pop("mean")), "mean")


def without_encoder(box, name, out):
    """A copy of a data set that does not say which encoder made it."""
    header, data = header_of(box, name)
    for key in ("encoder", "encoder_checksum", "made_of"):
        header["__metadata__"].pop(key, None)
    return write_file(box, out, header, data)


@test
def encoders_that_differ_do_not_meet(box):
    paths = photos(box, "p", ["ant", "fox", "owl"], 4)
    finetune(box)
    a, b = files_of(box, "a", CLIP), files_of(box, "b", OTHER)
    out = ["-o", "out.safetensors"]
    meetings = [
        (["merge", a["stats"], b["stats"], *out], a["stats"], b["stats"]),
        (["stats", a["data"], b["data"], *out], a["data"], b["data"]),
        (["transform", a["model"], b["data"], *out], a["model"], b["data"]),
        (["classify", a["model"], b["data"]], a["model"], b["data"]),
        (["classify", a["model"], paths[0], "--encoder", OTHER], a["model"], OTHER),
        (["classify", a["model"], a["data"], "--gallery", b["raw"]], a["model"], b["raw"]),
        (["classify", a["model"], a["data"], "--text", b["text"]], a["model"], b["text"]),
        (["eval", a["model"], b["data"]], a["model"], b["data"]),
        (["eval", a["model"], a["data"], "--text", b["text"]], a["model"], b["text"]),
        (["eval", a["model"], a["data"], "--gallery", b["raw"], "-k", "3"], a["model"], b["raw"]),
        (["compare", a["model"], b["model"], a["data"]], a["data"], b["model"]),
        (["fit", a["data"], "--text", b["text"], *out], a["data"], b["text"]),
        (["fit", a["stats"], "--between", b["stats"], "--lambda", "1x", *out], a["stats"], b["stats"]),
        (["index", a["data"], "--model", b["model"], *out], a["data"], b["model"]),
        (["index", a["data"], "--append", b["raw"], *out], a["data"], b["raw"]),
        (["search", a["gallery"], b["data"], "-k", "2"], a["gallery"], b["data"]),
        (["search", a["raw"], paths[0], "--encoder", OTHER, "-k", "2"], a["raw"], OTHER),
        (["add-class", a["model"], "new", b["data"], *out], a["model"], b["data"]),
        (["add-class", a["fused"], "new", b["prompts"], "--text", *out], a["fused"], b["prompts"]),
        (["sweep", a["data"], "--test", b["data"], "--shots", "1,2", "--seeds", "1"], a["data"], b["data"]),
        (["sweep", a["data"], "--test", b["data"], "--lambdas", "1x"], a["data"], b["data"]),
        (["report", a["data"], "--test", b["data"], "-o", "out.html"], a["data"], b["data"]),
        (["report", a["data"], "--text", b["text"], "-o", "out.html"], a["data"], b["text"]),
    ]
    sums = [f"clip-f32 ({encoder_of(box, a['data'])[1][:8]})", f"finetuned ({encoder_of(box, b['data'])[1][:8]})"]
    for words, *files in meetings:
        box.refuses(BAD_DATA, *words, naming=[*sums, *files, "--any-encoder allows it"])
        box.works(*words, ANY)
        for name in ("out.safetensors", "out.html"):
            if os.path.exists(box.path(name)):
                os.remove(box.path(name))
    # What was combined nevertheless has neither encoder.
    box.works("merge", a["stats"], b["stats"], ANY, *out)
    equal(encoder_of(box, "out.safetensors"), (None, None), "statistics of both")
    box.write("copy.safetensors", box.read(a["stats"]))
    box.works("merge", a["stats"], b["stats"], "copy.safetensors", ANY, *out)
    equal(encoder_of(box, "out.safetensors"), (None, None), "and of a third")
    # Models are compared even on rows of unknown encoder.
    without_encoder(box, a["data"], "silent.safetensors")
    box.refuses(BAD_DATA, "compare", a["model"], b["model"], "silent.safetensors", naming=[a["model"], b["model"]])


@test
def what_does_not_say_goes_with_everything(box):
    photos(box, "p", ["ant", "fox", "owl"], 4)
    finetune(box)
    a, b = files_of(box, "a", CLIP), files_of(box, "b", OTHER)
    silent = without_encoder(box, a["data"], "silent.safetensors")
    for words in (["stats", silent], ["fit", silent], ["index", silent], ["convert", silent]):
        box.works(*words, "-o", "out.safetensors")
        equal(encoder_of(box, "out.safetensors"), (None, None), words[0])
    for words in (["eval", b["model"], silent], ["classify", b["model"], silent], ["search", b["raw"], silent],
                  ["transform", b["model"], silent, "-o", "out.safetensors"]):
        box.works(*words)
    # Combined, the known encoder applies to both.
    box.works("stats", silent, a["data"], "-o", "out.safetensors")
    equal(encoder_of(box, "out.safetensors"), encoder_of(box, a["data"]), "one of two files")
    box.works("fit", silent, "--text", a["text"], "-o", "out.safetensors")
    equal(encoder_of(box, "out.safetensors"), encoder_of(box, a["data"]), "rows and text")
    box.refuses(BAD_DATA, "eval", "out.safetensors", b["data"], naming=["out.safetensors", b["data"]])
    # Zero-shot: only the text knows.
    box.works("fit", silent, "-o", "m.safetensors")
    box.refuses(BAD_DATA, "classify", "m.safetensors", b["data"], "--text", a["text"], naming=[b["data"], a["text"]])


@test
def names_of_encoders(box):
    photos(box, "p", ["ant", "fox"], 2)
    snapshot = "cache/models--openai--clip-tiny/snapshots/" + "0123456789abcdef" * 2 + "01234567"
    os.makedirs(box.path("cache/models--openai--clip-tiny/snapshots"))
    shutil.copytree(CLIP, box.path(snapshot))
    shutil.copytree(CLIP, box.path("a \x01 clip"))
    shutil.copytree(CLIP, box.path("ä" * 100))
    os.symlink("a \x01 clip", box.path("link"))
    for folder, name in ((snapshot, "openai/clip-tiny"), (snapshot + "//", "openai/clip-tiny"), ("link", "a ? clip"),
                         ("ä" * 100, "ä" * 63)):
        box.works("embed", folder, "p", "-o", "out.safetensors")
        equal(encoder_of(box, "out.safetensors")[0], name, folder)
        box.works("info", "out.safetensors")
    sums = set()
    for folder in (CLIP, snapshot):
        box.works("embed", folder, "p", "-o", "out.safetensors", "--no-resume")
        sums.add(encoder_of(box, "out.safetensors")[1])
    equal(len(sums), 1, "the name is no part of the checksum")


@test
def bad_metadata(box):
    photos(box, "p", ["ant", "fox"], 2)
    box.works("embed", CLIP, "p", "-o", "good.safetensors")
    for changes, naming in (({"encoder": None}, "'encoder_checksum' without 'encoder'"),
                            ({"encoder_checksum": None}, "'encoder' without 'encoder_checksum'"),
                            ({"encoder": ""}, "1 to 127 bytes"), ({"encoder": "x" * 128}, "1 to 127 bytes"),
                            ({"encoder_checksum": "12"}, "not 16 hex digits"),
                            ({"encoder_checksum": "0123456789abcdeF"}, "not 16 hex digits"),
                            ({"encoder_checksum": "0123456789abcdef0"}, "not 16 hex digits")):
        header, data = header_of(box, "good.safetensors")
        for key, value in changes.items():
            header["__metadata__"].pop(key)
            if value is not None:
                header["__metadata__"][key] = value
        write_file(box, "bad.safetensors", header, data)
        box.refuses(BAD_DATA, "stats", "bad.safetensors", "-o", "s.safetensors", naming=["bad.safetensors", naming])
        # Files of other programs may mean something else by these keys.
        header["__metadata__"].pop("format")
        write_file(box, "bad.safetensors", header, data)
        box.works("stats", "bad.safetensors", "-o", "s.safetensors")
        os.remove(box.path("s.safetensors"))


@test
def text_and_pictures_of_one_model(box):
    """The text tower alone has the same origin as the image tower alone, since both are of one model."""
    photos(box, "p", ["ant", "fox", "owl"], 4)
    box.write("names.txt", "ant\nfox\nowl\n")
    box.works("embed", CLIP, "p", "-o", "d.safetensors")
    box.works("embed-text", CLIP, "--classes", "names.txt", "-o", "t.safetensors")
    box.works("fit", "d.safetensors", "--text", "t.safetensors", "-o", "m.safetensors")
    box.works("embed-text", TEXT, "--classes", "names.txt", "-o", "t2.safetensors")
    check(encoder_of(box, "t.safetensors")[1] != encoder_of(box, "t2.safetensors")[1], "another folder")


@test
def info_describes_an_encoder(box):
    """What it is, towers, input, tokenizer and parameters; without loading it, so a cut file is told at once."""
    with open(os.path.join(CLIP, "config.json"), encoding="utf-8") as file:
        config = json.load(file)
    said = json.loads(box.works("info", "--json", CLIP).out)
    equal((said["kind"], said["family"], said["dtype"], said["dim"]), ("encoder", "CLIP", "F32", config["projection_dim"]), "kind")
    for tower, own in (("image", config["vision_config"]), ("text", config["text_config"])):
        equal(said[tower], {"layers": own["num_hidden_layers"], "width": own["hidden_size"], "heads": own["num_attention_heads"]}, tower)
    equal((said["image_size"], said["context"], said["vocabulary"]),
          (config["vision_config"]["image_size"], config["text_config"]["max_position_embeddings"], config["text_config"]["vocab_size"]), "input")
    shutil.copytree(CLIP, box.path("clip"))
    tensors, data = header_of(box, "clip/model.safetensors")
    floats = [t for name, t in tensors.items() if name != "__metadata__" and t["dtype"].startswith("F")]
    count = sum(math.prod(t["shape"]) for t in floats)
    equal(said["parameters"], count, "parameters")
    lines = box.works("info", CLIP).out
    for words in ("encoder (CLIP,", f"{config['vision_config']['image_size']} x ", " in the tokenizer; ", f"parameters   {count:,}, F32"):
        check(words in lines, f"{words!r} in {lines}")
    equal(box.works("info", TEXT).out.count("none"), 1, "no image tower")
    os.remove(box.path("clip/merges.txt"))
    box.refuses(IO, "info", "clip", naming="merges.txt")
    box.write("clip/merges.txt", "")
    box.write("clip/model.safetensors", box.read("clip/model.safetensors")[:-9])
    box.refuses(BAD_DATA, "info", "clip", naming="clip/model.safetensors")
    os.makedirs(box.path("empty"))
    failed = box.run("info", "empty", CLIP)
    check("config.json" in failed.err and "encoder (CLIP" in failed.out and failed.status, f"the others still are: {failed}")
