"""The process of a model that runs on this machine: serves one GGUF file on loopback, for whoever has the key
that it was given, until its standard input ends. Runs by itself, without the rest of Hermes."""

import json
import os
import sys
import urllib.request
from typing import Any


def main() -> None:
    order = json.loads(sys.stdin.readline())
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the engine prints is no answer of ours
    print(json.dumps(_serve(order)), file=answers, flush=True)
    sys.stdin.read()  # ends with the gateway, however that ends
    os._exit(0)


def _serve(order: dict[str, Any]) -> dict[str, str]:
    try:
        import xllamacpp
    except ImportError as error:
        return {"error": "missing", "why": str(error)}
    params = xllamacpp.CommonParams()
    params.model.path = order["path"]
    params.n_ctx = order["window"]
    params.n_parallel = 1
    params.port = 0
    params.api_keys = [order["key"]]
    params.cpuparams.n_threads = max(
        1, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2
    )
    try:
        os.nice(5)
        server = xllamacpp.Server(params)
        _kept.append(server)
        urllib.request.urlopen(f"{server.listening_address}/health", timeout=10).close()
    except (RuntimeError, OSError, ValueError) as error:
        return {"error": "broken", "why": str(error)}
    return {"url": f"{server.listening_address}/v1"}


_kept: list[object] = []
"""The server lives as long as somebody holds it."""

if __name__ == "__main__":
    main()
