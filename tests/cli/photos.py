"""Little pictures in folders of classes, and the tiny models that embed them."""

import os
import random

from files import png, read_safetensors

MODELS = os.path.abspath(os.path.join(os.path.dirname(__file__), "..", "golden", "models"))
CLIP = os.path.join(MODELS, "clip-f32")
VISION = os.path.join(MODELS, "clip-vision")  # without a text tower
TEXT = os.path.join(MODELS, "clip-text")      # without an image tower


def picture(rng, colours, noise=60, side=16):
    """Sixteen patches of the colours of a class, and noise."""
    cell = side // 4
    return png(bytes(min(255, max(0, int(colours[(y // cell * 4 + x // cell) * 3 + c] + rng.gauss(0, noise))))
                     for y in range(side) for x in range(side) for c in range(3)), side, side)


def photos(box, folder, classes, each, seed=1, side=16):
    """Writes folder/CLASS/0000.png …; returns their paths in byte order."""
    rng, paths = random.Random(seed), []
    for name in classes:
        colours = [rng.randrange(256) for _ in range(48)]
        for i in range(each):
            paths.append(box.write(f"{folder}/{name}/{i:04d}.png", picture(rng, colours, side=side)))
    return sorted(paths)


def many(box, folder, n):
    """Many of the smallest possible pictures, of one patch each, quickly."""
    rng, paths = random.Random(3), []
    for i in range(n):
        paths.append(box.write(f"{folder}/{'cat' if i % 3 else 'dog'}/{i:05d}.png", png(rng.randbytes(12), 2, 2)))
    return sorted(paths)


def ids_of(tensors):
    found, begin = [], 0
    for end in tensors["id_ends"]:
        found.append(tensors["id_bytes"][begin:end].decode())
        begin = end
    return found


def rows_of(box, name):
    """{id: row}, labels by id, class names."""
    tensors, metadata = read_safetensors(box.read(name))
    ids = ids_of(tensors)
    return dict(zip(ids, tensors["embeddings"])), dict(zip(ids, tensors.get("labels", []))), metadata.get("classes")
