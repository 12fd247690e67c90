"""One target under atheris, in a process of its own. The arguments are the target and libFuzzer's own."""

from __future__ import annotations

import sys
from importlib import import_module

INSTRUMENTED = ["app", "bracex", "markdown_it", "pathspec"]


def main() -> None:
    name, *arguments = sys.argv[1:]
    atheris = import_module("atheris")
    with atheris.instrument_imports(include=INSTRUMENTED):
        target = import_module("tests.fuzz.targets").TARGETS[name]
    atheris.Setup([sys.argv[0], *arguments], target)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
