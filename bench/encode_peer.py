"""One side of the benchmark of towers, in a process of its own: koofu, or transformers on PyTorch.

usage: encode_peer.py '{"kind": "koofu" | "torch", "folder": …, "precision": …, "threads": …, …}'

Answers each line on its input, a size of a batch, with the seconds that all pictures took, and leaves its last
embeddings in a file. The first run, which warms up, is not asked for.
"""

import ctypes as c
import json
import sys
import time

import numpy as np


def koofu(o):
    from library import Koofu, load  # noqa: PLC0415 (the other side has no need of it)

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

    return run


def torch(o):
    import torch  # noqa: PLC0415
    from transformers import CLIPVisionModelWithProjection  # noqa: PLC0415

    torch.set_num_threads(o["threads"])
    dtype = {"f32": torch.float32, "bf16": torch.bfloat16}[o["precision"]]
    model = CLIPVisionModelWithProjection.from_pretrained(o["folder"]).eval().to(dtype)

    def run(pixels, batch):
        with torch.inference_mode():
            parts = [model(pixel_values=torch.from_numpy(pixels[i:i + batch]).to(dtype)).image_embeds.float()
                     for i in range(0, len(pixels), batch)]
        return torch.cat(parts).numpy()

    return run


def main():
    o = json.loads(sys.argv[1])
    pixels = np.load(o["pixels"])
    run = {"koofu": koofu, "torch": torch}[o["kind"]](o)
    np.save(o["out"], run(pixels, 8))
    print("ready", flush=True)
    for line in sys.stdin:
        begun = time.perf_counter()
        run(pixels, int(line))
        print(time.perf_counter() - begun, flush=True)


if __name__ == "__main__":
    main()
