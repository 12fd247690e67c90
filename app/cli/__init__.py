"""The command line: ``strata serve``, ``context``, ``explain``, ``scan``, ``lint-cache``, ``openapi``."""

from __future__ import annotations

import gc
import importlib


def main() -> None:
    """The command's entry point.

    What is imported stays until the end. To look through it for garbage while it grows takes a tenth of the start.
    """
    gc.disable()
    commands = importlib.import_module("app.cli.commands")
    gc.freeze()
    gc.enable()
    commands.cli()
