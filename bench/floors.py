"""All floors of `make bench`. A floor is for two threads and the instruction sets it names ("all": any). Ratios of
speed must reach it; costs must not exceed it.
"""

from collections import namedtuple

from table import COST, FASTER

Floor = namedtuple("Floor", "group what against sense bounds")

# The peers and ceilings.
LDA = "scikit-learn LDA"
GRID = "GridSearchCV, 13 λ × 5 folds"
GRID_JOBS = "the same, a fold for each thread"
GIVEN = "fit, λ given"
UNEQUAL = "fit, default, 30 to 100 rows a class"
STATISTICS = "statistics"
COLD = "statistics, 768 f16, cold file"
COLD_OR_WARM = "warm file, or reading alone"
ENGINE = "search of as many rows"
FAISS = "FAISS flat"
FAISS_AS_IT_COMES = "FAISS flat, as it comes"
LAPACK = "LAPACK dsyevd"
PYTORCH = "PyTorch"
READING = "reading the 8-bit rows once"


def peak(kind):
    return f"{kind} peak"


def limit(text):
    return f"limit: {text}"


def growth(dim):
    return f"D = {dim}, times the cube"


SEARCHED = (768, 256, 128, 64, 32)
# Gaussian rows have no structure, so all must be multiplied, and the peak of 8-bit products is about five times FAISS
# (see the rows "the peak itself"): with AVX-512 the floor is 70 % of that. Clustered rows, such as embeddings, have
# leading directions from d = 129 on. AVX2 multiplies 8-bit numbers at a quarter of the rate.
SEARCH = {
    "gaussian": {"avx512": dict.fromkeys(SEARCHED, 3.5), "amx": dict.fromkeys(SEARCHED, 10),
                 "avx2": {768: 1, 128: 2, 64: 2, 32: 2}},
    "synth": {"avx512": {**dict.fromkeys(SEARCHED, 4.5), 768: 6}, "amx": {}, "avx2": {}},
}
SMALL = "search of 4,000 rows, d = 512"
TOWERS = ("ViT-B/32", "ViT-L/14")
SHAPES = ((400, 768, 3072), (400, 3072, 768), (514, 1024, 4096))


def searched(dim, data="gaussian"):
    return f"search, d = {dim}" if data == "gaussian" else f"search in clusters, d = {dim}"


def product(shape, precision):
    return "{} × {} × {}, ".format(*shape) + precision


FLOORS = [
    Floor("stats", "statistics, 768 f16", limit("300,000 rows/s"), COST, {"amx": 1}),
    # Reading overlaps with computing, so the longer of the two should be nearly all.
    Floor("stats", COLD, COLD_OR_WARM, COST, {"all": 1.25}),
    Floor("fit", "fit, λ given", LDA, FASTER, {"avx512": 15, "amx": 25}),
    Floor("fit", "fit, default", GIVEN, COST, {"all": 2.5}),
    Floor("fit", "fit, default", LDA, FASTER, {"avx2": 5, "avx512": 10, "amx": 10}),
    Floor("fit", UNEQUAL, LDA, FASTER, {"avx2": 5, "avx512": 10, "amx": 10}),
    Floor("fit", "fit, default", GRID, FASTER, {"all": 300}),
    Floor("fit", "fit, default", GRID_JOBS, FASTER, {"avx512": 250, "amx": 150}),
    Floor("solver", "fit of statistics, D = 768", limit("0.12 s"), COST, {"avx2": 1.25, "avx512": 1, "amx": 1}),
    Floor("solver", "fit of statistics, D = 1024", growth(768), COST, {"all": 1.25}),
    Floor("solver", "fit of statistics, D = 2048", growth(768), COST, {"all": 1.25}),
    Floor("choosing", "choosing λ, default", STATISTICS, COST, {"all": 0.5}),
    Floor("choosing", "choosing λ, --method paper", STATISTICS, COST, {"all": 0.5}),
    Floor("classes", "fit, default", limit("10 s"), COST, {"all": 1}),
    Floor("classes", "fit --method paper", limit("10 s"), COST, {"all": 1}),
    Floor("classes", "fit --dim auto", limit("30 s"), COST, {"all": 1}),
    Floor("classes", "fit --method paper --dim auto", limit("30 s"), COST, {"all": 1}),
    # Includes mapping the rows and reading the model; eval searches two spaces.
    Floor("classes", "classify", ENGINE, COST, {"all": 1.75}),
    Floor("classes", "eval", ENGINE, COST, {"all": 2.75}),
    Floor("latency", "1 query", READING, COST, {"all": 1.5}),
]
for data, floors in SEARCH.items():
    for dim in SEARCHED:
        bounds = {isa: of[dim] for isa, of in floors.items() if dim in of}
        FLOORS.append(Floor("search", searched(dim, data), FAISS, FASTER, bounds))
for dim in SEARCHED:
    FLOORS.append(Floor("search", searched(dim), FAISS_AS_IT_COMES, FASTER, {"avx512": 3.5}))
    if dim >= 256:
        FLOORS.append(Floor("search", searched(dim), peak("int8"), FASTER, {"amx": 0.33}))
for tower in TOWERS:
    for precision in ("f32", "bf16"):
        FLOORS.append(Floor("encoder", f"{tower}, {precision}", PYTORCH, FASTER, {"avx512": 1, "amx": 1}))
    FLOORS.append(Floor("encoder", f"{tower}, bf16", peak("bf16"), FASTER, {"amx": 0.45}))
for shape in SHAPES:
    for precision in ("f32", "bf16"):
        FLOORS.append(Floor("kernels", product(shape, precision), peak("f32"), FASTER, {"avx2": 0.85}))
