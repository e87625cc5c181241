"""Serves a GGUF file by the server of `llama-cpp-python` until the process is ended: arguments FILE and PORT."""

from __future__ import annotations

import sys
import threading
import time

import uvicorn
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings

weights = ModelSettings(model=sys.argv[1], n_ctx=512, n_threads=1, n_threads_batch=1, verbose=False)
app = create_app(server_settings=ServerSettings(), model_settings=[weights])
server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=int(sys.argv[2]), log_level="error"))
threading.Thread(target=server.run, daemon=True).start()
while not server.started:
    time.sleep(0.05)
print("ready", flush=True)
threading.Event().wait()
