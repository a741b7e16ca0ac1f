"""CLIP's image towers, and the products in them, beside PyTorch and the peaks of the machine."""

import json
import os
import struct

import numpy as np

from common import cpu_has
from floors import PYTORCH, SHAPES, TOWERS, peak, product
from side import Missing

LEAST_COSINE = {"f32": 0.999999, "bf16": 0.9999}
# The models of OpenAI: width, layers, heads, patch, embedding; and the number of pictures timed.
SIZES = {TOWERS[0]: (768, 12, 12, 32, 512, 64), TOWERS[1]: (1024, 24, 16, 14, 768, 8)}
QUICK = {"a small tower": (64, 2, 2, 32, 32, 4)}
PICTURE = 224


# --- models ---------------------------------------------------------------------------------------


def weights(width, layers, patch, out):
    """Names and shapes of an image tower, as transformers stores them."""
    tokens, tower = (PICTURE // patch) ** 2 + 1, "vision_model."
    yield tower + "embeddings.class_embedding", (width,)
    yield tower + "embeddings.patch_embedding.weight", (width, 3, patch, patch)
    yield tower + "embeddings.position_embedding.weight", (tokens, width)
    norms, linear = ["pre_layrnorm", "post_layernorm"], {}
    for i in range(layers):
        at = f"encoder.layers.{i}."
        norms += [at + "layer_norm1", at + "layer_norm2"]
        linear.update({f"{at}self_attn.{name}_proj": (width, width) for name in "kvq"})
        linear.update({at + "self_attn.out_proj": (width, width), at + "mlp.fc1": (4 * width, width),
                       at + "mlp.fc2": (width, 4 * width)})
    for name in norms:
        yield f"{tower}{name}.weight", (width,)
        yield f"{tower}{name}.bias", (width,)
    for name, shape in linear.items():
        yield f"{tower}{name}.weight", shape
        yield f"{tower}{name}.bias", shape[:1]
    yield "visual_projection.weight", (out, width)


def make_model(folder, width, layers, heads, patch, out):
    """A model folder with random weights in the original shapes."""
    os.makedirs(folder, exist_ok=True)
    vision = {"hidden_size": width, "intermediate_size": 4 * width, "num_hidden_layers": layers,
              "num_attention_heads": heads, "patch_size": patch, "image_size": PICTURE, "projection_dim": out,
              "hidden_act": "quick_gelu", "layer_norm_eps": 1e-5, "model_type": "clip_vision_model"}
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump({"architectures": ["CLIPVisionModelWithProjection"], **vision}, f)
    header, at, shapes = {}, 0, dict(weights(width, layers, patch, out))
    for name, shape in shapes.items():
        size = 4 * int(np.prod(shape))
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": (at, at + size)}
        at += size
    text = json.dumps({"__metadata__": {"format": "pt"}, **header}).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.default_rng(1)
    with open(os.path.join(folder, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, shape in shapes.items():
            scale = 0.02 if len(shape) > 1 or name.endswith("bias") else 0.1
            values = scale * random.standard_normal(shape, dtype="f4")
            f.write((values + 1 if "norm" in name and name.endswith("weight") else values).tobytes())


def operations(width, layers, patch, out):
    """Operations per picture, with the last layer computed for every token."""
    tokens = (PICTURE // patch) ** 2 + 1
    products = (tokens - 1) * 3 * patch * patch * width + width * out
    return 2 * (products + layers * tokens * (12 * width * width + 2 * tokens * width))


# --- rows -----------------------------------------------------------------------------------------


def peak_kind(isa, precision):
    """The arithmetic available for products."""
    native = isa == "amx" or isa == "avx512" and cpu_has("avx512_bf16")
    return "bf16" if precision == "bf16" and native else "f32"


def peak_turn(ceilings, isa, precision):
    """A turn with the fastest arithmetic: some CPUs multiply bf16 more slowly than f32."""
    asks = {f"{peak_kind(isa, precision)} {isa}", f"f32 {isa}"} - {"f32 amx"} or {"f32 avx512"}
    return lambda: min(ceilings.ask(ask) for ask in sorted(asks))


def towers(b):
    for name, (*shape, pictures) in b.size(SIZES, QUICK).items():
        width, layers, _, patch, out = shape
        folder = b.path("tower")
        make_model(folder, *shape)
        pixels = np.random.default_rng(1).standard_normal((pictures, 3, PICTURE, PICTURE), dtype="f4")
        np.save(b.path("pixels.npy"), pixels)
        for precision in b.o.precision:
            compare_towers(b, f"{name}, {precision}", precision, folder,
                           1e-9 * pictures * operations(width, layers, patch, out))


def compare_towers(b, what, precision, folder, billions):
    request = {"folder": folder, "precision": precision, "pixels": b.path("pixels.npy"), "library": b.library}
    sides, ceilings = {}, b.c_side("ceilings", b.o.threads)
    for isa in b.isas:
        sides[isa] = b.python_side("sides_encoder.py", kind="koofu", isa=isa, out=b.path(f"{isa}.npy"), **request).ask
        sides[isa, "peak"] = peak_turn(ceilings, isa, precision)
    torch = b.peer(lambda: torch_side(b, request), PYTORCH)
    if torch:
        sides[PYTORCH] = torch.ask
    times = b.turns(sides)
    b.stop_sides()
    for isa in b.isas:
        if torch:
            check(b, what, isa, precision)
        b.compare("encoder", what, isa, times[isa], PYTORCH, times.get(PYTORCH))
        b.table.compare("encoder", what, isa, times[isa], peak(peak_kind(isa, precision)), times[isa, "peak"] * billions)


def torch_side(b, request):
    if not b.o.torch:
        raise Missing("no PyTorch; tools/oracle_python.sh installs it")
    return b.python_side("sides_encoder.py", python=b.o.torch, kind="torch", out=b.path("torch.npy"), **request)


def check(b, what, isa, precision):
    """Compares the embeddings with PyTorch's in f32."""
    x, y = (np.load(b.path(f"{name}.npy")).astype("f8") for name in (isa, "torch"))
    least = (np.sum(x * y, axis=1) / np.linalg.norm(x, axis=1) / np.linalg.norm(y, axis=1)).min()
    if least < LEAST_COSINE[precision]:
        b.table.fail(f"encoder: {what} ({isa}): a cosine of {least:.7f} to PyTorch in f32")


def kernels(b):
    """Only products, without attention and norms."""
    shapes = b.size(SHAPES, ((50, 64, 64),))
    ours, ceilings = b.c_side("kernels", b.o.threads), b.c_side("ceilings", b.o.threads)
    for isa in b.isas:
        for precision in ("f32", "bf16"):
            sides = {shape: lambda ask=" ".join(map(str, (isa, precision, *shape))): ours.ask(ask) for shape in shapes}
            sides["peak"] = peak_turn(ceilings, isa, precision)
            times = b.turns(sides)
            for shape in shapes:
                b.table.compare("kernels", product(shape, precision), isa, times[shape], peak(peak_kind(isa, precision)),
                                times["peak"] * (2e-9 * np.prod(shape, dtype=float)))
