"""What deepagents' memory middleware takes for the same files. Runs in an environment of its own, not in ours.

``python peer_memory.py FILE...`` prints a line of JSON: microseconds, the medians. Cold: with a fresh state, so that
the files are read; repeat: the state holds them, and the prompt of the next call is made.
"""

import json
import statistics
import sys
import time
from importlib.metadata import version

from deepagents.backends.filesystem import FilesystemBackend
from deepagents.middleware.memory import MemoryMiddleware
from langchain.agents.middleware.types import ModelRequest
from langchain_core.messages import HumanMessage, SystemMessage

TIMES = 1_000
WARM_UP = 50


def request_of(state):
    system = SystemMessage("You are an agent.")
    return ModelRequest(
        model=None, messages=[HumanMessage("Add a discount field.")], system_message=system, state=state
    )


def cold(files):
    middleware = MemoryMiddleware(backend=FilesystemBackend(root_dir="/", virtual_mode=False), sources=files)
    state = {"messages": []}
    state.update(middleware.before_agent(state, None, None))
    return middleware.modify_request(request_of(state))


def repeat(middleware, request):
    middleware.before_agent(request.state, None, None)
    return middleware.modify_request(request)


def timed(work):
    times = []
    for _ in range(WARM_UP + TIMES):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1e6 * statistics.median(times[WARM_UP:])


def main():
    files = sys.argv[1:]
    middleware = MemoryMiddleware(backend=FilesystemBackend(root_dir="/", virtual_mode=False), sources=files)
    state = {"messages": []} | middleware.before_agent({"messages": []}, None, None)
    request = request_of(state)
    found = {
        "version": version("deepagents"),
        "cold": timed(lambda: cold(files)),
        "repeat": timed(lambda: repeat(middleware, request)),
        "characters": len(repeat(middleware, request).system_message.text),
    }
    sys.stdout.write(json.dumps(found) + "\n")


if __name__ == "__main__":
    main()
