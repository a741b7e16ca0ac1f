#!/usr/bin/env python3
"""Pictures against the reference: Pillow decodes, and transformers' Pillow image processors preprocess.

    images.py KOOFU LIBKOOFU

Every picture goes through the reference (exif_transpose, convert("RGB"), then the image processor) and
through koofu's preprocess_tool, which the tests build beside the program. Decoded bytes and preprocessed
values are compared: values may differ by 1/255 before normalisation and must be equal in 99.9 %; what
differs at all is listed. Exit 77: the reference is not installed.
"""

import pathlib
import struct
import subprocess
import sys
import tempfile
import warnings

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "golden"))
try:
    import numpy as np
    from PIL import Image
    from make_images import jpegs, pngs, reference_rgb, shapes, webps
    from transformers.models.clip.image_processing_pil_clip import CLIPImageProcessorPil
    from transformers.models.siglip.image_processing_pil_siglip import SiglipImageProcessorPil
except ImportError as error:
    print(f"skipped: {error}")
    sys.exit(77)

warnings.simplefilter("ignore")
PHOTOGRAPHS = ROOT.parent / "shared" / "data" / "images"
SHAPES = ((1, 1), (1, 4000), (4000, 1), (2, 3), (224, 224), (225, 224), (224, 225), (223, 223), (447, 448),
          (448, 447), (336, 224), (224, 337), (5, 300), (301, 5), (1200, 1600), (1601, 1201), (7, 7), (100, 1000),
          (999, 223), (3, 224), (226, 3))


def make_pictures(folder):
    paths = sorted(PHOTOGRAPHS.glob("*.JPEG"))
    if not paths:
        print("the photographs are not at hand; made pictures only")
    for name, data in [*jpegs(), *pngs(), *webps(), *shapes(SHAPES)]:
        path = folder / name
        path.write_bytes(data)
        paths.append(path)
    return paths


# --- comparing ------------------------------------------------------------------------------------

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
    """Pictures that the reference refuses are refused, or have the same pixels."""
    names = {name: data for name, data in [*jpegs(), *pngs(), *webps()]}
    wrong = 0
    for name in "exif6-le.jpg", "rgb8-13x19.png", "exif3.webp":
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
