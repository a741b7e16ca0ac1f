"""Tables of the paper from what koofu measured; imagenet.sh calls this.

usage: tables.py classes [--all] STATISTICS          names of the classes that have rows, one per line
       tables.py dims D [quick]                      the dimensions of the tables, for rows of D
       tables.py table FOLDER TABLE [--beside-paper] FOLDER/TABLE.md and .csv from FOLDER/work
       tables.py summary FOLDER                      FOLDER/tables.md from the tables that are there

A table is a list of rows and a list of columns, and each cell has a name (row, column) by which
paper.csv has the paper's figure for it. Nothing is computed here but shares of hits and ratios of times.
"""

import csv
import json
import os
import re
import struct
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
PAPER_DIMS = (768, 640, 512, 384, 256, 192, 128, 96, 76, 64, 32)
PAPER_ROWS, PAPER_VAL, PAPER_21K, PAPER_14K = 1281167, 50000, 19168, 14271
TRUTHS = {"clean": "Clean", "val": "Val.", "real": "ReaL"}
TEXTS = {"synset": "synset", "synset7": "synset₇", "mod7": "mod₇"}
SPACES = {"raw": "(--)", "1K": "(1K)", "21K": "(21K)"}


# --- statistics files ------------------------------------------------------------------------------


def header(file):
    size = struct.unpack("<Q", file.read(8))[0]
    return json.loads(file.read(size)), 8 + size


def print_classes(path, every):
    """Class names of a statistics file, in the order of their numbers."""
    with open(path, "rb") as file:
        tensors, start = header(file)
        names = json.loads(tensors["__metadata__"].get("classes", "[]"))
        if not names:
            sys.exit(f"{path}: the classes have numbers only; give their names (--classes-1k, --classes-21k)")
        begin, end = tensors["counts"]["data_offsets"]
        file.seek(start + begin)
        counts = struct.unpack(f"<{(end - begin) // 8}q", file.read(end - begin))
    for name, count in zip(names, counts):
        if count or every:
            print(name)


def share(papers, dim):
    return max(1, round(papers * dim / 768))


def dims_for(dim, quick):
    """The paper's dimensions, or as large shares of another number."""
    dims = [share(d, dim) for d in PAPER_DIMS]
    dims = [dims[0], dims[4], dims[9]] if quick else dims
    return sorted(set(dims), reverse=True)


# --- measurements ----------------------------------------------------------------------------------


class Work:
    """The folder with what koofu printed."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "work")
        with open(self.path("settings.txt"), encoding="utf-8") as file:
            self.settings = dict(line.rstrip("\n").split("\t", 1) for line in file)
        self.truths = [t for t in TRUTHS if t in self.settings["truths"].split()]
        self.spaces = self.settings["spaces"].split()
        self.sets = self.settings["sets"].split()
        self.texts = [t for t in TEXTS if t in self.settings.get("texts", "").split()]
        self.n = {}  # rows that were scored, by truth

    def path(self, name):
        return os.path.join(self.folder, name)

    def has(self, name):
        return os.path.exists(self.path(name))

    def json(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return json.load(file)

    def header(self, name):
        with open(self.path(name), "rb") as file:
            return header(file)[0]

    def lines(self, name):
        with open(self.path(name), encoding="utf-8") as file:
            return file.read().split()

    def dims(self):
        return sorted({int(d) for d in self.lines("dims.txt")[0].split(",")}, reverse=True)

    def size(self):
        """The number of training rows and their dimensions."""
        meta = self.header("1k.safetensors")["__metadata__"]
        return int(meta["rows"]), int(meta["dim"])

    def training(self):
        """What to call the two training sets, which need not be ImageNet's."""
        classes = self.lines("1k.txt")
        imagenet = len(classes) == 1000 and all(re.fullmatch(r"n\d{8}", name) for name in classes)
        return ("IN-1k", "IN-21k") if imagenet else ("the training rows", "the larger set")

    def papers_dims(self):
        """What the paper's dimensions are here: the same numbers, or as large shares of all."""
        dim = self.size()[1]
        return {str(share(d, dim)): str(d) for d in PAPER_DIMS}

    def is_papers(self, cell):
        """Whether the data behind a cell of this name have the paper's sizes."""
        rows, dim = self.size()
        val = self.header("val.safetensors")["embeddings"]["shape"][0]
        same = (rows, dim, val) == (PAPER_ROWS, 768, PAPER_VAL)
        if "21K" in cell or "14K" in cell:
            same = same and self.has("21K.set") and len(self.lines("21K.set")) == PAPER_21K
        if "14K" in cell:
            same = same and self.has("14K.set") and len(self.lines("14K.set")) == PAPER_14K
        return same

    def sweep(self, name, truth):
        """Cells of a sweep: dictionaries with percentages top1 and top5."""
        with open(self.path(f"{name}-{truth}.csv"), encoding="utf-8", newline="") as file:
            cells = list(csv.DictReader(file))
        for cell in cells:
            n = int(cell["n"])
            self.n[truth] = n
            for top in ("top1", "top5"):
                cell[top] = 100 * int(cell[top]) / n
            cell["set"] = os.path.basename(cell["set"])[:-4] or "1K"
        return cells

    def votes(self, name, truth):
        """Accuracy by number of neighbours, in per cent."""
        result = self.json(f"{name}-{truth}.json")
        self.n[truth] = result["knn_n"]
        return {cell["k"]: 100 * cell["top1"] for cell in result["knn"]}


class Table:
    """Rows of leading words and values. The best value of a column within a group is printed bold."""

    def __init__(self, title, leads, columns, digits=2):
        self.title, self.leads, self.columns, self.digits = title, leads, columns, digits
        self.rows = []  # (name, group, leading words, values by column)
        self.notes = []
        self.plain = set()  # columns without a best value
        self.papers = {}  # what paper.csv calls a row, where that is not its name

    def add(self, name, leads, values, group=""):
        self.rows.append((name, group, leads, values))

    def best(self, column, group):
        values = [row[3][column] for row in self.rows if row[1] == group and column in row[3]]
        return max(values) if len(values) > 1 and column not in self.plain else None


def tops(work):
    return {f"{t}_{top}": f"{label} {TRUTHS[t]}" for top, label in (("top1", "top-1"), ("top5", "top-5"))
            for t in work.truths}


def tops_of(work, cell_of):
    """cell_of(truth) is a cell of a sweep."""
    return {f"{t}_{top}": cell_of(t)[top] for t in work.truths for top in ("top1", "top5")}


def one(cells, **wanted):
    found = [c for c in cells if all(c[key] == value for key, value in wanted.items())]
    if len(found) != 1:
        raise SystemExit(f"tables.py: {len(found)} cells with {wanted}, where there must be one")
    return found[0]


# --- tables ----------------------------------------------------------------------------------------


def synsets(work):
    table = Table("Class sets", ["group"], {"classes": "classes"}, 0)
    table.plain.add("classes")
    groups = work.json("groups.json")
    words = {"only": "in 1K, not in 21K", "both": "in 1K, and in 21K", "leaves": "leaves outside 1K",
             "ancestors": "ancestors of 1K outside 1K", "descendants": "descendants of 1K outside 1K",
             "other": "other", "exclusive": "14K: the first three", "total": "total"}
    for group, text in words.items():
        table.add(group, [text], {"classes": groups[group]})
    return table


def both(work, first, second):
    """Lambda in each space."""
    return f"λ = {{{first}}} (1K)" + (f", {{{second}}} (21K)." if "21K" in work.spaces else ".")


def grid(work, name, title, note):
    table = Table(title, ["space", "classes"], tops(work))
    for group in work.sets:
        for space in work.spaces:
            source = f"{name}-{'1K' if space == 'raw' else space}-{'1K' if group == '1K' else 'more'}"
            wanted = {"space": "raw" if space == "raw" else "koofu", "set": group}
            table.add(f"{space}@{group}", [SPACES[space], group],
                      tops_of(work, lambda t, s=source, w=wanted: one(work.sweep(s, t), **w)), group)
    table.notes.append(note)
    return table


def nvp(work):
    return grid(work, "nvp", "Nearest visual prototype", both(work, "lambda_1k", "lambda_21k"))


def euclid_nvp(work):
    return grid(work, "euclid-nvp", "Nearest visual prototype, Euclidean distance of rows with their own lengths",
                both(work, "euclid_1k", "euclid_21k"))


def knn_columns(work, ks=(1, 10, 15)):
    return {f"{t}_{k}nn": f"{k}-NN {TRUTHS[t]}" for k in ks for t in work.truths}


def knn_values(work, name, ks=(1, 10, 15)):
    return {f"{t}_{k}nn": work.votes(name, t)[k] for k in ks for t in work.truths}


def knn(work):
    table = Table("k nearest neighbours", ["space", "classes"], knn_columns(work))
    for group in work.sets:
        for space in work.spaces:
            name = f"knn-{space}-{group}"
            if all(work.has(f"{name}-{t}.json") for t in work.truths):
                table.add(f"{space}@{group}", [SPACES[space], group], knn_values(work, name), group)
    table.notes.append(both(work, "lambda_1k", "lambda_21k"))
    return table


def sweep_rows(work, table, name, key):
    """One row for the raw space, one for each other cell, called by `key`."""
    if key == "dim":
        table.papers = work.papers_dims()
    sweeps = {t: work.sweep(name, t) for t in work.truths}
    for i, cell in enumerate(sweeps[work.truths[0]]):
        values = tops_of(work, lambda t, i=i: sweeps[t][i])
        if cell["space"] == "raw":
            table.add("raw", [SPACES["raw"], cell["dim"] if key == "dim" else "–"], values)
        else:
            table.add(called(cell, key), [SPACES["21K" if "21k" in name else "1K"], shown(cell, key)], values)


def called(cell, key):
    return f"{float(cell[key]):g}" if float(cell[key]) < 1e6 else cell[key]


def shown(cell, key):
    if key == "dim":
        return cell["dim"]
    return f"{float(cell['lambda']):g} ({float(cell['relative']):.3g}x)"


def dims_nvp(work):
    table = Table("Nearest visual prototype in fewer dimensions", ["space", "dim."], tops(work))
    sweep_rows(work, table, "dims-nvp", "dim")
    table.notes.append("S_w and S_b of {training}, λ = {lambda_1k}.")
    return table


def euclid_dims(work):
    table = Table("Nearest visual prototype in fewer dimensions, Euclidean distance of rows with their own lengths",
                  ["space", "dim."], tops(work))
    sweep_rows(work, table, "euclid-dims", "dim")
    table.notes.append("S_w and S_b of {training}, λ = {euclid_1k}.")
    return table


def over_lambda(work, name, title):
    table = Table(title, ["space", "λ"], tops(work))
    sweep_rows(work, table, name, "lambda")
    table.notes.append("In brackets: λ in multiples of the mean eigenvalue of S_w. Classes are those of 1K.")
    return table


def lambda_1k(work):
    return over_lambda(work, "lambda-1k", "λ of the 1K space")


def lambda_21k(work):
    return over_lambda(work, "lambda-21k", "λ of the 21K space")


def euclid_lambda(work):
    return over_lambda(work, "euclid-lambda", "λ of the 1K space, Euclidean distance of rows with their own lengths")


def dims_knn(work):
    table = Table("k nearest neighbours in fewer dimensions", ["space", "dim."], knn_columns(work))
    table.papers = work.papers_dims()
    table.add("raw", [SPACES["raw"], str(work.size()[1])], knn_values(work, "dims-knn-raw"))
    for dim in work.dims():
        table.add(str(dim), [SPACES["1K"], str(dim)], knn_values(work, f"dims-knn-{dim}"))
    table.notes.append("S_w of {training}, S_b of {knn_between}, λ = {lambda_1k}.")
    return table


def efficiency(work):
    columns = knn_columns(work, (15,))
    columns.update(seconds="search, s", speedup="speed-up", memory="memory, MiB")
    table = Table("Time and memory of 15-NN", ["space", "dim."], columns)
    table.papers = work.papers_dims()
    table.plain.update(("seconds", "speedup", "memory"))
    rows, all_dims = work.size()
    search = None
    for name in ["raw"] + [str(d) for d in work.dims()]:
        times = [work.json(f"efficiency-{name}-{i + 1}.json") for i in range(int(work.settings["repeat"]))]
        search = min(times, key=lambda t: t["search_seconds"])
        dim = all_dims if name == "raw" else int(name)
        values = knn_values(work, f"dims-knn-{name}", (15,))
        values.update(seconds=search["search_seconds"], memory=rows * dim * 4 / 2**20)
        if name == "raw":
            base = search["search_seconds"]
        values["speedup"] = base / search["search_seconds"]
        table.add(name, [SPACES["raw" if name == "raw" else "1K"], str(dim)], values)
    table.notes.append(
        f"All {search['queries']:,} validation rows among {rows:,}, k = 15: exact search by koofu on the processor, "
        f"{search['threads']} threads, {search['isa']}, best of {work.settings['repeat']}. Memory is N·d·4 bytes, as "
        "in the paper, whose times are those of FAISS on an H200.")
    return table


def over_k(work):
    columns = {f"{t}_{s}": f"{SPACES[s]} {TRUTHS[t]}" for s in work.spaces for t in work.truths}
    table = Table("Number of neighbours", ["k"], columns)
    votes = {(s, t): work.votes(f"knn-{s}-1K", t) for s in work.spaces for t in work.truths}
    for k in sorted(votes["raw", work.truths[0]]):
        table.add(str(k), [str(k)], {f"{t}_{s}": votes[s, t][k] for s in work.spaces for t in work.truths})
    table.notes.append("Classes and gallery of 1K. " + both(work, "lambda_1k", "lambda_21k"))
    return table


def zero_shot(work, name, title, lead, key):
    """The paper's table, and below it the same rows with each modality centred on its own mean."""
    table = Table(title, ["space", lead, "centring"],
                  {f"{t}_{s}": f"{TEXTS[s]} {TRUTHS[t]}" for s in work.texts for t in work.truths})
    if key == "dim":
        table.papers = work.papers_dims()
    for centring in ("none", "modality"):
        sweeps = {f"{t}_{s}": work.sweep(f"{name}-{s}-{centring}", t) for s in work.texts for t in work.truths}
        for i, cell in enumerate(sweeps[f"{work.truths[0]}_{work.texts[0]}"]):
            values = {column: cells[i]["top1"] for column, cells in sweeps.items()}
            if cell["space"] != "raw":
                row = called(cell, key) + ("" if centring == "none" else f"+{centring}")
                table.add(row, [SPACES["1K"], shown(cell, key), centring], values, centring)
            elif centring == "none":
                table.add("raw", [SPACES["raw"], cell["dim"] if key == "dim" else "–", centring], values, centring)
    return table


def zeroshot(work):
    table = zero_shot(work, "zeroshot", "Zero-shot classification", "λ", "lambda")
    table.notes.append("Top-1. In brackets: λ in multiples of the mean eigenvalue of S_w. Without centring, as in "
                       "the paper; with 'modality', images and text are each centred on their own mean first.")
    return table


def zeroshot_dims(work):
    table = zero_shot(work, "zeroshot-dims", "Zero-shot classification in fewer dimensions", "dim.", "dim")
    table.notes.append("Top-1. S_w and S_b of {training}, λ = {lambda_1k}. Without centring, as in the paper.")
    return table


TABLES = {"synsets": synsets, "nvp": nvp, "knn": knn, "dims-nvp": dims_nvp, "dims-knn": dims_knn,
          "efficiency": efficiency, "lambda-1k": lambda_1k, "lambda-21k": lambda_21k, "k": over_k,
          "zeroshot": zeroshot, "zeroshot-dims": zeroshot_dims,
          "euclid-nvp": euclid_nvp, "euclid-dims": euclid_dims, "euclid-lambda": euclid_lambda}


# --- writing ---------------------------------------------------------------------------------------


def paper_figures(name):
    with open(os.path.join(HERE, "paper.csv"), encoding="utf-8", newline="") as file:
        rows = [row for row in csv.DictReader(file) if row["table"] == name]
    return ({(r["row"], r["column"]): r["value"] for r in rows},
            {(r["row"], r["column"]): r["note"] for r in rows if r["note"]})


def markdown(table, paper, slips, counts):
    heads = table.leads + list(table.columns.values()) + [f"paper: {c}" for k, c in table.columns.items()
                                                         if any(column == k for _, column in paper)]
    kept = [k for k in table.columns if any(column == k for _, column in paper)]
    lines = [f"## {table.title}", "", "| " + " | ".join(heads) + " |",
             "| " + " | ".join(["---"] * len(table.leads) + ["--:"] * (len(heads) - len(table.leads))) + " |"]
    for name, group, leads, values in table.rows:
        cells = list(leads)
        for column in table.columns:
            text = f"{values[column]:,.{table.digits}f}" if column in values else ""
            best = table.best(column, group)
            cells.append(f"**{text}**" if text and best is not None and values[column] == best else text)
        cells += [paper.get((name, column), "") for column in kept]
        lines.append("| " + " | ".join(cells) + " |")
    lines.append("")
    if table.notes + counts:
        lines += [" ".join(table.notes + counts), ""]
    if slips:
        lines += ["On the paper's figures: " + "; ".join(f"{r}, {c}: {note}" for (r, c), note in slips.items()) + ".", ""]
    return "\n".join(lines)


def write(path, text):
    """The whole file, or none."""
    with open(path + ".part", "w", encoding="utf-8", newline="") as file:
        file.write(text)
    os.replace(path + ".part", path)


def write_csv(path, table, paper):
    lines = [["row"] + table.leads + list(table.columns) + [f"paper_{c}" for c in table.columns]]
    for name, _, leads, values in table.rows:
        lines.append([name] + leads + [f"{values[c]:.4f}" if c in values else "" for c in table.columns] +
                     [paper.get((name, c), "") for c in table.columns])
    with open(path + ".part", "w", encoding="utf-8", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(lines)
    os.replace(path + ".part", path)


def write_table(folder, name, beside_paper):
    work = Work(folder)
    table = TABLES[name](work)
    table.notes = [note.format_map({**work.settings, "training": work.training()[0]}) for note in table.notes]
    paper, slips = paper_figures(name)
    if not beside_paper:
        of = "21K" if name in ("synsets", "lambda-21k") else ""
        paper = {cell: value for cell, value in paper.items() if work.is_papers(" ".join(cell) + of)}
    figures = {(row, c): paper[table.papers.get(row, row), c] for row, *_ in table.rows for c in table.columns
               if (table.papers.get(row, row), c) in paper}
    slips = {(row, c): slips[table.papers.get(row, row), c] for row, c in figures
             if (table.papers.get(row, row), c) in slips}
    counts = [f"{TRUTHS[t]}: {n:,} rows." for t, n in work.n.items()]
    write_csv(os.path.join(folder, f"{name}.csv"), table, figures)
    write(os.path.join(folder, f"{name}.md"), markdown(table, figures, slips, counts))


def processor():
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            return next(line.split(":", 1)[1].strip() for line in file if line.startswith("model name"))
    except (OSError, StopIteration):
        return "unknown"


def write_summary(folder):
    work = Work(folder)
    there = [n for n in TABLES if os.path.exists(os.path.join(folder, f"{n}.md"))]
    lines = ["# Tables of the paper", ""]
    if work.has("1k.safetensors"):
        rows, dim = work.size()
        lines += [f"- {work.training()[0]}: {rows:,} of {dim}, {len(work.lines('1k.txt')):,} classes"]
    if work.has("21k.safetensors"):
        rows = int(work.header("21k.safetensors")["__metadata__"]["rows"])
        lines += [f"- {work.training()[1]}: {rows:,} rows, {len(work.lines('21k.txt')):,} classes, and "
                  f"{len(work.lines('only.txt')):,} of 1K that it lacks"]
    lines += [f"- {work.settings['koofu']}; {processor()}", ""]
    for name in there:
        with open(os.path.join(folder, f"{name}.md"), encoding="utf-8") as file:
            lines += [file.read()]
    absent = [n for n in TABLES if n not in there]
    if absent:
        lines += ["Not made: " + ", ".join(absent) + ".", ""]
    if not work.texts:
        lines += ["The two tables of zero-shot classification need text, and none was given (--text-synset, "
                  "--text-synset7, --text-mod7).", ""]
    write(os.path.join(folder, "tables.md"), "\n".join(lines))


def main(words):
    if words[:1] == ["classes"]:
        print_classes(words[-1], "--all" in words)
    elif words[:1] == ["dims"]:
        print(",".join(map(str, dims_for(int(words[1]), "quick" in words))))
    elif words[:1] == ["table"]:
        write_table(words[1], words[2], "--beside-paper" in words)
    elif words[:1] == ["summary"]:
        write_summary(words[1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
