#!/usr/bin/env python3
"""Pictures against the reference: Pillow decodes, and transformers' Pillow image processors preprocess.

    images.py KOOFU LIBKOOFU

Every picture goes through the reference (exif_transpose, convert("RGB"), then the image processor) and through koofu's preprocess_tool, which the tests build beside the program. Decoded bytes
and preprocessed values are compared: values may differ by 1/255 before normalisation and must be equal
in 99.9 %; what differs at all is listed. Exit 77: the reference is not installed.
"""

import io
import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings
import zlib

try:
    import numpy as np
    from PIL import Image, ImageOps
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

warnings.simplefilter("ignore")
ROOT = pathlib.Path(__file__).resolve().parents[2]
PHOTOGRAPHS = ROOT.parent / "shared" / "data" / "images"
Image.MAX_IMAGE_PIXELS = None


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


def jpegs():
    rgb = scene(213, 301, 3)
    for quality in 10, 75, 95, 100:
        for sampling in 0, 1, 2:
            yield f"q{quality}-s{sampling}.jpg", saved(rgb, "RGB", format="JPEG", quality=quality, subsampling=sampling)
    yield "progressive.jpg", saved(rgb, "RGB", format="JPEG", progressive=True)
    yield "progressive-420.jpg", saved(rgb, "RGB", format="JPEG", progressive=True, subsampling=2, quality=40)
    yield "restart.jpg", saved(rgb, "RGB", format="JPEG", restart_marker_rows=1)
    yield "kept-rgb.jpg", saved(rgb, "RGB", format="JPEG", keep_rgb=True)
    yield "grey.jpg", saved(rgb[:, :, 0], "L", format="JPEG")
    yield "grey-progressive.jpg", saved(rgb[:, :, 0], "L", format="JPEG", progressive=True)
    cmyk = saved(scene(120, 90, 4), "CMYK", format="JPEG", quality=90)
    yield "cmyk.jpg", cmyk
    at = cmyk.find(b"Adobe\0")
    if at > 0:  # the last byte of the segment says YCCK
        yield "ycck.jpg", cmyk[: at + 11] + b"\2" + cmyk[at + 12:]
        bare = at - 4
        yield "cmyk-no-adobe.jpg", cmyk[:bare] + cmyk[bare + 2 + struct.unpack(">H", cmyk[bare + 2: bare + 4])[0]:]
    for o in range(0, 10):
        for order, name in ("<", "le"), (">", "be"):
            yield f"exif{o}-{name}.jpg", saved(scene(40, 61, 3, o), "RGB", format="JPEG", exif=exif(o, order))
    xmp = b'<x tiff:Orientation="6"/>'
    yield "xmp.jpg", saved(scene(40, 61, 3), "RGB", format="JPEG", xmp=xmp)
    yield "xmp-and-exif.jpg", saved(scene(40, 61, 3), "RGB", format="JPEG", xmp=xmp, exif=exif(3))


def pngs():
    for interlaced in False, True:
        i = "-i" if interlaced else ""
        for size in (1, 1), (3, 2), (37, 53):
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


def webps():
    rgb, rgba = scene(101, 67, 3), scene(101, 67, 4)
    for quality in 5, 50, 80, 100:
        yield f"q{quality}.webp", saved(rgb, "RGB", format="WEBP", quality=quality)
        yield f"alpha-q{quality}.webp", saved(rgba, "RGBA", format="WEBP", quality=quality)
    yield "lossless.webp", saved(rgb, "RGB", format="WEBP", lossless=True)
    yield "lossless-alpha.webp", saved(rgba, "RGBA", format="WEBP", lossless=True, exact=True)
    for o in range(1, 9):
        yield f"exif{o}.webp", saved(rgb, "RGB", format="WEBP", exif=exif(o))
    yield "xmp.webp", saved(rgb, "RGB", format="WEBP", xmp=b'<x tiff:Orientation="5"/>')
    more = [Image.fromarray(scene(101, 67, 4, k), "RGBA") for k in (1, 2)]
    for name, options in ("animated", {}), ("animated-lossless", {"lossless": True}):
        yield f"{name}.webp", saved(rgba, "RGBA", format="WEBP", save_all=True, append_images=more, **options)
    empty = rgba.copy()
    empty[:, :, 3] = 0
    empty[30:61, 20:41, 3] = 255
    yield "animated-part.webp", saved(empty, "RGBA", format="WEBP", save_all=True, append_images=more)


def shapes():
    for height, width in ((1, 1), (1, 4000), (4000, 1), (2, 3), (224, 224), (225, 224), (224, 225), (223, 223),
                          (447, 448), (448, 447), (336, 224), (224, 337), (5, 300), (301, 5), (1200, 1600),
                          (1601, 1201), (7, 7), (100, 1000), (999, 223), (3, 224), (226, 3)):
        yield f"shape-{height}x{width}.png", saved(scene(height, width, 3), "RGB", format="PNG")


def make_pictures(folder):
    paths = sorted(PHOTOGRAPHS.glob("*.JPEG"))
    if not paths:
        print("the photographs are not at hand; made pictures only")
    for name, data in [*jpegs(), *pngs(), *webps(), *shapes()]:
        path = folder / name
        path.write_bytes(data)
        paths.append(path)
    return paths


# --- comparing ------------------------------------------------------------------------------------

def reference_rgb(path):
    with Image.open(path) as image:
        return np.array(ImageOps.exif_transpose(image).convert("RGB"))


def our_rgb(tool, path, out):
    done = subprocess.run([tool, "decode", out, path], capture_output=True, text=True)
    if done.returncode != 0:
        raise OSError(done.stderr.strip())
    data = out.read_bytes()
    width, height = struct.unpack("<2I", data[:8])
    return np.frombuffer(data, np.uint8, offset=8).reshape(height, width, 3)


def compare_decoding(tool, paths, folder):
    wrong, different = 0, []
    for path in paths:
        ours, theirs = our_rgb(tool, path, folder / "out"), reference_rgb(path)
        if ours.shape != theirs.shape:
            print(f"  {path.name}: {ours.shape}, the reference has {theirs.shape}")
            wrong += 1
        elif not np.array_equal(ours, theirs):
            gap = np.abs(ours.astype(int) - theirs)
            different.append(f"{path.name}: {np.mean(gap > 0):.4%} by at most {gap.max()}")
    print(f"decoding: {len(paths)} pictures, {len(different)} not the same to the bit")
    for line in different:
        print("  " + line)
    return wrong


def compare_pixels(tool, name, processor, size, paths, folder):
    config = folder / name
    processor.save_pretrained(config)
    out = folder / "pixels"
    subprocess.run([tool, "pixels", config, str(size), out, *paths], check=True)
    ours = np.fromfile(out, np.float32).reshape(len(paths), 3, size, size)
    std = np.array(processor.image_std).reshape(3, 1, 1)
    wrong = equal = values = 0
    largest = 0.0
    for path, mine in zip(paths, ours):
        # Not as a path: a colour that stands for 'transparent' would outlive convert("RGB") in the
        # picture's info, and the processor would paint it white, while it drops every other alpha.
        theirs = np.asarray(processor(Image.fromarray(reference_rgb(path)))["pixel_values"][0])
        same = np.mean(mine == theirs)
        gap = float(np.max(np.abs(mine.astype(float) - theirs) * std))
        equal, values, largest = equal + np.sum(mine == theirs), values + mine.size, max(gap, largest)
        if same < 0.999 or gap > 1.001 / 255:
            print(f"  {path.name}: equal in {same:.4%}, largest difference {gap * 255:.2f}/255")
            wrong += 1
    print(f"{name}: {len(paths)} pictures, equal in {equal / values:.4%}, largest difference {largest * 255:.2f}/255")
    return wrong


def compare_truncations(tool, folder):
    """What the reference refuses is refused; what is read all the same has the same pixels."""
    names = {name: data for name, data in [*jpegs(), *pngs(), *webps()]}
    wrong = 0
    for name in "exif6-le.jpg", "rgb8-37x53.png", "exif3.webp":
        data = names[name]
        path = folder / ("cut-" + name)
        for n in sorted({*range(0, len(data), max(1, len(data) // 40)), *range(len(data) - 24, len(data))}):
            path.write_bytes(data[:n])
            try:
                ours = our_rgb(tool, path, folder / "out")
            except OSError as error:
                wrong += str(path) not in str(error)
                continue
            try:
                wrong += not np.array_equal(ours, reference_rgb(path))
            except Exception:
                print(f"  {name} cut to {n} of {len(data)} bytes is read")
                wrong += 1
    return wrong


def main():
    tool = pathlib.Path(sys.argv[1]).resolve().parent / "tests" / "preprocess_tool"
    if not tool.exists():
        print(f"skipped: {tool} is not built")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        paths = make_pictures(folder)
        wrong = compare_decoding(tool, paths, folder)
        resamples = (("bicubic", 3), ("bilinear", 2), ("lanczos", 1))
        for word, resample in resamples:
            clip = CLIPImageProcessorPil(resample=resample)
            wrong += compare_pixels(tool, f"clip-{word}", clip, 224, paths, folder)
        large = CLIPImageProcessorPil(size={"shortest_edge": 336}, crop_size={"height": 336, "width": 336})
        wrong += compare_pixels(tool, "clip-336", large, 336, paths, folder)
        padded = CLIPImageProcessorPil(size={"shortest_edge": 199})
        wrong += compare_pixels(tool, "clip-padded", padded, 224, paths, folder)
        unsized = CLIPImageProcessorPil(do_resize=False, do_rescale=False)
        wrong += compare_pixels(tool, "clip-crop-only", unsized, 224, paths, folder)
        wrong += compare_pixels(tool, "siglip", SiglipImageProcessorPil(), 224, paths, folder)
        wrong += compare_truncations(tool, folder)
    print("failed" if wrong else "passed")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
