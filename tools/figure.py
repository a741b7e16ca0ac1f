#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Draws docs/accuracy.svg: what the map does to real CLIP embeddings. Needs Python alone.

    tools/figure.py build/koofu FOLDER docs/accuracy.svg

FOLDER holds NAME_x.npy (rows) and NAME_y.npy (class numbers) of the sets named in SETS below. Every
number in the figure comes from running koofu on them; the same koofu and folder give the same bytes.
"""

import argparse
import json
import math
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

# name, training rows, test rows; the first is the one of the left panel
SETS = (
    ("ImageNet-1k", "imagenet1k_vitb32_4shot", "imagenet1k_vitb32_1plus2shot"),
    ("Describable Textures", "dtd_vitb32_val", "dtd_vitb32_test"),
    ("Oxford Pets", "oxford_pets_vitb32_16shot", "oxford_pets_vitb32_test"),
    ("Caltech-101", "caltech101_vitb32_16shot", "caltech101_vitb32_test"),
    ("Oxford Flowers", "oxford_flowers_vitb32_16shot", "oxford_flowers_vitb32_test"),
)
DIMS = (512, 448, 384, 320, 256, 224, 192, 160, 128, 112, 96, 80, 64, 56, 48, 40, 32, 28, 24, 20, 16)
TICKS = (512, 256, 128, 64, 32, 16)
BYTES = 4  # of an f32

# With its own background it is readable on light and on dark pages.
PAPER, EDGE, GRID, INK, FAINT = "#ffffff", "#d0d7de", "#e6e9ed", "#1f2328", "#59636e"
RAW, KOOFU = "#8a6100", "#0b5cad"


# --- measuring --------------------------------------------------------------------------------


def rows(folder, name):
    return [str(folder / f"{name}_x.npy"), "--labels", str(folder / f"{name}_y.npy")]


def measure(koofu, folder):
    """Figures of `koofu info` and `koofu eval` for every set, and for the first at all DIMS."""

    def run(*arguments):
        done = subprocess.run([koofu, *arguments], stdout=subprocess.PIPE)
        if done.returncode:
            sys.exit(f"figure.py: 'koofu {arguments[0]}' failed")
        return json.loads(done.stdout) if "--json" in arguments else None

    sets, curve = [], []
    with tempfile.TemporaryDirectory() as work:
        stats, model = f"{work}/s.safetensors", f"{work}/m.safetensors"
        for name, train, test in SETS:
            run("stats", "-q", *rows(folder, train), "-o", stats)
            about = run("info", "--json", stats)
            for dim in DIMS if not sets else (about["dim"],):
                run("fit", "-q", *rows(folder, train), "--dim", str(dim), "-o", model)
                result = run("eval", "--json", model, *rows(folder, test))
                if not sets:
                    curve.append(result)
                if dim == about["dim"]:
                    full = result
            per_class = about["rows"] / about["classes"]
            sets.append({"name": name, "classes": about["classes"], "per_class": per_class, **full})
    return sets, curve


# --- drawing ----------------------------------------------------------------------------------


class Picture:
    def __init__(self, width, height):
        self.width, self.height, self.parts = width, height, []

    def add(self, tag, text=None, **attributes):
        spelt = "".join(f' {k.replace("_", "-")}="{self.number(v)}"' for k, v in attributes.items())
        self.parts.append(f"<{tag}{spelt}/>" if text is None else f"<{tag}{spelt}>{text}</{tag}>")

    @staticmethod
    def number(value):
        return f"{value:.1f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)

    def line(self, x1, y1, x2, y2, stroke, **more):
        self.add("line", x1=x1, y1=y1, x2=x2, y2=y2, stroke=stroke, **more)

    def text(self, x, y, text, size=13, fill=INK, **more):
        self.add("text", escape(text, quote=False), x=x, y=y, font_size=size, fill=fill, **more)

    def dot(self, x, y, fill, r=4.5):
        self.add("circle", cx=x, cy=y, r=r, fill=fill, stroke=PAPER, stroke_width=1.5)

    def svg(self, title, description):
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {self.width} {self.height}" '
                f'width="{self.width}" height="{self.height}" role="img" aria-labelledby="t d" '
                'font-family="Helvetica, Arial, \'Liberation Sans\', sans-serif">',
                f'<title id="t">{escape(title)}</title>',
                f'<desc id="d">{escape(description)}</desc>',
                *self.parts,
                "</svg>\n",
            ]
        )


def percent(share):
    return f"{100 * share:.1f} %"


def smallest(curve, raw):
    """The point with the fewest dimensions that is no worse than the raw space."""
    return [r for r in curve if r["top1"] >= raw][-1]


def heading(picture, x, title, below):
    picture.text(x, 38, title, 17, font_weight="bold")
    picture.text(x, 59, below, 13, FAINT)


def draw_curve(picture, first, curve, left, right, top, bottom):
    """Top-1 against the dimensions kept, most on the left."""
    low, high = 0.25, 0.60

    def x(dim):
        return left + (right - left) * math.log(DIMS[0] / dim) / math.log(DIMS[0] / DIMS[-1])

    def y(share):
        return bottom - (bottom - top) * (share - low) / (high - low)

    for share in (0.3, 0.4, 0.5, 0.6):
        picture.line(left, y(share), right, y(share), GRID)
        picture.text(left - 12, y(share) + 4.5, f"{100 * share:.0f} %", 13, FAINT, text_anchor="end")
    picture.line(left, bottom, right, bottom, FAINT)
    for dim in TICKS:
        picture.line(x(dim), bottom, x(dim), bottom + 5, FAINT)
        picture.text(x(dim), bottom + 22, str(dim), 13, text_anchor="middle")
        picture.text(x(dim), bottom + 40, f"{dim * BYTES:,} B", 12, FAINT, text_anchor="middle")
    picture.text((left + right) / 2, bottom + 64, "dimensions kept, and bytes per embedding (f32)", 13, FAINT,
                 text_anchor="middle")

    # The raw space has all dimensions; its line spans the panel for comparison.
    raw = first["raw_top1"]
    picture.line(left, y(raw), right, y(raw), RAW, stroke_width=2, stroke_dasharray="7 4")
    picture.text(left + 8, y(raw) + 20, f"raw, {first['dim_in']} dimensions: {percent(raw)}", 13.5, RAW,
                 font_weight="bold")

    def points(key, results):
        return " ".join(f"{x(r['dim_out']):.1f},{y(r[key]):.1f}" for r in results)

    band = points("top1_high", curve) + " " + points("top1_low", curve[::-1])
    picture.add("polygon", points=band, fill=KOOFU, fill_opacity="0.13")
    picture.add("polyline", points=points("top1", curve), fill="none", stroke=KOOFU, stroke_width=2.5,
                stroke_linejoin="round")
    for r in curve:
        if r["dim_out"] in TICKS:
            picture.dot(x(r["dim_out"]), y(r["top1"]), KOOFU)

    full = curve[0]
    picture.text(left + 8, y(full["top1_low"]) + 16, f"Koo-Fu, {full['dim_out']} dimensions: {percent(full['top1'])}",
                 13.5, KOOFU, font_weight="bold")
    last = smallest(curve, raw)
    at = x(last["dim_out"]), y(last["top1"])
    smaller = first["dim_in"] / last["dim_out"]
    picture.dot(*at, KOOFU, 5.5)
    picture.line(at[0] + 5, at[1] - 6, at[0] + 18, at[1] - 24, KOOFU)
    picture.text(at[0] + 22, at[1] - 44, f"{last['dim_out']} dimensions:", 13.5, KOOFU, font_weight="bold")
    picture.text(at[0] + 22, at[1] - 27, f"{percent(last['top1'])}, {smaller:.0f}× smaller", 13.5, KOOFU)
    picture.text(left + 8, bottom - 14, "band: 95 % interval", 12, FAINT)


def draw_sets(picture, sets, start, left, right, end, top, bottom):
    """Raw and Koo-Fu side by side, a line for each set."""
    low, high = 0.4, 1.0

    def x(share):
        return left + (right - left) * (share - low) / (high - low)

    ticks = (0.4, 0.6, 0.8, 1.0)
    for share in ticks:
        picture.line(x(share), bottom, x(share), bottom + 5, FAINT)
        picture.text(x(share), bottom + 22, f"{100 * share:.0f} %", 13, FAINT, text_anchor="middle")
    picture.line(left, bottom, right, bottom, FAINT)
    picture.text((left + right) / 2, bottom + 44, "top-1 accuracy", 13, FAINT, text_anchor="middle")

    step = (bottom - top) / len(sets)
    for i, s in enumerate(sets):
        y = top + step * i
        picture.text(start, y + 14, s["name"], 13.5, font_weight="bold")
        size = f"{s['classes']:,} classes, {s['per_class']:.0f} training rows each"
        picture.text(end, y + 14, size, 12, FAINT, text_anchor="end")
        y += 36
        for share in ticks:
            picture.line(x(share), y - 13, x(share), y + 13, GRID)
        raw, ours = percent(s["raw_top1"]), percent(s["top1"])
        if i == 0:
            raw, ours = f"raw {raw}", f"Koo-Fu {ours}"
        picture.line(x(s["raw_top1"]), y, x(s["top1"]), y, KOOFU, stroke_width=3, stroke_opacity="0.4")
        picture.dot(x(s["raw_top1"]), y, RAW, 6)
        picture.dot(x(s["top1"]), y, KOOFU, 6)
        picture.text(x(s["raw_top1"]) - 10, y + 4.5, raw, 13, RAW, text_anchor="end")
        picture.text(x(s["top1"]) + 10, y + 4.5, ours, 13, KOOFU)


def draw(sets, curve):
    first = sets[0]
    picture = Picture(1080, 450)
    picture.add("rect", x=0.5, y=0.5, width=picture.width - 1, height=picture.height - 1, rx=10, fill=PAPER,
                stroke=EDGE)
    fewest = smallest(curve, first["raw_top1"])["dim_out"]
    better = sum(s["top1"] > s["raw_top1"] for s in sets)
    heading(picture, 28, f"Higher than raw down to {fewest} of {first['dim_in']} dimensions",
            f"{first['name']}: nearest-prototype top-1 accuracy, {first['n']:,} test rows")
    draw_curve(picture, first, curve, 80, 560, 86, 370)
    heading(picture, 632, f"Higher than raw on {better} of {len(sets)} data sets",
            f"all {first['dim_in']} dimensions; CLIP ViT-B/32, λ chosen from the training rows")
    draw_sets(picture, sorted(sets, key=lambda s: s["raw_top1"]), 632, 684, 1004, 1052, 86, 370)
    gains = "; ".join(f"{s['name']} {percent(s['raw_top1'])} to {percent(s['top1'])}" for s in sets)
    cuts = ", ".join(f"{r['dim_out']}: {percent(r['top1'])}" for r in curve if r["dim_out"] in TICKS)
    return picture.svg("Top-1 accuracy of CLIP embeddings, raw and in the Koo-Fu space",
                       f"Raw to Koo-Fu: {gains}. {first['name']} by dimensions kept: {cuts}.")


def main():
    parser = argparse.ArgumentParser(description="Draws the figure of the README from real embeddings.")
    parser.add_argument("koofu", help="the program, build/koofu")
    parser.add_argument("folder", type=Path, help="the folder with NAME_x.npy and NAME_y.npy")
    parser.add_argument("output", type=Path, help="the SVG to write, docs/accuracy.svg")
    a = parser.parse_args()
    a.output.write_text(draw(*measure(a.koofu, a.folder)), encoding="utf-8")


if __name__ == "__main__":
    main()
