"""Asks pip-audit whether a lock names packages with known faults: ``audit.py LOCK [pip-audit's arguments]``.

Ends with 0 when every package is known and none has a fault, with 1 when one has or the audit itself failed, and with 3
when nobody can be asked. pip-audit calls it a success when its source knows no package, or no fault of any: so one
with a fault that everybody knows is asked for first.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

CLEAN, FAULTY, NO_DATA = 0, 1, 3
PIP_AUDIT = [sys.executable, "-m", "pip_audit", "--disable-pip", "--progress-spinner", "off", "--format", "json"]

KNOWN_TO_BE_FAULTY = "pyyaml==5.3"

AWAY = re.compile(r"requests\.exceptions\.|ConnectionError|ServiceError|Could not connect|HTTPError|Timeout")
"""What pip-audit says when its source cannot be asked."""

Found = list[dict[str, Any]]


def asked(lock: Path, options: list[str]) -> tuple[Found | None, str]:
    """What was found of each package, None where nothing came of it; and what pip-audit said."""
    command = [*PIP_AUDIT, "--requirement", str(lock), *options]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    try:
        return json.loads(done.stdout)["dependencies"], done.stderr
    except json.JSONDecodeError:
        return None, done.stderr


def faults_in(found: Found) -> list[str]:
    return [
        f"{one['name']} {one['version']}: {fault['id']}, mended in {', '.join(fault['fix_versions']) or 'no version'}"
        for one in found
        for fault in one.get("vulns", ())
    ]


def why_nobody_knows(options: list[str]) -> str | None:
    """None: there is a source, and it knows of faults."""
    with tempfile.TemporaryDirectory() as folder:
        alone = Path(folder) / "faulty.txt"
        alone.write_text(f"{KNOWN_TO_BE_FAULTY}\n", encoding="utf-8")
        found, said = asked(alone, ["--no-deps", *options])
    if found is None:
        return f"no source of advisories can be asked from here: {(said.strip() or 'nothing said').splitlines()[-1]}"
    return None if faults_in(found) else f"the source knows no fault of {KNOWN_TO_BE_FAULTY}: it has no advisories"


def verdict(found: Found) -> tuple[int, str]:
    faults, unknown = faults_in(found), [one["name"] for one in found if "skip_reason" in one]
    told = [*faults, *([f"no data on {len(unknown)} of {len(found)}: {', '.join(unknown)}"] if unknown else [])]
    if faults:
        return FAULTY, "\n".join(told)
    return (NO_DATA, told[0]) if unknown else (CLEAN, f"{len(found)} packages without a known fault")


def audit(lock: Path, options: list[str]) -> tuple[int, str]:
    """The code to end with, and what to say."""
    missing = why_nobody_knows(options)
    if missing is not None:
        return NO_DATA, missing
    found, said = asked(lock, ["--require-hashes", *options])
    if found is None:
        return (NO_DATA if AWAY.search(said) else FAULTY), said
    return verdict(found)


def main() -> int:
    code, said = audit(Path(sys.argv[1]), sys.argv[2:])
    sys.stdout.write(f"{said}\n")
    return code


if __name__ == "__main__":
    sys.exit(main())
