"""koofu's image tower, or that of transformers on PyTorch, in a process of its own (side.py).

usage: sides_encoder.py '{"kind": "koofu" | "torch", "folder": …, "precision": …, "threads": …, "pixels": …, "out": …, …}'

A line asks for all pictures, which are in memory; PyTorch has them in batches that suit it best. The embeddings go
to a file; PyTorch's are in f32 whatever the precision, since its own in bf16 are farther from these than koofu's.
"""

import ctypes as c
import json
import sys

import numpy as np

from side import clock, missing, serve

BATCHES = (8, 16, 32)  # of PyTorch; koofu divides its pictures itself


def koofu(o):
    from library import Koofu, load

    class Options(c.Structure):
        _fields_ = [("precision", c.c_int), ("images", c.c_int), ("text", c.c_int), ("max_pixels", c.c_uint64),
                    ("reserved", c.c_uint64 * 4)]

    lib = load(o["library"])
    lib.kf_encoder_load.argtypes = [c.c_void_p, c.c_char_p, c.c_void_p, c.c_void_p]
    lib.kf_encode_pixels.argtypes = [c.c_void_p, c.c_void_p, c.c_void_p, c.c_uint64, c.c_void_p]
    lib.kf_encoder_dim.argtypes = [c.c_void_p]
    context, encoder = Koofu(lib, o["threads"], o["isa"]), c.c_void_p()
    context.call("kf_encoder_load", o["folder"].encode(), c.byref(Options({"f32": 1, "bf16": 2}[o["precision"]], 0, 2)),
                 c.byref(encoder))

    def run(pixels, _):
        out = np.empty((len(pixels), lib.kf_encoder_dim(encoder)), "f4")
        context.call("kf_encode_pixels", encoder, pixels.ctypes.data, len(pixels), out.ctypes.data)
        return out

    return f"koofu {lib.kf_version().decode()}", run, run, (0,)


def torch(o):
    import torch
    import transformers

    transformers.utils.logging.disable_progress_bar()
    torch.set_num_threads(o["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[o["precision"]]
    model = transformers.CLIPVisionModelWithProjection.from_pretrained(o["folder"]).eval()

    def embed(pixels, batch, dtype):
        model.to(dtype)
        with torch.inference_mode():
            parts = [model(pixel_values=torch.from_numpy(pixels[i:i + batch]).to(dtype)).image_embeds.float()
                     for i in range(0, len(pixels), batch)]
        return torch.cat(parts).numpy()

    return (f"PyTorch {torch.__version__}, transformers {transformers.__version__}",
            lambda pixels, batch: embed(pixels, batch, dtype),
            lambda pixels, batch: embed(pixels, batch, torch.float32), BATCHES)


def main():
    o = json.loads(sys.argv[1])
    pixels = np.load(o["pixels"])
    try:
        version, run, reference, batches = {"koofu": koofu, "torch": torch}[o["kind"]](o)
    except ImportError as reason:
        missing(str(reason))
    np.save(o["out"], reference(pixels, batches[0]))
    run(pixels, batches[0])  # threads and memory are up
    batches = [n for n in batches if n <= len(pixels)] or batches[:1]
    batch = batches[0]
    if len(batches) > 1:
        batch = min(batches, key=lambda n: clock(lambda: run(pixels, n))[o["clock"]])
    serve(version, lambda _: clock(lambda: run(pixels, batch))[:2])


if __name__ == "__main__":
    main()
