"""Serves a GGUF file by llama.cpp's own server until the process is ended: `python llama_server.py FILE PORT`."""

from __future__ import annotations

import sys
import threading

import xllamacpp

settings = xllamacpp.CommonParams()
settings.model.path = sys.argv[1]
settings.hostnames = ["127.0.0.1"]
settings.port = int(sys.argv[2])
settings.n_ctx = 2048
settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
settings.warmup = False
server = xllamacpp.Server(settings)
print("ready", flush=True)
threading.Event().wait()
