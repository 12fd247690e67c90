"""The image, as far as it can be tried without a container engine: its root file system, made of what it is made of."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tomllib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from importlib.metadata import requires
from pathlib import Path

import httpx
import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from app.settings import Settings
from tests.asking import answered, inline, local
from tests.reference.programs import first_commit, git

ROOT = Path(__file__).parents[1]
LINES = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ").splitlines()
STEPS = [line.split(None, 1) for line in LINES if line and not line.startswith("#")]
STAGES = [index for index, step in enumerate(STEPS) if step[0] == "FROM"]
LAST = STEPS[STAGES[-1] :]
USER = 10001
KEY = "a-key"
SHELLS = {"sh", "bash", "dash", "ash", "zsh", "ksh", "busybox", "toybox"}
SERVES = "from app.cli import main; main()"


def environment() -> dict[str, str]:
    """What the image sets for its processes."""
    return dict(pair.split("=", 1) for name, rest in LAST if name == "ENV" for pair in shlex.split(rest))


def last(name: str) -> str:
    return [rest for step, rest in LAST if step == name][-1]


# The file


def test_it_does_not_run_as_root() -> None:
    user, group = last("USER").split(":")
    assert user == group == str(USER)
    assert any(f"--uid {user} " in rest for name, rest in LAST if name == "RUN")


def test_no_shell_is_between_the_engine_and_the_processes() -> None:
    probe = last("HEALTHCHECK").partition("CMD ")[2]
    assert json.loads(last("ENTRYPOINT")) == ["strata"]
    assert json.loads(last("CMD")) == ["serve"]
    assert json.loads(probe)[0] == "python"


def test_nothing_is_imported_from_the_working_directory() -> None:
    assert last("WORKDIR") == "/"
    assert environment()["PYTHONSAFEPATH"] == "1"
    assert json.loads(last("HEALTHCHECK").partition("CMD ")[2])[1] == "-I"


def test_what_installs_packages_stays_behind() -> None:
    kept = [rest for name, rest in STEPS if name == "RUN"]
    assert any("-m venv --without-pip" in rest for rest in kept)
    assert any(
        re.search(r"pip uninstall --yes .*\bpip setuptools wheel\b", rest) for name, rest in LAST if name == "RUN"
    )
    assert any(re.search(r"rm -rf \S*ensurepip\b", rest) for name, rest in LAST if name == "RUN")


def test_every_package_is_installed_by_its_hash_and_as_a_wheel() -> None:
    installs = [rest for name, rest in STEPS if name == "RUN" and re.search(r"\binstall\b.*requirements\.lock", rest)]
    assert len(installs) == 1
    assert "--require-hashes" in installs[0]
    assert "--only-binary :all:" in installs[0]


def test_the_base_has_a_release_and_a_place_for_its_digest() -> None:
    assert re.fullmatch(r"BASE=python:3\.\d+-slim-[a-z]+", next(rest for name, rest in STEPS if name == "ARG"))
    assert all(STEPS[index][1].startswith("${BASE}") for index in STAGES)


def test_only_git_is_added_to_it() -> None:
    added = [re.findall(r"apt-get install -y --no-install-recommends ((?:[a-z0-9.+-]+ ?)+)", line) for line in LINES]
    assert [found for line in added for found in line] == ["git "]


def test_it_holds_no_secret_and_sets_no_setting_that_there_is_not() -> None:
    named = {name.removeprefix("STRATA_").lower() for name in environment() if name.startswith("STRATA_")}
    assert named <= set(Settings.model_fields)
    assert not {"api_keys", "keys_file", "anthropic_api_key", "redis_url"} & named


def needed(written: Iterable[str]) -> set[str]:
    """Everything that packages with these requirements need to run."""
    found: set[str] = set()
    waiting = [Requirement(one) for one in written]
    while waiting:
        one = waiting.pop()
        wanted = {f"{one.name}[{extra}]" for extra in one.extras} | {canonicalize_name(one.name)}
        if not wanted <= found:
            found |= wanted
            inner = map(Requirement, requires(one.name) or ())
            waiting += [each for each in inner if any(applies(each, extra) for extra in {"", *one.extras})]
    return found


def applies(requirement: Requirement, extra: str) -> bool:
    return requirement.marker is None or requirement.marker.evaluate({"extra": extra})


def test_what_only_builds_the_package_is_taken_out_and_nothing_else() -> None:
    locked = set(re.findall(r"^([a-z0-9._-]+)==", (ROOT / "deploy/requirements.lock").read_text(), re.MULTILINE))
    removed = re.search(r"uninstall --yes +((?:[a-z-]+ )+)", "\n".join(rest for name, rest in STEPS[: STAGES[-1]]))
    assert removed is not None
    about = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = about["optional-dependencies"]
    written = [*about["dependencies"], *(one for extra in ("otel", "redis", "watch") for one in optional[extra])]
    assert locked - needed(written) == set(removed[1].split())


def test_nothing_goes_into_it_but_what_it_copies() -> None:
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!")}
    copied = [word for name, rest in STEPS if name == "COPY" and "--from" not in rest for word in rest.split()[:-1]]
    assert kept == set(copied)
    assert [one for one in copied if not (ROOT / one).exists()] == []


# The root file system: nothing but Python, the packages, git and their libraries; read-only, and no shell in it

MAKES = """
set -eu
root="$1"; shift
mount -t tmpfs -o mode=755,nosuid,nodev tmpfs "$root"
mkdir -p "$root/tmp" "$root/dev" "$root/proc"
mount -t tmpfs -o mode=1777,size=64m,nosuid,nodev,noexec tmpfs "$root/tmp"
touch "$root/dev/null"
mount --bind /dev/null "$root/dev/null"
mount --rbind /proc "$root/proc"
while [ "$1" != -- ]; do
    mkdir -p "$root${2%/*}"
    if [ -d "$1" ]; then mkdir -p "$root$2"; else touch "$root$2"; fi
    mount --bind "$1" "$root$2"
    mount -o remount,bind,ro "$root$2"
    shift 2
done
shift
mount -o remount,ro "$root"
exec chroot "$@"
"""
WALK = """
import os
def walk():
    for folder, folders, names in os.walk("/"):
        if folder == "/":
            folders[:] = [name for name in folders if name not in {"proc", "tmp"}]
        yield folder, names
"""
ROOTED = os.geteuid() == 0
NAMESPACE = ["unshare", "--mount"] if ROOTED else ["unshare", "--user", "--map-root-user", "--mount"]
AS_ITS_USER = [f"--userspec={USER}:{USER}"] if ROOTED else []


def libraries_of(*programs: Path) -> set[Path]:
    """The folders of what the programs are linked with."""
    told = subprocess.run(["ldd", *programs], capture_output=True, text=True, check=True).stdout
    return {Path(found).parent for found in re.findall(r"(/\S+) \(0x", told)}


def names_of(program: Path) -> Iterator[Path]:
    """Where it lies, and every link that leads there."""
    while program.is_symlink():
        yield program
        program = program.parent / program.readlink()
    yield program


def parts(workspaces: Path) -> list[tuple[Path, Path]]:
    """What the root holds, each with its place."""
    python, program = Path(sys.executable), Path(shutil.which("git") or "git")
    library = Path(sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix}))
    folders = [Path(sys.prefix), library, ROOT / "app", *sorted(libraries_of(python.resolve(), program))]
    outer = [one for one in folders if not any(other in one.parents for other in folders)]
    links = [one for one in names_of(python) if not any(other in one.parents for other in outer)]
    return [
        *((one, one) for one in outer),
        *((python.resolve(), one) for one in links),
        (program, Path("/usr/bin/git")),
        (workspaces, Path("/srv/workspaces")),
    ]


def inside(root: Path, workspaces: Path, *arguments: str) -> list[str]:
    """The command that runs Python with ``arguments`` in there."""
    bound = [str(one) for pair in parts(workspaces) for one in pair]
    command = [*AS_ITS_USER, str(root), sys.executable, *arguments]
    return [*NAMESPACE, "sh", "-c", MAKES, "sh", str(root), *bound, "--", *command]


def surroundings(**more: str) -> dict[str, str]:
    return {**environment(), "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "PYTHONPATH": str(ROOT), **more}


@dataclass(frozen=True, slots=True)
class Contained:
    """A service that runs in such a root."""

    root: Path
    workspaces: Path
    port: int
    process: subprocess.Popen[bytes]
    client: httpx.Client

    def run(self, *arguments: str, **more: str) -> subprocess.CompletedProcess[str]:
        command = inside(self.root, self.workspaces, *arguments)
        environ = surroundings(STRATA_PORT=str(self.port), **more)
        return subprocess.run(command, env=environ, capture_output=True, text=True, check=False, timeout=60)


@pytest.fixture(scope="module")
def contained(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Contained]:
    root, workspaces = tmp_path_factory.mktemp("root"), tmp_path_factory.mktemp("workspaces")
    workspaces.chmod(0o755)
    repository = workspaces / "app"
    git(repository, "init", "--quiet", "--initial-branch=main")
    first_commit(repository)
    (repository / "CLAUDE.md").write_text("Use tabs.")
    if not (shutil.which("unshare") and shutil.which("ldd")):
        pytest.skip("this machine has no namespaces")
    tried = subprocess.run(
        [*NAMESPACE, "mount", "-t", "tmpfs", "tmpfs", root], capture_output=True, text=True, check=False
    )
    if tried.returncode:
        pytest.skip(f"this machine lets nobody make a root of their own: {tried.stderr.strip()}")
    command = inside(root, workspaces, "-c", SERVES, "serve")
    environ = surroundings(STRATA_API_KEYS=KEY, STRATA_PORT="0")
    with subprocess.Popen(command, env=environ, bufsize=0, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            said = process.stderr.readline().decode()
            found = re.search(r"(http://127\.0\.0\.1:(\d+))", said)
            assert found is not None, said + process.stderr.read().decode()
            headers = {"x-api-key": KEY}
            with httpx.Client(base_url=found[1], trust_env=False, timeout=60, headers=headers) as client:
                client.get("/healthz")
                yield Contained(root, workspaces, int(found[2]), process, client)
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == -signal.SIGTERM
        finally:
            process.kill()


def test_it_answers_there_for_files_folders_and_commits(contained: Contained) -> None:
    folder = Path("/srv/workspaces/app")
    answered(contained.client.post("/v1/context", json=inline()))
    told = answered(contained.client.post("/v1/context", json=local(folder)))
    assert [row["path"] for row in told["memory"]["report"] if row["verdict"] == "loaded"] == [f"{folder}/CLAUDE.md"]
    assert "main" in json.dumps(told["user_context"] | {"system": told["request"]["system"]})
    commit = inline(workspace={"source": "git", "cwd": None, "files": {}, "repository": str(folder)})
    answered(contained.client.post("/v1/context", json=commit))


def test_no_shell_stands_in_its_root(contained: Contained) -> None:
    seen = contained.run("-c", WALK + 'for _, names in walk(): print(*names, sep="\\n")')
    names = set(seen.stdout.split())
    assert {"git", "CLAUDE.md"} <= names
    assert names & SHELLS == set()


@pytest.mark.skipif(not ROOTED, reason="an account that is not root can be no other one")
def test_it_runs_as_its_own_user(contained: Contained) -> None:
    status = Path(f"/proc/{contained.process.pid}/status").read_text()
    assert re.findall(r"^(?:Uid|Gid):\t(\d+)\t(\d+)\t(\d+)\t(\d+)$", status, re.MULTILINE) == [(str(USER),) * 4] * 2
    assert re.search(r"^CapEff:\t0+$", status, re.MULTILINE)


def test_it_can_write_nowhere_but_into_its_temporary_folder(contained: Contained) -> None:
    tries = """
import tempfile
tempfile.TemporaryFile().close()
for folder, _ in walk():
    try:
        open(os.path.join(folder, "written"), "w").close()
    except OSError:
        continue
    print(folder)
"""
    done = contained.run("-c", WALK + tries)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr


def test_the_image_s_own_probe_says_how_it_is(contained: Contained) -> None:
    arguments = json.loads(last("HEALTHCHECK").partition("CMD ")[2])[1:]
    assert contained.run(*arguments).returncode == 0
    assert contained.run(*arguments, http_proxy="http://127.0.0.1:1").returncode == 0
    with socket.create_server(("127.0.0.1", 0)) as free:
        nobody = free.getsockname()[1]
    assert replace(contained, port=nobody).run(*arguments).returncode == 1


def test_nothing_but_git_is_ever_started(tmp_path: Path) -> None:
    repository, started = tmp_path / "app", tmp_path / "started"
    git(repository, "init", "--quiet", "--initial-branch=main")
    first_commit(repository)
    noting = (
        "import os, sys\n"
        "def note(event, arguments):\n"
        "    if event in {'subprocess.Popen', 'os.exec', 'os.posix_spawn', 'os.spawn', 'os.system', 'pty.spawn'}:\n"
        f"        os.write(notes, (os.fsdecode(arguments[0]) + '\\n').encode())\n"
        f"notes = os.open({str(started)!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)\n"
        "sys.addaudithook(note)\n"
    )
    environ = {**surroundings(HOME=str(tmp_path)), "PATH": os.environ["PATH"], "STRATA_HOST": "127.0.0.1"}
    environ |= {"STRATA_PORT": "0", "STRATA_ROOTS": str(tmp_path)}
    command = [sys.executable, "-c", noting + SERVES, "serve"]
    with subprocess.Popen(command, env=environ, bufsize=0, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        try:
            found = re.search(r"(http://127\.0\.0\.1:\d+)", process.stderr.readline().decode())
            assert found is not None
            with httpx.Client(base_url=found[1], trust_env=False, timeout=60) as client:
                answered(client.post("/v1/context", json=local(repository)))
                client.post("/v1/scan", json={"workspace": local(repository)["workspace"]}).raise_for_status()
        finally:
            process.kill()
    programs = {Path(line).name for line in started.read_text().splitlines()}
    assert programs == {"git"}
