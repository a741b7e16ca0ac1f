#!/usr/bin/env python3
"""Both towers against the reference (transformers on PyTorch), at the sizes of real models.

    python tests/oracle/towers.py KOOFU LIBKOOFU [DATA] [SIZE...]      SIZE: b32 l14 siglip

Builds models with random weights in a temporary folder (L/14 takes 1.7 GB), takes the 40 photographs of
DATA/images (../shared/data beside the repository, unless told) through the reference's image processor
and model and through kf_encode_images, and 100 prompts through the text towers. Demands of every row a
cosine to the reference of 0.999999 in f32 and of 0.9999 in bf16, and of the memory for loading less than
1.3 times the weights. Exits with 77 where something that it needs is missing.
"""

import ctypes as c
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tests" / "golden"), str(ROOT / "tests" / "oracle")]
try:
    import numpy as np
    import torch
    import transformers
    from PIL import Image

    from make_models import fill, write_processor
    from tokens import FILE, vocabulary
except ImportError as missing:
    print(f"left out: {missing}")
    sys.exit(77)

PRECISIONS = {"f32": (1, 0.999999), "bf16": (2, 0.9999)}
failed = 0


def check(what, ok, detail):
    global failed
    print(f"{'ok  ' if ok else 'FAIL'} {what:34} {detail}", flush=True)
    failed += not ok


# --- models ---------------------------------------------------------------------------------------


def config_of(size):
    if size == "siglip":
        return transformers.SiglipConfig(
            vision_config={"image_size": 384, "patch_size": 14, "hidden_size": 1152,
                           "intermediate_size": 4304, "num_hidden_layers": 8,
                           "num_attention_heads": 16},
            text_config={"num_hidden_layers": 1})
    if size == "b32":
        return transformers.CLIPConfig()
    return transformers.CLIPConfig(
        projection_dim=768,
        vision_config={"patch_size": 14, "hidden_size": 1024, "intermediate_size": 4096,
                       "num_hidden_layers": 24, "num_attention_heads": 16},
        text_config={"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12})


def build(size, folder, data):
    config = config_of(size)
    siglip = size == "siglip"
    model = fill((transformers.SiglipModel if siglip else transformers.CLIPModel)(config), 7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            # A residual stream as deep models have it, where no layer drowns the others.
            if name.endswith(("out_proj.weight", "fc2.weight")) and "head" not in name:
                p /= (2 * config.vision_config.num_hidden_layers) ** 0.5
            # What is the same for all inputs must not drown them either.
            if "position_embedding" in name or "class_embedding" in name:
                p *= 0.2
            if name.endswith(("q_proj.weight", "k_proj.weight")):
                p *= 1.5
    model.save_pretrained(folder, max_shard_size="600MB")
    write_processor(folder, config.vision_config.image_size, siglip)
    shutil.copy(data / "tokenizer" / FILE, folder)
    return model


def photographs(model, folder, paths):
    siglip = "siglip" in model.config.model_type
    kind = transformers.SiglipImageProcessorPil if siglip else transformers.CLIPImageProcessorPil
    images = [Image.open(path).convert("RGB") for path in paths]
    pixels = kind.from_pretrained(folder)(images=images, return_tensors="pt")["pixel_values"]
    with torch.inference_mode():
        return torch.cat([model.get_image_features(pixel_values=p).pooler_output
                          for p in pixels.split(8)]).numpy()


def prompts(data):
    lines = json.loads((data / "imagenet" / "imagenet_classes_templates.json").read_text())["classes"]
    forms = ["a photo of a {}.", "{}", "a blurry photo of the {}, seen from afar in the rain.",
             "itap of my {}."]
    return [forms[i % 4].format(name) for i, name in enumerate(lines[::10][:100])]


def texts(model, data, lines):
    with tempfile.TemporaryDirectory() as folder:
        tokens, merges = vocabulary((data / "tokenizer" / FILE).read_bytes())
        path = pathlib.Path(folder)
        (path / "vocab.json").write_text(json.dumps(tokens))
        (path / "merges.txt").write_text("#version: 0.2\n" + "".join(f"{a} {b}\n" for a, b in merges))
        tokenizer = transformers.CLIPTokenizer.from_pretrained(folder)
    inputs = tokenizer(lines, padding="max_length", max_length=77, truncation=True,
                       return_tensors="pt")
    with torch.inference_mode():
        return model.get_text_features(**inputs).pooler_output.numpy()


# --- koofu ----------------------------------------------------------------------------------------


class Options(c.Structure):
    _fields_ = [("precision", c.c_int), ("images", c.c_int), ("text", c.c_int),
                ("max_pixels", c.c_uint64), ("reserved", c.c_uint64 * 4)]


class Koofu:
    def __init__(self, path):
        self.lib, self.ctx = c.CDLL(path), c.c_void_p()
        self.lib.kf_errmsg.restype = c.c_char_p
        self.lib.kf_encoder_bytes.restype = c.c_uint64
        assert self.lib.kf_ctx_new(None, c.byref(self.ctx)) == 0

    def call(self, name, *arguments):
        if getattr(self.lib, name)(self.ctx, *arguments) != 0:
            raise RuntimeError(f"{name}: {self.lib.kf_errmsg(self.ctx).decode()}")

    def load(self, folder, precision, no_text=0):
        encoder = c.c_void_p()
        options = Options(PRECISIONS[precision][0], 0, 2 if no_text else 0, 0)
        self.call("kf_encoder_load", str(folder).encode(), c.byref(options), c.byref(encoder))
        return encoder

    def encode(self, name, encoder, inputs, *more):
        strings = (c.c_char_p * len(inputs))(*[str(s).encode() for s in inputs])
        out = np.empty((len(inputs), self.lib.kf_encoder_dim(encoder)), "f4")
        self.call(name, encoder, strings, c.c_uint64(len(inputs)), out.ctypes.data_as(c.c_void_p), *more)
        return out


MEMORY = """
import ctypes as c, re, sys
class Options(c.Structure):
    _fields_ = [("precision", c.c_int), ("images", c.c_int), ("text", c.c_int),
                ("max_pixels", c.c_uint64), ("reserved", c.c_uint64 * 4)]
lib, ctx, encoder = c.CDLL(sys.argv[1]), c.c_void_p(), c.c_void_p()
lib.kf_encoder_bytes.restype = c.c_uint64
peak = lambda: int(re.search(r"VmHWM:\\s*(\\d+)", open("/proc/self/status").read())[1]) * 1024
assert lib.kf_ctx_new(None, c.byref(ctx)) == 0
before = peak()
options = Options(int(sys.argv[3]), 0, 2 * int(sys.argv[4]), 0)
assert lib.kf_encoder_load(ctx, sys.argv[2].encode(), c.byref(options), c.byref(encoder)) == 0
loaded = peak() - before
paths = (c.c_char_p * len(sys.argv[5:]))(*[p.encode() for p in sys.argv[5:]])
out = (c.c_float * (len(paths) * lib.kf_encoder_dim(encoder)))()
assert lib.kf_encode_images(ctx, encoder, paths, c.c_uint64(len(paths)), out, None) == 0
print(lib.kf_encoder_bytes(encoder), loaded, peak() - before)
"""


def memory(library, folder, precision, no_text, paths):
    """Bytes of weights, and what loading and then encoding took at most, in a process of its own."""
    result = subprocess.run([sys.executable, "-c", MEMORY, library, folder,
                             str(PRECISIONS[precision][0]), str(no_text), *map(str, paths)],
                            check=True, capture_output=True, text=True)
    return [int(n) for n in result.stdout.split()]


# --- comparing ------------------------------------------------------------------------------------


def unit(rows):
    rows = rows.astype("f8")
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def compare(what, rows, reference, limit):
    cosines = (unit(rows) * unit(reference)).sum(1)
    apart = np.abs(rows - reference).max() / np.abs(reference).max()
    check(what, cosines.min() >= limit,
          f"1 - cosine at most {1 - cosines.min():.1e} (limit {1 - limit:.0e}), "
          f"apart by {apart:.1e} of the largest value")


def spread(what, reference):
    """Rows of different inputs must be different, or the comparison would see nothing."""
    gram = unit(reference) @ unit(reference).T
    np.fill_diagonal(gram, -1)
    check(what, gram.max() < 0.99, f"cosines between different inputs: at most {gram.max():.3f}")


def run(size, library, data, base):
    folder, no_text = base / size, int(size == "siglip")
    model = build(size, folder, data)
    paths, lines = sorted((data / "images").glob("*.JPEG")), prompts(data)
    start = time.monotonic()
    wanted = {"images": photographs(model, folder, paths)}
    print(f"     reference: {len(paths) / (time.monotonic() - start):.1f} pictures a second")
    if not no_text:
        wanted["texts"] = texts(model, data, lines)
    del model
    for name, rows in wanted.items():
        spread(f"{size} {name}", rows)
    for precision, (_, limit) in PRECISIONS.items():
        koofu = Koofu(library)
        encoder = koofu.load(folder, precision, no_text)
        start = time.monotonic()
        rows = koofu.encode("kf_encode_images", encoder, paths, None)
        print(f"     koofu {precision}: {len(paths) / (time.monotonic() - start):.1f} pictures a second")
        compare(f"{size} images {precision}", rows, wanted["images"], limit)
        if not no_text:
            rows = koofu.encode("kf_encode_texts", encoder, lines)
            compare(f"{size} texts {precision}", rows, wanted["texts"], limit)
        koofu.lib.kf_encoder_free(encoder)
        koofu.lib.kf_ctx_free(koofu.ctx)
        weights, loaded, most = memory(library, folder, precision, no_text, paths[:8])
        check(f"{size} memory {precision}", loaded < 1.3 * weights and most < 1.3 * weights,
              f"weights {weights / 2**20:.0f} MiB, loading {loaded / weights:.2f} of that, "
              f"encoding {most / weights:.2f}")
    shutil.rmtree(folder)


def main():
    library, rest = sys.argv[2], sys.argv[3:]
    data = ROOT.parent / "shared" / "data"
    if rest and pathlib.Path(rest[0]).is_dir():
        data = pathlib.Path(rest.pop(0))
    if not (data / "images").is_dir() or not (data / "tokenizer" / FILE).is_file():
        print(f"left out: there are no photographs and no vocabulary in {data}")
        sys.exit(77)
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as base:
        for size in rest or ["b32", "l14", "siglip"]:
            run(size, library, data, pathlib.Path(base))
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
