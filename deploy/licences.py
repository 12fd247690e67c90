"""Prints every package of a lock with version, licence and where its metadata says so. Run by ``deploy/licences``.

The packages have to be installed, in the versions of the lock.
"""
# ruff: noqa: INP001, TID251 - a script beside the application, which reads files

from __future__ import annotations

import re
import sys
from email.message import Message
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

LOCKED = re.compile(r"^([A-Za-z0-9._-]+)==([^\s;]+)", re.MULTILINE)
LONGEST_NAME = 60
"""Characters of a name; what is longer is the licence's text."""

SPDX = {
    "3-Clause BSD License": "BSD-3-Clause",
    "Apache Software License": "Apache-2.0",
    "BSD License": "BSD",
    "ISC License": "ISC",
    "ISC License (ISCL)": "ISC",
    "MIT License": "MIT",
    "Mozilla Public License 2.0 (MPL 2.0)": "MPL-2.0",
}
HEAD = """# Licences

What `deploy/requirements.lock` installs, with the licence that each package's own METADATA states, and the field that
states it. Native libraries that a wheel brings along have theirs in the wheel. Written by `./deploy/licences`.

| package | version | licence | stated in |
|---|---|---|---|
"""


class UnstatedError(Exception):
    """A package that is not installed as locked, or does not say under which licence it is."""


def licence_in(metadata: Message) -> tuple[str, str] | None:
    """The licence and the field that states it."""
    if expression := metadata.get("License-Expression"):
        return expression, "License-Expression"
    named = metadata.get("License") or ""
    if named and len(named) <= LONGEST_NAME and "\n" not in named:
        return SPDX.get(named, named), "License"
    classifiers = [one.rpartition(" :: ")[2] for one in metadata.get_all("Classifier", ()) if one.startswith("License")]
    licences = [SPDX.get(one, one) for one in classifiers if one != "OSI Approved"]
    return (" OR ".join(licences), "Classifier") if licences else None


def row(name: str, version: str) -> str:
    try:
        installed = distribution(name)
    except PackageNotFoundError as error:
        raise UnstatedError(f"{name} is not installed") from error
    if installed.version != version:
        raise UnstatedError(f"{name} is locked as {version} and installed as {installed.version}")
    found = licence_in(installed.metadata)  # type: ignore[arg-type]
    if found is None:
        raise UnstatedError(f"{name} does not state its licence")
    return f"| {name} | {version} | {found[0]} | {found[1]} |\n"


def main() -> None:
    """Raises UnstatedError."""
    locked = LOCKED.findall(Path(sys.argv[1]).read_text(encoding="utf-8"))
    sys.stdout.write(HEAD + "".join(row(name, version) for name, version in locked))


if __name__ == "__main__":
    main()
