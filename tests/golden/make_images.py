#!/usr/bin/env python3
"""Makes the pictures of tests/test_image.c, and what Pillow (13) makes of them, in tests/golden/images/.

    python3 tests/golden/make_images.py

Needs numpy and Pillow, and transformers for preprocess.txt, which is left alone without it. The
makers of pictures also serve tests/oracle/images.py.

    expected.txt    NAME WIDTH HEIGHT HASH              of the RGB bytes, upright
    resize.txt      W H WIDTH HEIGHT FILTER HASH        of noise of W x H pixels, resized
    preprocess.txt  NAME SIZE CONFIG HASH               of the f32 values; CONFIG is JSON

HASH is FNV-1a of 64 bits.
"""

import io
import json
import pathlib
import struct
import warnings
import zlib

import numpy as np
from PIL import Image, ImageOps

warnings.simplefilter("ignore")
Image.MAX_IMAGE_PIXELS = None
FOLDER = pathlib.Path(__file__).resolve().parent / "images"


# --- pictures -------------------------------------------------------------------------------------

def scene(height, width, channels, seed=0):
    """Smooth shapes with some noise, as photographs have them."""
    rng = np.random.default_rng(seed)
    y, x = np.mgrid[0:height, 0:width].astype(float)
    layers = []
    for c in range(channels):
        a, b, p = rng.uniform(0.5, 9, 3)
        wave = np.sin(a * x / max(width, 9) * 6 + p) * np.cos(b * y / max(height, 9) * 6)
        layers.append(127 + 110 * wave + rng.normal(0, 12, (height, width)))
    return np.clip(np.stack(layers, -1), 0, 255).astype(np.uint8)


def exif(orientation, order="<"):
    mark = b"II*\0" if order == "<" else b"MM\0*"
    return (b"Exif\0\0" + mark + struct.pack(order + "IHHHIHHI", 8, 1, 274, 3, 1, orientation, 0, 0))


def chunk(tag, data):
    return struct.pack(">I", len(data)) + tag + data + struct.pack(">I", zlib.crc32(tag + data))


ADAM7 = [(0, 0, 8, 8), (4, 0, 8, 8), (0, 4, 4, 8), (2, 0, 4, 4), (0, 2, 2, 4), (1, 0, 2, 2), (0, 1, 1, 2)]


def png(samples, bits, colour, interlaced=False, before=b"", after=b""):
    """A PNG of any kind, of samples[height][width][channels]."""
    height, width, channels = samples.shape
    passes = ADAM7 if interlaced else [(0, 0, 1, 1)]
    raw = b""
    for x, y, dx, dy in passes:
        part = samples[y::dy, x::dx]
        if part.size == 0:
            continue
        for row in part.reshape(part.shape[0], -1):
            if bits == 16:
                data = row.astype(">u2").tobytes()
            elif bits == 8:
                data = row.astype(np.uint8).tobytes()
            else:
                shifts = np.arange(bits - 1, -1, -1)
                data = np.packbits((row[:, None] >> shifts & 1).astype(np.uint8).ravel()).tobytes()
            raw += b"\0" + data
    head = struct.pack(">IIBBBBB", width, height, bits, colour, 0, 0, int(interlaced))
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + before + chunk(b"IDAT", zlib.compress(raw))
            + after + chunk(b"IEND", b""))


def saved(array, mode, **options):
    out = io.BytesIO()
    Image.fromarray(array, mode).save(out, **options)
    return out.getvalue()


def jpegs(height=213, width=301):
    rgb = scene(height, width, 3)
    for quality in 10, 75, 95, 100:
        for sampling in 0, 1, 2:
            yield f"q{quality}-s{sampling}.jpg", saved(rgb, "RGB", format="JPEG", quality=quality, subsampling=sampling)
    yield "progressive.jpg", saved(rgb, "RGB", format="JPEG", progressive=True)
    yield "progressive-420.jpg", saved(rgb, "RGB", format="JPEG", progressive=True, subsampling=2, quality=40)
    yield "restart.jpg", saved(rgb, "RGB", format="JPEG", restart_marker_rows=1)
    yield "kept-rgb.jpg", saved(rgb, "RGB", format="JPEG", keep_rgb=True)
    yield "grey.jpg", saved(rgb[:, :, 0], "L", format="JPEG")
    yield "grey-progressive.jpg", saved(rgb[:, :, 0], "L", format="JPEG", progressive=True)
    cmyk = saved(scene(height // 2, width // 3, 4), "CMYK", format="JPEG", quality=90)
    yield "cmyk.jpg", cmyk
    at = cmyk.find(b"Adobe\0")
    if at > 0:  # the last byte of the segment says YCCK
        yield "ycck.jpg", cmyk[: at + 11] + b"\2" + cmyk[at + 12:]
        bare = at - 4
        yield "cmyk-no-adobe.jpg", cmyk[:bare] + cmyk[bare + 2 + struct.unpack(">H", cmyk[bare + 2: bare + 4])[0]:]
    for o in range(0, 10):
        for order, name in ("<", "le"), (">", "be"):
            yield f"exif{o}-{name}.jpg", saved(scene(height // 5, width // 5, 3, o), "RGB", format="JPEG", exif=exif(o, order))
    xmp = b'<x tiff:Orientation="6"/>'
    yield "xmp.jpg", saved(scene(height // 5, width // 5, 3), "RGB", format="JPEG", xmp=xmp)
    yield "xmp-and-exif.jpg", saved(scene(height // 5, width // 5, 3), "RGB", format="JPEG", xmp=xmp, exif=exif(3))


def pngs():
    for interlaced in False, True:
        i = "-i" if interlaced else ""
        for size in (1, 1), (3, 2), (13, 19):
            n = f"{i}-{size[0]}x{size[1]}.png"
            rng = np.random.default_rng(5)
            for bits in 1, 2, 4, 8, 16:
                yield f"grey{bits}{n}", png(rng.integers(0, 2**bits, (*size, 1)), bits, 0, interlaced)
            yield f"dark16{n}", png(rng.integers(0, 400, (*size, 1)), 16, 0, interlaced)
            for bits in 8, 16:
                yield f"rgb{bits}{n}", png(rng.integers(0, 2**bits, (*size, 3)), bits, 2, interlaced)
                yield f"la{bits}{n}", png(rng.integers(0, 2**bits, (*size, 2)), bits, 4, interlaced)
                yield f"rgba{bits}{n}", png(rng.integers(0, 2**bits, (*size, 4)), bits, 6, interlaced)
            for bits in 1, 2, 4, 8:
                colours = chunk(b"PLTE", rng.integers(0, 256, 3 * 2**bits).astype(np.uint8).tobytes())
                some = chunk(b"tRNS", rng.integers(0, 256, 2**bits).astype(np.uint8).tobytes())
                index = rng.integers(0, 2**bits, (*size, 1))
                yield f"palette{bits}{n}", png(index, bits, 3, interlaced, colours)
                yield f"palette-alpha{bits}{n}", png(index, bits, 3, interlaced, colours + some)
    grey = scene(30, 40, 1)
    yield "grey-trns.png", png(grey, 8, 0, before=chunk(b"tRNS", b"\0\x20"))
    yield "rgb-trns.png", png(scene(30, 40, 3), 8, 2, before=chunk(b"tRNS", b"\0\x20\0\x21\0\x22"))
    one = chunk(b"PLTE", bytes(range(60))) + chunk(b"tRNS", b"\xff\xff\0\xff")
    yield "palette-one.png", png(grey % 20, 8, 3, before=one)
    for o in range(1, 9):
        yield f"exif{o}.png", png(scene(20, 31, 3), 8, 2, before=chunk(b"eXIf", exif(o)[6:]))
        yield f"exif{o}-after.png", png(scene(20, 31, 3), 8, 2, after=chunk(b"eXIf", exif(o, ">")[6:]))
    xmp = b"XML:com.adobe.xmp\0\0\0\0\0<tiff:Orientation>8</tiff:Orientation>"
    yield "xmp.png", png(scene(20, 31, 3), 8, 2, before=chunk(b"iTXt", xmp))
    raw = b"Raw profile type exif\0\nexif\n      34\n" + exif(6).hex().encode() + b"\n"
    yield "raw-profile.png", png(scene(20, 31, 3), 8, 2, before=chunk(b"tEXt", raw))
    yield "gamma.png", png(scene(20, 31, 3), 8, 2, before=chunk(b"gAMA", struct.pack(">I", 100000)))
    yield "bad-icc.png", png(scene(20, 31, 3), 8, 2, before=chunk(b"iCCP", b"x\0\0abc"))


def webps(height=101, width=67):
    rgb, rgba = scene(height, width, 3), scene(height, width, 4)
    for quality in 5, 50, 80, 100:
        yield f"q{quality}.webp", saved(rgb, "RGB", format="WEBP", quality=quality)
        yield f"alpha-q{quality}.webp", saved(rgba, "RGBA", format="WEBP", quality=quality)
    yield "lossless.webp", saved(rgb, "RGB", format="WEBP", lossless=True)
    yield "lossless-alpha.webp", saved(rgba, "RGBA", format="WEBP", lossless=True, exact=True)
    for o in range(1, 9):
        yield f"exif{o}.webp", saved(rgb, "RGB", format="WEBP", exif=exif(o))
    yield "xmp.webp", saved(rgb, "RGB", format="WEBP", xmp=b'<x tiff:Orientation="5"/>')
    more = [Image.fromarray(scene(height, width, 4, k), "RGBA") for k in (1, 2)]
    for name, options in ("animated", {}), ("animated-lossless", {"lossless": True}):
        yield f"{name}.webp", saved(rgba, "RGBA", format="WEBP", save_all=True, append_images=more, **options)
    empty = rgba.copy()
    empty[:, :, 3] = 0
    empty[height // 3: height // 3 + 9, width // 4: width // 4 + 11, 3] = 255
    yield "animated-part.webp", saved(empty, "RGBA", format="WEBP", save_all=True, append_images=more)


def shapes(sizes):
    for height, width in sizes:
        yield f"shape-{height}x{width}.png", saved(scene(height, width, 3), "RGB", format="PNG")


# --- what the reference makes of them -------------------------------------------------------------

def reference_rgb(path):
    with Image.open(path) as image:
        return np.array(ImageOps.exif_transpose(image).convert("RGB"))


def fnv(data):
    value = 0xCBF29CE484222325
    for byte in data:
        value = (value ^ byte) * 0x100000001B3 % 2**64
    return f"{value:016x}"


def noise(height, width):
    """The upper bytes of SplitMix64 from state 1."""
    with np.errstate(over="ignore"):
        n = height * width * 3
        z = np.uint64(1) + np.arange(1, n + 1, dtype=np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(56)).astype(np.uint8).reshape(height, width, 3)


def resizes():
    sizes = [(1, 1, 5, 7), (1, 1, 1, 1), (2, 3, 3, 2), (40, 30, 20, 15), (40, 30, 21, 17), (30, 40, 31, 41),
             (9, 9, 64, 64), (64, 64, 9, 9), (50, 20, 50, 7), (20, 50, 7, 50), (20, 50, 33, 50), (1, 400, 8, 90),
             (400, 1, 90, 8), (33, 77, 30, 20), (77, 33, 20, 30), (30, 50, 24, 38), (30, 50, 24, 37),
             (10, 60, 24, 59), (10, 60, 24, 61), (100, 75, 32, 24), (7, 300, 1, 1), (300, 7, 1, 1)]
    for name, number in ("bicubic", 3), ("bilinear", 2), ("lanczos", 1):
        for w, h, width, height in sizes:
            out = Image.fromarray(noise(h, w)).resize((width, height), number)
            yield f"{w} {h} {width} {height} {name} {fnv(np.array(out).tobytes())}"


def preprocessed():
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil

    def clip(**more):
        return {"image_processor_type": "CLIPImageProcessor", **more}

    square = {"size": {"shortest_edge": 32}, "crop_size": {"height": 32, "width": 32}}
    configs = [
        clip(**square),
        {"feature_extractor_type": "CLIPFeatureExtractor", "size": 32, "crop_size": 32, "resample": 2},
        clip(size={"shortest_edge": 27}, crop_size={"height": 32, "width": 32}, resample=1),
        clip(size={"height": 40, "width": 36}, crop_size={"height": 32, "width": 32}, do_normalize=False),
        clip(do_resize=False, do_rescale=False, crop_size={"height": 32, "width": 32}),
        clip(do_resize=False, do_rescale=False, do_normalize=False, crop_size={"height": 32, "width": 32}),
        {"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32}},
        {"image_processor_type": "SiglipImageProcessor", "size": {"height": 32, "width": 32},
         "image_mean": [0.1, 0.2, 0.3], "image_std": [0.5, 0.25, 0.125], "rescale_factor": 0.01},
    ]
    for config in configs:
        kind = SiglipImageProcessorPil if "Siglip" in str(config) else CLIPImageProcessorPil
        options = {k: v for k, v in config.items() if not k.endswith("_type")}
        processor = kind(**options)
        for name in "q75-s2.jpg", "exif6-le.jpg", "shape-1x1.png", "shape-1x400.png", "shape-400x1.png", "shape-67x65.png":
            picture = Image.fromarray(reference_rgb(FOLDER / name))
            values = np.asarray(processor(picture)["pixel_values"][0], np.float32)
            yield f"{name} 32 {json.dumps(config, separators=(',', ':'))} {fnv(values.tobytes())}"


def main():
    FOLDER.mkdir(exist_ok=True)
    for old in FOLDER.iterdir():
        if old.suffix != ".txt":
            old.unlink()
    small = [(1, 1), (1, 400), (400, 1), (67, 65)]
    pictures = [*jpegs(45, 70), *pngs(), *webps(31, 27), *shapes(small)]
    lines = []
    for name, data in pictures:
        if "-3x2" in name:
            continue
        path = FOLDER / name
        path.write_bytes(data)
        rgb = reference_rgb(path)
        lines.append(f"{name} {rgb.shape[1]} {rgb.shape[0]} {fnv(rgb.tobytes())}\n")
    (FOLDER / "expected.txt").write_text("".join(lines))
    (FOLDER / "resize.txt").write_text("".join(line + "\n" for line in resizes()))
    try:
        (FOLDER / "preprocess.txt").write_text("".join([line + "\n" for line in preprocessed()]))
    except ImportError as error:
        print(f"preprocess.txt is left alone: {error}")


if __name__ == "__main__":
    main()
