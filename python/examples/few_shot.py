"""A few-shot classifier with text: how much class names help with one to sixteen rows per class.

usage: few_shot.py [--rows X.npy --labels Y.npy --test-rows X.npy --test-labels Y.npy --text T.npy]
[--shots 1,2,4,8,16] [--plot FILE.png]

Rows are embeddings of pictures, T.npy those of the class names, one for each class. Without files,
a synthetic world like CLIP's takes their place.
"""

import argparse

import numpy as np

import koofu


def synthetic(classes=60, dim=128, seed=0):
    """Pictures around class centres, words near the centres, and an offset between the two, as in
    CLIP."""
    rng = np.random.default_rng(seed)
    centres = rng.normal(size=(classes, dim))
    offsets = 3 * rng.normal(size=(2, dim))  # what all pictures, and all words, have in common
    spread = np.geomspace(6, 1.5, dim)  # pictures of a class vary more in some directions

    def pictures(per_class):
        y = np.repeat(np.arange(classes), per_class)
        X = centres[y] + offsets[0] + spread * rng.normal(size=(len(y), dim))
        return X.astype(np.float32), y

    words = centres + offsets[1] + 1.5 * rng.normal(size=centres.shape)
    return (*pictures(16), *pictures(20), words.astype(np.float32))


def first_rows(y, shots):
    """The first rows of each class."""
    order = np.argsort(y, kind="stable")
    ranks = np.arange(len(y)) - np.searchsorted(y[order], y[order])
    return np.sort(order[ranks < shots])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("rows", "labels", "test-rows", "test-labels", "text"):
        parser.add_argument("--" + name)
    parser.add_argument("--shots", default="1,2,4,8,16")
    parser.add_argument("--plot")
    given = parser.parse_args()
    if given.rows:
        files = (given.rows, given.labels, given.test_rows, given.test_labels, given.text)
        X, y, X_test, y_test, words = (np.load(path) for path in files)
    else:
        X, y, X_test, y_test, words = synthetic()

    text = koofu.Text.of(words, np.arange(len(words)))
    zero_shot = ((X_test @ text.rows.T).argmax(axis=1) == y_test).mean()
    print(f"text alone: {100 * zero_shot:.2f} %")
    print("shots   rows alone   with text")
    table = []
    for shots in (int(n) for n in given.shots.split(",")):
        some = first_rows(y, shots)
        rows_alone = koofu.KooFu().fit(X[some], y[some]).score(X_test, y_test)
        with_text = koofu.KooFu(text=words).fit(X[some], y[some]).score(X_test, y_test)
        table.append((shots, rows_alone, with_text))
        print(f"{shots:5} {100 * rows_alone:10.2f} % {100 * with_text:9.2f} %")

    if given.plot:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib import pyplot

        shots, rows_alone, with_text = np.array(table).T
        pyplot.axhline(100 * zero_shot, linestyle=":", color="gray", label="text alone")
        pyplot.semilogx(shots, 100 * rows_alone, "o-", base=2, label="rows alone")
        pyplot.semilogx(shots, 100 * with_text, "o-", base=2, label="with text")
        pyplot.xlabel("rows of each class")
        pyplot.ylabel("top-1 accuracy, %")
        pyplot.legend()
        pyplot.savefig(given.plot, dpi=150)


if __name__ == "__main__":
    main()
