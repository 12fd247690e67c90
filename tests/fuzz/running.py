"""One target under atheris, in a process of its own. The arguments are the target and libFuzzer's own."""

from __future__ import annotations

import shlex
import sys
from importlib import import_module

INSTRUMENTED = ["app", "bracex", "markdown_it", "pathspec"]


def main() -> None:
    name, *arguments = sys.argv[1:]
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        target = import_module("tests.fuzz.targets").TARGETS[name]
    again = f"{shlex.quote(sys.executable)} -m tests.fuzz.running {name}"
    atheris.Setup([again, *arguments], target)  # for a merge it starts itself anew, by way of a shell
    atheris.Fuzz()


if __name__ == "__main__":
    main()
