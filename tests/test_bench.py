"""The benchmark of speed on tiny runs: its load client, its floor, its tables and its judgement."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from fastapi import FastAPI
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import Route

from app.building import build_contexts
from app.cli.server import _configuration
from app.settings import Settings
from tests.bench import growth, speed, tables
from tests.bench.floor import OPTIONS, Fixed, floor
from tests.bench.growth import Curve
from tests.bench.in_process import InProcess, asked
from tests.bench.load import MARK, BadAnswerError, Client, Job, quantile, read, written
from tests.bench.over_http import Compared
from tests.bench.peers import Deepagents, Memories, Proxied
from tests.bench.processes import Driver, Served, cpu, driver, family, memory
from tests.bench.rounds import Figures, Pace, RefusedError, Subject, measured
from tests.bench.targets import Run, Target, targets
from tests.bench.trees import body, deep, including, inline_body, polled, posted, repository, ruled, typical
from tests.serving import serve

KILOBYTES = Fixed(200, (("content-type", "text/plain"), ("content-length", "50000")), b"a" * 50_000)
NOTHING = Fixed(304, (("etag", '"a"'),))
CALLS = st.floats(0.001, 1000)


def get(path: str) -> bytes:
    return f"GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode()


@pytest.fixture(scope="module")
def client() -> Iterator[Driver]:
    with driver() as made:
        yield made


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    folder = tmp_path_factory.mktemp("floor")
    with floor({"/some": KILOBYTES, "/none": NOTHING}, folder) as served:
        yield served


class Listener:
    """Notes what is asked of it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, int]] = []
        self.app = Starlette(
            routes=[
                Route("/endless", self._endless, methods=["GET"]),
                Route("/{name}", self._heard, methods=["GET", "POST"]),
            ]
        )

    async def _heard(self, request: Request) -> Response:
        self.seen.append((request.url.path, len(await request.body())))
        return Response(b"heard")

    async def _endless(self, request: Request) -> Response:
        return StreamingResponse(iter([b"no length"]))


def port_of(address: str) -> int:
    return int(address.rpartition(":")[2])


def test_a_job_comes_through_the_pipe_as_it_was() -> None:
    job = Job(80, (b"\x00\xff", b"GET"), 3, 0.5, 7, 9)
    assert read(written(job)) == job


def test_every_answer_is_counted_with_its_status_and_length(client: Driver, bare: Served) -> None:
    load = client.run(Job(bare.port, (get("/some"), get("/none")), clients=2, seconds=60, most=40))
    assert load.count == 40
    assert set(load.statuses) == {"200", "304"}
    assert sum(load.statuses.values()) == 40
    assert load.length == 50_000


def test_a_load_ends_with_its_time_and_knows_how_fast_it_was(client: Driver, bare: Served) -> None:
    load = client.run(Job(bare.port, (get("/some"),), clients=4, seconds=0.1))
    assert load.rate == load.count / load.seconds
    assert 0 < load.p50 <= load.p99 <= load.seconds
    assert load.busy > 0


def test_numbered_requests_are_sent_once_each_in_turn() -> None:
    listener, mark = Listener(), MARK.decode()
    with serve(listener.app) as address:
        requests = (get(f"/a{mark}"), get(f"/b{mark}"))
        Client(Job(port_of(address), requests, clients=1, seconds=60, most=5, number_from=3)).run()
    assert [path for path, _ in listener.seen] == [f"/{kind}{3 + place:012d}" for place, kind in enumerate("ababa")]


def test_a_body_larger_than_what_a_socket_takes_at_once_arrives_whole() -> None:
    listener, size = Listener(), 8_000_000
    head = f"POST /large HTTP/1.1\r\nhost: localhost\r\ncontent-length: {size}\r\n\r\n".encode()
    with serve(listener.app) as address:
        Client(Job(port_of(address), (head + bytes(size),), clients=2, seconds=60, most=4)).run()
    assert listener.seen == [("/large", size)] * 4


@pytest.mark.parametrize(
    ("request_", "word"), [(get("/endless"), "without a length"), (b"POST / HTTP/9\r\n\r\n", "a connection")]
)
def test_an_answer_that_cannot_be_measured_is_an_error(request_: bytes, word: str) -> None:
    with serve(Listener().app) as address, pytest.raises(BadAnswerError, match=word):
        Client(Job(port_of(address), (request_,), seconds=60, most=2)).run()


@given(st.lists(st.floats(0, 1), min_size=1, max_size=300), st.sampled_from([0.01, 0.5, 0.9, 0.99, 1.0]))
def test_a_quantile_is_the_smallest_value_that_so_many_do_not_pass(values: list[float], part: float) -> None:
    ordered = sorted(values)
    found = quantile(ordered, part)
    assert sum(value <= found for value in ordered) >= part * len(ordered)
    assert sum(value < found for value in ordered) < part * len(ordered)


def test_the_floor_is_served_as_the_service_is() -> None:
    app = FastAPI()
    app.state.stopping = asyncio.Event()
    configured = _configuration(app, 10)
    assert {name: getattr(configured, name) for name in OPTIONS} == OPTIONS


def test_rounds_compare_a_subject_with_its_floor(client: Driver, bare: Served) -> None:
    subjects = (
        Subject("floor", bare, (get("/some"),)),
        Subject("same", bare, (get("/some"),), "floor"),
        Subject("less", bare, (get("/none"),), status=304, size=12),
    )
    beside, same, less = measured(client, subjects, 2, Pace(3, 0.05))
    assert beside.of_floor is less.of_floor is None
    assert same.of_floor is not None
    assert same.of_floor > 0
    assert (same.size, same.clients, less.size) == (50_000, 2, 12)


def test_another_status_than_the_expected_one_is_not_measured(client: Driver, bare: Served) -> None:
    with pytest.raises(RefusedError, match="304"):
        measured(client, [Subject("odd", bare, (get("/none"),))], 1, Pace(1, 0.02))


def test_a_process_is_watched_with_what_it_runs(bare: Served, client: Driver) -> None:
    before = cpu(bare.pid)
    client.run(Job(bare.port, (get("/some"),), clients=4, seconds=0.3))
    assert cpu(bare.pid) > before
    assert bare.pid in family(bare.pid)
    assert 0 < memory(bare.pid).own <= memory(bare.pid).resident


@pytest.mark.parametrize("in_git", [False, True])
def test_the_usual_tree_has_twelve_files_of_thirty_kilobytes_on_four_levels(tmp_path: Path, in_git: bool) -> None:
    cwd = typical(tmp_path)
    if in_git:
        repository(tmp_path)
    files = loaded(tmp_path, cwd)
    assert len(files) == 12
    assert 25_000 < sum(Path(file).stat().st_size for file in files) < 35_000
    assert len({Path(file).parent for file in files if Path(file).name == "CLAUDE.md"}) == 4


def loaded(root: Path, cwd: Path) -> list[str]:
    settings = Settings(roots=(root,))
    contexts = build_contexts(settings)

    async def found() -> list[str]:
        answer = await contexts.answer(asked(settings, cwd, "one"))
        await contexts.close()
        return [file.path for file in answer.assembly.facts.memory.files]

    return asyncio.run(found())


@pytest.mark.parametrize(
    ("build", "count", "files"), [(ruled, 7, 4), (including, 70, 71), (deep, 9, 9), (growth.unrelated, 6, 2)]
)
def test_a_tree_that_grows_loads_what_its_count_says(
    tmp_path: Path, build: growth.Build, count: int, files: int
) -> None:
    assert len(loaded(tmp_path, build(tmp_path, count, "mark"))) == files


@given(st.floats(-1, 2), CALLS, st.lists(st.integers(1, 10_000), min_size=2, max_size=6, unique=True))
def test_the_exponent_of_a_power_is_the_power(power: float, factor: float, counts: list[int]) -> None:
    points = tuple((count, factor * count**power) for count in sorted(counts))
    curve = Curve("power", points)
    assert curve.exponent == pytest.approx(power, abs=1e-6)
    assert curve.steepest == pytest.approx(10**power, rel=1e-4)


def figures(name: str, rate: float = 100, p99: float = 2, busy: float = 0.2) -> Figures:
    return Figures(name, 20_000, 8, rate, 1, p99, 0.1, busy)


def compared(name: str, of_floor: float, p99_of_floor: float = 1, busy: float = 0.2) -> Compared:
    subject = replace(figures(name), of_floor=of_floor, p99_of_floor=p99_of_floor)
    return Compared(figures("floor of warm", busy=busy), subject)


def judged(run: Run) -> dict[str, bool]:
    return {target.name: target.met for target in targets(run)}


INSIDE = InProcess(900.0, 10.0, {"parse": 1.0}, ["/a"])


def test_one_row_beyond_a_bound_misses_the_target() -> None:
    rows = [compared("warm", 0.9, 1.2), compared("warm", 0.79, 1.31), compared("validated", 0.5)]
    found = judged(Run(compared=rows))
    assert not found["warm: requests per second"]
    assert not found["warm: p99"]
    assert found["validated: requests per second"]
    assert found["the load client is not the limit"]


def test_a_kind_of_answer_that_was_not_measured_misses_its_target() -> None:
    found = {target.name: target for target in targets(Run(compared=[compared("warm", 1)]))}
    assert "not measured" in found["304"].found
    assert not found["304"].met


def test_a_warm_answer_that_was_not_given_misses_its_target() -> None:
    memories = Memories(replace(INSIDE, warm_core=None), INSIDE, Deepagents("1", 1e6, 1e6, 10))
    assert judged(Run(memories=memories)) == {"warm core": False, "cold core": True}


def test_a_busy_load_client_is_told() -> None:
    assert not judged(Run(compared=[compared("cold", 0.1, busy=0.95)]))["the load client is not the limit"]


@pytest.mark.parametrize(("cost", "met"), [(12, True), (13, False)])
def test_growth_is_judged_where_it_is_steepest(cost: float, met: bool) -> None:
    steps = ((3, 1.0), (30, cost), (300, cost))
    curves = [Curve("rules", steps, cap=12), Curve("folders above", ((2, 1.0), (20, 99.0)))]
    assert list(judged(Run(curves=curves)).values()) == [met]


@pytest.mark.parametrize(("repeat", "cold", "met"), [(50, 900, True), (49, 899, False)])
def test_in_process_it_is_judged_against_deepagents(repeat: float, cold: float, met: bool) -> None:
    memories = Memories(INSIDE, INSIDE, Deepagents("1", cold, repeat, 10))
    assert judged(Run(memories=memories)) == {"warm core": met, "cold core": met}


@pytest.mark.parametrize(("through", "met"), [(21, True), (10.9, False)])
def test_over_http_it_is_judged_against_what_a_proxy_adds(through: float, met: bool) -> None:
    rows = (figures("straight"), replace(figures("proxy"), p50=through), figures("warm"))
    assert list(judged(Run(proxied=Proxied("1", rows))).values()) == [met]


def test_a_process_that_is_slow_to_start_misses_the_target() -> None:
    assert judged(Run(starts=[0.5, 0.9, 3.0])) == {"process to first answer": True}
    assert judged(Run(starts=[0.5, 1.0, 1.0])) == {"process to first answer": False}


def test_tables_have_as_many_cells_in_every_row() -> None:
    rows = [compared("warm", 0.9), compared("warm", 0.8)]
    made = [
        tables.over_http(rows),
        tables.growth([Curve("rules", ((3, 1.0), (30, 4.0)))]),
        tables.memories(Memories(INSIDE, INSIDE, Deepagents("1", 5, 5, 10))),
        tables.judged([Target("warm", "at least 1", "2", met=True)]),
    ]
    for table in made:
        assert len({line.count("|") for line in table.splitlines()}) == 1
        assert len(table.splitlines()) > 2


def test_requests_are_written_with_the_length_of_their_body() -> None:
    head, _, content = posted(body(Path("/p"), "s"), "accept-encoding: zstd").partition(b"\r\n\r\n")
    assert f"content-length: {len(content)}".encode() in head.split(b"\r\n")
    assert head.endswith(b"accept-encoding: zstd")
    assert polled("s").startswith(b"GET /v1/sessions/s/context HTTP/1.1\r\n")
    assert posted(inline_body("/p", "text")).endswith(b"}")


def test_a_tiny_run_measures_every_kind_of_answer_and_a_start() -> None:
    extent = replace(speed.QUICK, pace=Pace(1, 0.03), sizes=(20_000,), clients=(1,), starts=1)
    with speed.prepared(extent, Path("nowhere")) as bench:
        told = list(speed.reported(bench, ("http", "start")))
    kinds = ["warm", "validated", "validated, in git", "inline, no session", "cold", "warm GET", "304"]
    rows = [line.split(" | ")[0].removeprefix("| ") for line in told[0].splitlines()]
    assert [name for name in rows if name in kinds] == kinds
    assert "first answer" in told[1]
    assert "process to first answer" in told[2]


def test_growth_is_measured_and_drawn(tmp_path: Path, client: Driver) -> None:
    axis = growth.Axis("rules", ruled, (20,), files_each=growth.MOST_FILES)
    [curve] = growth.curves(tmp_path, client, [axis], ())
    assert [count for count, _ in curve.points] == [20]
    pytest.importorskip("matplotlib")
    growth.draw([Curve("rules", ((1, 2.0), (20, 3.0)))], tmp_path / "plots" / "growth.png")
    assert (tmp_path / "plots" / "growth.png").read_bytes().startswith(b"\x89PNG")
