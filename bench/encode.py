"""Pictures a second through CLIP's image towers: koofu against transformers on PyTorch, in one run.

usage: encode.py --library libkoofu.so --koofu koofu [--sizes b32,l14] [--threads 2] [--repeat 5] [--isa auto,avx2]
                 [--batches 1,8,32] [--images FOLDER] [--amx-peak BINARY]

Models have random weights at true size. All sides sit in processes of their own, hold their weights in memory and take
turns; PyTorch has the batch that suits it best. With a folder of pictures `koofu embed` is timed as well, from files to
file, with the memory it takes. Fails where koofu with the best instruction set is slower than PyTorch, takes 1.3 times the
memory of its weights, or has other embeddings.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

import numpy as np

from common import cpu, cpu_has, tool

HERE = os.path.dirname(os.path.abspath(__file__))
LEAST_COSINE = {"f32": 0.999999, "bf16": 0.9999}
failures = []

# What OpenAI published: width, layers, heads, patch, embedding, and how many pictures are timed.
SIZES = {
    "b32": ("ViT-B/32", 768, 12, 12, 32, 512, 64),
    "b16": ("ViT-B/16", 768, 12, 12, 16, 512, 32),
    "l14": ("ViT-L/14", 1024, 24, 16, 14, 768, 16),
}


def make_model(size, folder):
    """An image tower with random weights, and how many operations a picture takes."""
    import torch  # noqa: PLC0415 (slow to load, and not needed to say what is wrong with the options)
    from transformers import CLIPVisionConfig, CLIPVisionModelWithProjection  # noqa: PLC0415

    _, width, layers, heads, patch, out, _ = SIZES[size]
    torch.manual_seed(1)
    config = CLIPVisionConfig(hidden_size=width, intermediate_size=4 * width, num_hidden_layers=layers,
                              num_attention_heads=heads, patch_size=patch, projection_dim=out)
    model = CLIPVisionModelWithProjection(config).eval()
    model.save_pretrained(folder)
    tokens = (224 // patch) ** 2 + 1
    products = (tokens - 1) * 3 * patch * patch * width + width * out
    products += layers * tokens * (12 * width * width + 2 * tokens * width)
    return 2 * products


# Runs a command and prints the most memory it had, in KiB. This process is too large to be its parent: a child begins
# with the memory of the one it was forked from.
MEASURE = """
import os, subprocess, sys
_, status, used = os.wait4(subprocess.Popen(sys.argv[1:]).pid, 0)
print(used.ru_maxrss)
sys.exit(status != 0)
"""


class Side:
    def __init__(self, name, **options):
        self.name, self.seconds, self.out = name, {}, options["out"]
        self.process = subprocess.Popen([sys.executable, os.path.join(HERE, "encode_peer.py"), json.dumps(options)],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE, universal_newlines=True)
        if self.process.stdout.readline() != "ready\n":
            raise SystemExit(f"encode: {name} does not start")

    def run(self, batch):
        print(batch, file=self.process.stdin, flush=True)
        self.seconds.setdefault(batch, []).append(float(self.process.stdout.readline()))

    def stop(self):
        self.process.stdin.close()
        self.process.wait()

    def best(self):
        return min(self.seconds.items(), key=lambda item: statistics.median(item[1]))


def least_cosine(a, b):
    a, b = (np.load(side.out).astype("f8") for side in (a, b))
    return (np.sum(a * b, axis=1) / np.linalg.norm(a, axis=1) / np.linalg.norm(b, axis=1)).min()


def towers(o, work, size, folder, operations, peak):
    name, n = SIZES[size][0], SIZES[size][-1]
    pixels = os.path.join(work, "pixels.npy")
    np.save(pixels, np.random.default_rng(1).standard_normal((n, 3, 224, 224), dtype="f4"))
    print(f"### {name}, {n} pictures of 224 x 224, {operations / 1e9:.1f} billion operations each\n\n"
          "| precision | side | pictures/s | runs | GFLOP/s | against PyTorch | least cosine to PyTorch in f32 |\n"
          "| --- | --- | --- | --- | --- | --- | --- |")
    reference = None
    for precision in o.precisions:
        shared = {"folder": folder, "precision": precision, "threads": o.threads, "pixels": pixels,
                  "library": o.library}
        sides = [Side("PyTorch", kind="torch", out=os.path.join(work, f"torch-{precision}.npy"), **shared)]
        sides += [Side(f"koofu {isa}", kind="koofu", isa=isa, out=os.path.join(work, f"{isa}-{precision}.npy"), **shared)
                  for isa in o.isas]
        for _ in range(o.repeat):
            for batch in o.batches:
                sides[0].run(batch)
            for side in sides[1:]:
                side.run(0)
        reference = reference or sides[0]
        base = statistics.median(sides[0].best()[1])
        for side in sides:
            batch, seconds = side.best()
            median = statistics.median(seconds)
            rate = operations * n / median / 1e9
            share = f" ({100 * rate / peak:.0f} % of AMX)" if peak and side.name == "koofu amx" and precision == "bf16" else ""
            what = f"{side.name}, batches of {batch}" if batch else side.name
            nearness = least_cosine(side, reference)
            if side is not sides[0] and nearness < LEAST_COSINE[precision]:
                failures.append(f"{name}, {precision}, {side.name}: a cosine of {nearness:.7f} to PyTorch")
            if side is sides[1] and median > base:
                failures.append(f"{name}, {precision}, {side.name}: slower than PyTorch")
            print(f"| {precision} | {what} | {n / median:.2f} | {n / max(seconds):.2f} – {n / min(seconds):.2f} | "
                  f"{rate:.0f}{share} | {base / median:.2f} | {nearness:.7f} |", flush=True)
            side.stop()
    print()


def embed(o, work, size, folder):
    """From files to file: pictures a second with decoding, and the most memory."""
    for precision in o.precisions:
        out = os.path.join(work, "embeddings.safetensors")
        begun = time.perf_counter()
        run = subprocess.run([sys.executable, "-c", MEASURE, o.koofu, "embed", folder, o.images, "-o", out, "--precision",
                              precision, "--threads", str(o.threads), "-q", "--no-resume"], stdout=subprocess.PIPE,
                             universal_newlines=True)
        spent = time.perf_counter() - begun
        if run.returncode != 0:
            raise SystemExit("encode: koofu embed failed")
        most = int(run.stdout) * 1024
        weights = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if f.endswith(".safetensors"))
        weights //= 2 if precision == "bf16" else 1
        if most > 1.3 * weights:
            failures.append(f"{SIZES[size][0]}, {precision}: koofu embed takes {most / weights:.2f} times the weights")
        print(f"koofu embed, {SIZES[size][0]}, {precision}: {spent:.2f} s with loading, {most / 2 ** 20:.0f} MiB at "
              f"most, {most / weights:.2f} times the weights in {precision}")
        os.remove(out)
    print()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", required=True)
    parser.add_argument("--koofu", required=True)
    parser.add_argument("--sizes", default="b32,l14")
    parser.add_argument("--precisions", default="f32,bf16")
    parser.add_argument("--isa", default="")
    parser.add_argument("--batches", default="1,8,32")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--images")
    parser.add_argument("--amx-peak")
    o = parser.parse_args()
    o.precisions = o.precisions.split(",")
    o.batches = [int(b) for b in o.batches.split(",")]
    o.isas = o.isa.split(",") if o.isa else ["amx" if cpu_has("amx_bf16") else "avx512" if cpu_has("avx512_vnni") else "avx2"]
    with tempfile.TemporaryDirectory() as work:
        print(f"{cpu()}, {o.threads} threads\n")
        peak = None
        binary = cpu_has("amx_bf16") and tool(o.amx_peak, work, "amx_peak", "-O2", "-mamx-tile", "-mamx-int8", "-mamx-bf16")
        if binary:
            run = subprocess.run([binary, str(o.threads)], check=True, stdout=subprocess.PIPE, universal_newlines=True)
            peak = next(float(line.split()[2]) for line in run.stdout.splitlines() if line.startswith("bf16"))
            print(f"AMX, bf16, operands in registers: {peak:,.0f} GFLOP/s\n")
        for size in o.sizes.split(","):
            folder = os.path.join(work, size)
            operations = make_model(size, folder)
            towers(o, work, size, folder, operations, peak)
            if o.images:
                embed(o, work, size, folder)
    for failure in failures:
        print(f"FAILED: {failure}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
