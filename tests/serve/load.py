#!/usr/bin/env python3
"""The server under load: 200 connections with mixed requests, single rows over 1,000 classes,
searches.

usage: load.py path/to/koofu path/to/serve_load SECONDS [--floors]

Fails on an error other than 429, or if memory grows. Prints rates and latencies, and fails by them
only with --floors, on a quiet machine: 5,000 single rows a second, and searches within 1.5 times
the library's own time (serve_latency).
"""

import json
import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]

from files import npy, read_safetensors
from harness import Box, check, seconds_of
from photos import CLIP, photos
from server import Server, uri

JSON = "application/json"
FLOORS = "--floors" in sys.argv
sys.argv = [word for word in sys.argv if word != "--floors"]


def memory_of(server):
    with open(f"/proc/{server.process.pid}/status", encoding="utf-8") as file:
        return int(re.search(r"VmRSS:\s*(\d+) kB", file.read()).group(1)) / 1024


def load(program, server, connections, seconds, *requests):
    words = [str(word) for request in requests for word in request]
    before = seconds_of(server.process)
    done = subprocess.run([program, str(server.port), str(connections), str(seconds), *words], capture_output=True, check=True)
    result = json.loads(done.stdout)
    result["busy_us"] = 1e6 * (seconds_of(server.process) - before) / max(1, result["requests"])
    return result


def tell(what, result):
    print(f"{what}: {result['per_second']} requests/s, p50 {result['p50_ms']} ms, p99 {result['p99_ms']} ms, "
          f"longest {result['longest_ms']} ms, {result['busy_us']:.0f} us of processor time each, {result['status']}", flush=True)
    check(result["broken"] == 0, f"{what}: connections broke")
    check(set(result["status"]) <= {"200", "429"}, f"{what}: errors")


def single_rows(box, program, seconds):
    box.works("synth", "--classes", 1000, "--dim", 512, "--per-class", 16, "-o", "big.safetensors", "-q")
    box.works("synth", "--classes", 1000, "--dim", 512, "--per-class", 1, "--split", 1, "-o", "q.safetensors", "-q")
    box.works("fit", "big.safetensors", "--lambda", "0.3x", "-o", "big-model.safetensors", "-q")
    row = read_safetensors(box.read("q.safetensors"))[0]["embeddings"][0]
    box.write("one.json", json.dumps({"rows": [row]}))
    box.write("one.npy", npy([row]))
    with Server(box, "big-model.safetensors") as server:
        for kind, file in ((JSON, "one.json"), ("application/x-npy", "one.npy")):
            result = load(program, server, 32, seconds, (1, "POST", "/v1/classify", kind, box.path(file)))
            tell(f"single rows of 512, 1,000 classes, {kind}", result)
            floor("5,000 single rows a second", float(result["per_second"]) >= 5000)


def searches(box, program, seconds):
    """One connection, so that nothing waits: the time is that of the library and of HTTP."""
    box.works("synth", "--classes", 1000, "--dim", 512, "--per-class", 200, "-o", "rows.safetensors", "-q")
    box.works("index", "rows.safetensors", "--model", "big-model.safetensors", "-o", "gallery.safetensors", "-q")
    box.write("search.json", json.dumps({"rows": json.loads(box.read("one.json"))["rows"], "k": 15}))
    with Server(box, "big-model.safetensors", "--gallery", "gallery.safetensors") as server:
        served = load(program, server, 1, seconds, (1, "POST", "/v1/search", JSON, box.path("search.json")))
        tell("searches, one at a time, 200,000 rows of 512", served)
    latency = os.path.join(os.path.dirname(program), "serve_latency")
    alone = subprocess.run([latency, box.path("gallery.safetensors"), box.path("one.npy"), "15", str(seconds)], capture_output=True, check=True)
    print(f"the library alone: {float(alone.stdout):.2f} ms", flush=True)
    floor("searches within 1.5 times the library's time", served["p50_ms"] <= 1.5 * float(alone.stdout))
    with Server(box, "big-model.safetensors", "--gallery", "gallery.safetensors") as server:
        tell("searches, 32 connections", load(program, server, 32, seconds, (1, "POST", "/v1/search", JSON, box.path("search.json"))))


def mixed(box, program, seconds):
    paths = photos(box, "p", ["ant", "fox", "owl"], 40)
    box.works("embed", CLIP, "p", "-o", "e.safetensors", "-q")
    box.works("fit", "e.safetensors", "-o", "model.safetensors", "-q")
    rows = read_safetensors(box.read("e.safetensors"))[0]["embeddings"]
    box.write("rows.json", json.dumps({"rows": rows[:3]}))
    box.write("rows.npy", npy(rows[:50]))
    box.write("numbers.json", json.dumps({"row_numbers": [1, 7, 11], "k": 10}))
    box.write("words.json", json.dumps({"texts": ["a small owl"], "k": 5}))
    box.write("input.json", json.dumps({"input": [uri(box.read(paths[3])), "a fox"], "model": "x"}))
    requests = [(30, "POST", "/v1/classify", JSON, box.path("rows.json")), (10, "POST", "/v1/classify", "application/x-npy", box.path("rows.npy")),
                (20, "POST", "/v1/search", JSON, box.path("numbers.json")), (10, "POST", "/v1/classify", "image/png", box.path(paths[0])),
                (5, "POST", "/v1/search", "image/png", box.path(paths[9])), (5, "POST", "/v1/search", JSON, box.path("words.json")),
                (5, "POST", "/v1/embeddings", JSON, box.path("input.json")), (5, "GET", "/v1/images/3", "x", "-"),
                (5, "GET", "/v1/images/5?size=32", "x", "-"), (2, "GET", "/v1/classes", "x", "-"), (2, "GET", "/v1/map", "x", "-"),
                (1, "GET", "/metrics", "x", "-"), (5, "GET", "/", "x", "-")]
    with Server(box, "model.safetensors", "--rows", "e.safetensors", "--encoder", CLIP, "--images", "p") as server:
        warm = load(program, server, 200, max(2, seconds / 6), *requests)
        check(warm["requests"] > 0, "nothing was answered")
        before = memory_of(server)
        tell(f"200 connections, {seconds:g} s, mixed", load(program, server, 200, seconds, *requests))
        after = memory_of(server)
        print(f"memory {before:.1f} MiB before, {after:.1f} MiB after; {server.metric('koofu_pictures_total'):.0f} pictures in "
              f"{server.metric('koofu_picture_batches_total'):.0f} batches", flush=True)
        check(after < before * 1.1 + 8, "memory grows")


def floor(what, held):
    print(f"{what}: {'kept' if held else 'MISSED'}", flush=True)
    check(held or not FLOORS, what)


def main(koofu, program, seconds):
    box = Box(os.path.abspath(koofu))
    try:
        mixed(box, program, seconds)
        single_rows(box, program, max(1, seconds / 6))
        searches(box, program, max(1, seconds / 6))
    finally:
        box.close()


if __name__ == "__main__":
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    main(sys.argv[1], os.path.abspath(sys.argv[2]), float(sys.argv[3]))
