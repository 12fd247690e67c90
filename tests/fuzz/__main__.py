"""Fuzzing by one command: ``python -m tests.fuzz TARGET|all|contract --seconds N [--workers 1] [--keep]``."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

from tests.fuzz.targets import TARGETS

HERE = Path(__file__).parent
ROOT = HERE.parents[1]
CONTRACT = "contract"
LONGEST = 2048
"""Bytes of an input; what is compared with a slow answer is shorter."""

SHORTER = {"globs": 256, "braces": 256, "markdown": 1024}
SLOWEST_SECONDS = 20
MEBIBYTES = 1500
MISSING = "atheris is not installed: pip install '.[fuzz]'."


def main() -> int:
    options = _options()
    if options.target == CONTRACT:
        return _contract(options.seconds)
    if find_spec("atheris") is None:
        sys.stderr.write(f"{MISSING}\n")
        return 2
    names = list(TARGETS) if options.target == "all" else [options.target]
    failed = [name for name in names if not _fuzzed(name, options.seconds, options.workers, keep=options.keep)]
    for name in failed:
        sys.stderr.write(f"{name}: an input fails, see {(HERE / 'crashes' / name).relative_to(ROOT)}\n")
    return 1 if failed else 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("target", choices=[*TARGETS, "all", CONTRACT])
    parser.add_argument("--seconds", type=int, default=60, help="for each target")
    parser.add_argument("--workers", type=int, default=1, help="processes that share what they find")
    parser.add_argument("--keep", action="store_true", help="put what covers more into the kept corpus")
    return parser.parse_args()


def _contract(seconds: int) -> int:
    command = [sys.executable, "-m", "pytest", "-q", str(HERE / "test_contract.py"), "-p", "no:cacheprovider"]
    return subprocess.run(command, cwd=ROOT, env=_longer(seconds), check=False).returncode


def _longer(seconds: int) -> dict[str, str]:
    return {**os.environ, "FUZZ_SECONDS": str(seconds)}


def _fuzzed(name: str, seconds: int, workers: int, *, keep: bool) -> bool:
    """Whether no input was found that fails."""
    crashes = HERE / "crashes" / name
    crashes.mkdir(parents=True, exist_ok=True)
    kept = HERE / "corpus" / name
    kept.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as found:
        flags = [f"-max_total_time={seconds}", "-print_final_stats=1", f"-artifact_prefix={crashes}/", *_bounds(name)]
        running = [subprocess.Popen(_command(name, found, kept, *flags), cwd=ROOT) for _ in range(workers)]
        fine = [process.wait() for process in running] == [0] * workers
        if keep:
            _merge(name, kept, Path(found))
    if not any(crashes.iterdir()):
        crashes.rmdir()
    return fine


def _bounds(name: str) -> list[str]:
    words = HERE / "dictionaries" / f"{name}.txt"
    dictionary = [f"-dict={words}"] if words.exists() else []
    return [
        f"-max_len={SHORTER.get(name, LONGEST)}",
        f"-timeout={SLOWEST_SECONDS}",
        f"-rss_limit_mb={MEBIBYTES}",
        *dictionary,
    ]


def _command(name: str, *arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "tests.fuzz.running", name, *map(str, arguments)]


def _merge(name: str, kept: Path, found: Path) -> None:
    """Adds what covers more than all that is kept, each named by its digest."""
    flags = ["-merge=1", f"-artifact_prefix={found}/", *_bounds(name)]
    subprocess.run(_command(name, kept, found, *flags), cwd=ROOT, check=True, capture_output=True)


if __name__ == "__main__":
    sys.exit(main())
