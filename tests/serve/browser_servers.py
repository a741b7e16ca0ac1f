"""Servers for the tests of the page: the demo, a gallery of pictures, a model alone, a token."""

import os
import random
import signal
import socket
import struct
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
import zlib

GOLDEN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "golden", "models")
PICTURES = [os.path.abspath(os.path.join(GOLDEN, "pictures", name)) for name in ("a.png", "b.png", "c.png")]
TOKEN = "a-token-of-the-tests-0123456789"


class Server:
    """koofu serve with these words, on a free port of this machine; can be stopped and started again on it."""

    def __init__(self, koofu, words, folder):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = probe.getsockname()[1]
        self.command = [koofu, "serve", *words, "--port", str(self.port)]
        self.url = f"http://127.0.0.1:{self.port}"
        self.folder, self.process = folder, None

    def start(self):
        self.log = tempfile.TemporaryFile(dir=self.folder)
        self.process = subprocess.Popen(self.command, stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log, cwd=self.folder)
        for _ in range(1200):
            try:
                urllib.request.urlopen(self.url + "/healthz", timeout=10).close()
                return
            except (urllib.error.URLError, ConnectionError, TimeoutError):
                if self.process.poll() is not None:
                    self.log.seek(0)
                    raise OSError(f"{' '.join(self.command)} ended with {self.process.returncode}: {self.log.read().decode()}")
                time.sleep(0.1)
        raise OSError(f"{' '.join(self.command)} does not answer")

    def stop(self):
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()


def demo():
    return ["--demo"]


def png(path, colour, seed):
    """A PNG of 64 x 64 pixels, mostly of one colour."""
    noise = random.Random(seed)
    rows = b"".join(b"\0" + b"".join(bytes(min(255, max(0, c + noise.randint(-40, 40))) for c in colour) for _ in range(64)) for _ in range(64))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    with open(path, "wb") as file:
        file.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", 64, 64, 8, 2, 0, 0, 0)) +
                   chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def picture_world(koofu, folder):
    """Pictures of three colours, embedded and fitted with a tiny CLIP; what koofu serve is then given."""
    photos = os.path.join(folder, "photos")
    for number, (name, colour) in enumerate((("n01629819_European_fire_salamander", (200, 40, 40)), ("green snake", (40, 180, 60)), ("blue", (40, 60, 210)))):
        os.makedirs(os.path.join(photos, name))
        for i in range(8):
            png(os.path.join(photos, name, f"{name}-{i}.png"), colour, 100 * number + i)
    encoder, made = os.path.join(GOLDEN, "clip-f32"), os.path.join(folder, "made")
    subprocess.run([koofu, "quickstart", photos, "--encoder", encoder, "-o", made], check=True, stdout=subprocess.DEVNULL,
                   stderr=subprocess.DEVNULL)
    return [os.path.join(made, "model.safetensors"), "--rows", os.path.join(made, "embeddings.safetensors"),
            "--encoder", encoder, "--images", photos]


LONG = "a" * 120
EVIL = "\u202eevil \u2066\u05d0\u05d1"
NAMES = [LONG, "soft-coated wheaten terrier standing on grass", EVIL, "d41d8cd98f00b204e9800998ecf8427e" * 2] + [f"class {k}" for k in range(8)]


def named_world(koofu, folder):
    """A model and rows whose classes have names that are hard to show."""
    names, rows, model = (os.path.join(folder, name) for name in ("names.txt", "named.safetensors", "named-model.safetensors"))
    with open(names, "w", encoding="utf-8") as file:
        file.write("".join(f"c{k:04}\t{name}\n" for k, name in enumerate(NAMES)))
    subprocess.run([koofu, "synth", "--classes", str(len(NAMES)), "--dim", "32", "--per-class", "12", "-o", rows, "-q"], check=True)
    subprocess.run([koofu, "fit", rows, "-o", model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return [model, "--rows", rows, "--names", names]


def plain_world(koofu, folder):
    """A model of the synthetic world, and a file with a token."""
    rows, model, token = (os.path.join(folder, name) for name in ("plain.safetensors", "plain-model.safetensors", "token"))
    subprocess.run([koofu, "synth", "--classes", "12", "--dim", "32", "--per-class", "12", "-o", rows, "-q"], check=True)
    subprocess.run([koofu, "fit", rows, "-o", model], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(token, "w", encoding="utf-8") as file:
        file.write(TOKEN + "\n")
    os.chmod(token, 0o600)
    return model, token
