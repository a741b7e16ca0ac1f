#!/usr/bin/env python3
"""Clients by others: openai, tritonclient, prometheus_client and schemathesis (2,000 cases).

usage: clients.py path/to/koofu [CASES]   (with a Python that has them: tools/test_serve.sh)
"""

import os
import re
import subprocess
import sys

sys.dont_write_bytecode = True
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "cli")]

import numpy
import openai
import tritonclient.http
from prometheus_client.parser import text_string_to_metric_families

from harness import Box, check, equal
from server import Server, embedded, pictured, uri


def openai_embeddings(server, box, paths):
    client = openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none")
    rows = numpy.array(embedded(box, "e.safetensors"), numpy.float32)
    for form in ("base64", "float", openai.NOT_GIVEN):
        answer = client.embeddings.create(model="clip", input=[uri(box.read(path)) for path in paths], encoding_format=form)
        data = [numpy.frombuffer(__import__("base64").b64decode(d.embedding), "<f4") if isinstance(d.embedding, str) else d.embedding
                for d in answer.data]
        equal(numpy.array(data, numpy.float32).tobytes(), rows.tobytes(), f"embeddings of pictures, {form}")
    models = [model.id for model in client.models.list()]
    equal(models, ["model", answer.model], "the models that are listed")
    words = client.embeddings.create(model=models[1], input=["a fox", "an owl"])
    equal(len(words.data), 2, "texts")
    check(words.usage.total_tokens >= 6, f"tokens: {words.usage}")
    try:
        client.embeddings.create(model="clip", input=[""])
        raise AssertionError("an empty text should be refused")
    except openai.UnprocessableEntityError as reason:
        check("empty" in str(reason), f"{reason}")


def triton_infer(server, box):
    client = tritonclient.http.InferenceServerClient(f"127.0.0.1:{server.port}")
    check(client.is_server_live() and client.is_server_ready() and client.is_model_ready("model"), "health")
    equal(client.get_server_metadata()["name"], "koofu", "metadata")
    rows = numpy.array(embedded(box, "e.safetensors"), numpy.float32)
    equal(client.get_model_metadata("model")["inputs"][0]["shape"], [-1, rows.shape[1]], "shape")
    found = []
    for binary in (True, False):
        x = tritonclient.http.InferInput("rows", list(rows.shape), "FP32")
        x.set_data_from_numpy(rows, binary_data=binary)
        outputs = [tritonclient.http.InferRequestedOutput(name, binary_data=binary) for name in ("scores", "class", "mapped")]
        for wanted in (outputs, None):
            answer = client.infer("model", [x], outputs=wanted)
            found.append((answer.as_numpy("scores"), [c.decode() if isinstance(c, bytes) else c for c in answer.as_numpy("class").tolist()]))
    for scores, classes in found[1:]:
        equal(scores.tobytes(), found[0][0].tobytes(), "scores")
        equal(classes, found[0][1], "classes")
    best = server.works("POST", "/v1/classify", {"rows": rows.tolist(), "top": 1})["results"]
    equal(found[0][1], [r["classes"][0]["class"] for r in best], "those of /v1/classify")


def prometheus_reads(server):
    text = server.get("/metrics").body.decode()
    families = {family.name: family for family in text_string_to_metric_families(text)}
    for name in ("koofu_requests", "koofu_request_seconds", "koofu_rows_classified", "koofu_connections", "process_resident_memory_bytes"):
        check(name in families, f"{name} is not in {sorted(families)}")
    seconds = families["koofu_request_seconds"]
    equal(seconds.type, "histogram", "type")
    for route in {sample.labels["route"] for sample in seconds.samples}:
        own = [s for s in seconds.samples if s.labels["route"] == route]
        buckets = [s.value for s in own if s.name.endswith("_bucket")]
        equal(buckets, sorted(buckets), f"buckets of {route} rise")
        equal(buckets[-1], [s.value for s in own if s.name.endswith("_count")][0], f"count of {route}")


def schemathesis_finds_nothing(server, box, cases):
    done, seed = 0, 1
    while done < cases:
        process = subprocess.run([os.path.join(os.path.dirname(sys.executable), "schemathesis"), "run", f"http://127.0.0.1:{server.port}/openapi.json",
                                  "-n", "60", "--seed", str(seed), "--checks",
                                  "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False, cwd=box.folder)
        text = process.stdout.decode("utf-8", "replace")
        check(process.returncode == 0, text[-6000:])
        done += int(re.search(r"(\d+) generated, \1 passed", text).group(1))
        seed += 1
    print(f"schemathesis: {done} cases, none failed")


def main(program, cases):
    box = Box(os.path.abspath(program))
    try:
        paths, words = pictured(box)
        with Server(box, *words) as server:
            openai_embeddings(server, box, paths)
            print("openai", openai.__version__)
            triton_infer(server, box)
            print("tritonclient")
            prometheus_reads(server)
            print("prometheus_client")
            schemathesis_finds_nothing(server, box, cases)
            prometheus_reads(server)
            check(server.process.poll() is None, "the server still runs")
    finally:
        box.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    main(sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 2000)
