"""A real, small model behind llama.cpp's server: `small_model.py <weights>` prints the server's
address and serves until its input ends. Runs in an environment of its own, where the engine is installed."""

import sys

import xllamacpp

given = xllamacpp.CommonParams()
given.model.path = sys.argv[1]
given.n_ctx = 4096
given.n_parallel = 1
given.port = 0
given.warmup = False
given.cpuparams.n_threads = 2
server = xllamacpp.Server(given)
print(server.listening_address, flush=True)
sys.stdin.read()
