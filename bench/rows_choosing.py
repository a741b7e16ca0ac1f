"""The cost of choosing: beside statistics of many rows, and with many classes."""

import numpy as np

from floors import ENGINE, STATISTICS, limit
from rows_fit import FULL, TINY
from rows_search import koofu_side
from table import COST, Sample

SWEPT = (16, 32, 64, 76, 96, 128, 192, 256, 384, 512, 640, 768)
MANY, MANY_ROWS = 21841, 5  # ImageNet-21k; rows of each class
LEAST = 1e-3  # seconds: what is left of a difference that noise has made negative


def choosing(b):
    (classes, dim), per_class, tested = b.size(FULL, TINY), b.size(1281, 10), b.size(50, 1)
    data, test = b.world(classes, dim, per_class, "f16"), b.world(classes, dim, tested, "f16", split=1)
    stats, out = b.path("stats.safetensors"), b.path("out.safetensors")
    b.run("stats", data, "-o", stats)
    sweep = ("sweep", stats, "--test", test, "--lambdas", "0.3x", "--no-raw", "-o", b.path("out.txt"), "--dims")
    swept = [d for d in SWEPT if d <= dim]
    sides = {}
    for isa in b.isas:
        for name, words in (("stats", ("stats", data, "-o", out)), ("solve", ("fit", stats, "-o", out)),
                            ("default", ("fit", data, "-o", out)),
                            ("--method paper", ("fit", data, "--method", "paper", "-o", out)),
                            ("one", (*sweep, dim)), ("many", (*sweep, ",".join(map(str, swept))))):
            sides[isa, name] = b.command(isa, *words)
    times = b.turns(sides)
    for isa in b.isas:
        fixed = times[isa, "stats"] + times[isa, "solve"]
        for name in ("default", "--method paper"):
            alone = Sample([max(a - c, LEAST) for a, c in zip(times[isa, name].seconds, fixed.seconds)])
            b.table.compare("choosing", f"choosing λ, {name}", isa, alone, STATISTICS, times[isa, "stats"], COST)
        b.table.compare("choosing", f"sweep of {len(swept)} dimensions", isa, times[isa, "many"], "sweep of one",
                        times[isa, "one"], COST)


def many_classes(b):
    """Choices; and classifying, beside a search with as many queries and rows."""
    classes, dim = b.size(MANY, TINY[0]), b.size(FULL, TINY)[1]
    data, out, model = b.world(classes, dim, MANY_ROWS), b.path("out.safetensors"), b.path("model.safetensors")
    test = b.world(classes, dim, 1, split=1)
    b.run("fit", data, "--lambda", "0.3x", "-o", model)
    np.save(b.path("base.npy"), np.random.default_rng(1).standard_normal((classes, dim), dtype="f4"))
    np.save(b.path("queries.npy"), np.random.default_rng(2).standard_normal((classes, dim), dtype="f4"))
    fit = ("fit", data, "-o", out)
    commands = {"fit, λ given": (*fit, "--lambda", "0.3x"), "fit, default": fit, "fit --dim auto": (*fit, "--dim", "auto"),
                "fit --method paper": (*fit, "--method", "paper"),
                "fit --method paper --dim auto": (*fit, "--method", "paper", "--dim", "auto"),
                "classify": ("classify", model, test, "-o", b.path("out.txt")),
                "eval": ("eval", model, test, "--no-calibration")}
    engines = {isa: koofu_side(b, isa, k=5) for isa in b.isas}
    sides = {(isa, name): b.command(isa, *words) for isa in b.isas for name, words in commands.items()}
    sides.update({(isa, "engine"): lambda side=side: side.ask(f"{classes} 1") for isa, side in engines.items()})
    times = b.turns(sides)
    for isa in b.isas:
        for name in commands:
            if name in ("classify", "eval"):
                b.table.compare("classes", name, isa, times[isa, name], ENGINE, times[isa, "engine"], COST)
            elif name != "fit, λ given":
                b.table.compare("classes", name, isa, times[isa, name], "fit, λ given", times[isa, "fit, λ given"], COST)
                seconds = 30 if "--dim auto" in name else 10
                b.limit("classes", name, isa, times[isa, name], limit(f"{seconds} s"), seconds, COST)
