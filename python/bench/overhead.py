#!/usr/bin/env python3
"""What a call from Python costs above the library's own time, and how soon an interrupt is heard.

    PYTHONPATH=build/python python3 python/bench/overhead.py build

BUILD is a build folder with libkoofu.a. Times are of the processor (user and system), medians of
interleaved runs, so they mean something on a busy machine as well. A program in C makes the same
calls for comparison.
"""

import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import numpy as np

import koofu

CALLS, RUNS = 5000, 9

PROGRAM = r"""
#include <koofu.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>

static double seconds(void) {
  struct rusage u;
  getrusage(RUSAGE_SELF, &u);
  return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
         1e-6 * (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec);
}

int main(int argc, char **argv) {
  (void)argc;
  kf_ctx_options options = {.threads = 1};
  kf_ctx *ctx;
  kf_model *model;
  float row[4096];
  int32_t class;
  int calls = atoi(argv[3]);
  if (kf_ctx_new(&options, &ctx) != KF_OK || kf_model_load(ctx, argv[1], &model) != KF_OK) return 1;
  FILE *file = fopen(argv[2], "rb");
  if (file == NULL || fread(row, sizeof *row, kf_model_dim_in(model), file) == 0) return 1;
  for (int i = 0; i < calls / 10; i++) kf_classify(ctx, model, row, 1, NULL, &class, NULL);
  double began = seconds();
  for (int i = 0; i < calls; i++) kf_classify(ctx, model, row, 1, NULL, &class, NULL);
  printf("%.9f\n", (seconds() - began) / calls);
  return 0;
}
"""


def used():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def build(folder, scratch):
    source, program = scratch / "calls.c", scratch / "calls"
    source.write_text(PROGRAM)
    include = pathlib.Path(__file__).parents[2] / "include"
    subprocess.run(["cc", "-O2", f"-I{include}", source, pathlib.Path(folder) / "libkoofu.a", "-o",
                    program, "-ljpeg", "-lspng", "-lwebp", "-lz", "-lpthread", "-lm"], check=True)
    return program


def overhead(folder):
    koofu.configure(threads=1)
    rng = np.random.default_rng(0)
    with tempfile.TemporaryDirectory() as name:
        scratch = pathlib.Path(name)
        program = build(folder, scratch)
        X = rng.normal(size=(60, 16)).astype("f4")
        model = koofu.fit(X, np.arange(60) % 3, lambda_="1x")
        model.save(scratch / "m.safetensors")
        row = X[:1].copy()
        row.tofile(scratch / "row")
        mine, theirs = [], []
        for _ in range(RUNS):
            for _ in range(CALLS // 10):
                model.predict(row)
            began = used()
            for _ in range(CALLS):
                model.predict(row)
            mine.append((used() - began) / CALLS * 1e6)
            out = subprocess.run([program, scratch / "m.safetensors", scratch / "row", str(CALLS)],
                                 check=True, capture_output=True, text=True).stdout
            theirs.append(float(out) * 1e6)
    for what, times in (("Model.predict", mine), ("kf_classify", theirs)):
        print(f"{what:14} {statistics.median(times):6.2f} us ({min(times):.2f} to {max(times):.2f})")
    print(f"{'difference':14} {statistics.median(mine) - statistics.median(theirs):6.2f} us")


def interrupt():
    koofu.configure()
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60_000, 512)).astype("f4")
    y = np.arange(len(X)) % 100
    began = time.monotonic()
    koofu.fit(X, y)
    total = time.monotonic() - began
    waited = []
    for share in np.linspace(0.05, 0.9, 10):
        sent = []

        def send(sent=sent):
            sent.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(total * share, send)
        timer.start()
        try:
            koofu.fit(X, y)
            timer.join()
        except KeyboardInterrupt:
            waited.append(time.monotonic() - sent[0])
    print(f"an interrupt of a fit of {total:.1f} s is heard after {statistics.median(waited):.2f} s, "
          f"at most {max(waited):.2f} s (load {os.getloadavg()[0]:.0f})")


if __name__ == "__main__":
    overhead(sys.argv[1])
    interrupt()
