import gc
import sys
from dataclasses import fields, replace
from types import FunctionType, ModuleType

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.candidates import MemoryFile
from app.core.configuration import Configuration
from app.core.excludes import ExcludeGlob
from app.core.facts import Notice, OutputStyle
from app.core.footprint import FileMark, FolderMark, Footprint, Stamp
from app.core.late import Late
from app.core.levels import LEVELS
from app.core.memory import Memory
from app.core.previous import Turn
from app.core.remembered import LastRequest, Remembered
from app.core.report import Row
from app.core.sent import lightened, sent
from app.core.tokens import Part
from app.core.weight import weight
from tests.core.raw_requests import REQUESTS, said, text

SIZE = 10_000
LONG = "x" * SIZE
FRESH = Remembered("w", "2026-11-30", {"date": "2026-11-30"})
FILE = MemoryFile("/p/CLAUDE.md", "/p/CLAUDE.md", LEVELS[0], "content", "raw")

TEXTS = st.text("ab é€😀\ud800", max_size=40)
FILES = st.builds(replace, st.just(FILE), path=TEXTS, content=TEXTS, raw=TEXTS, globs=st.tuples(TEXTS), parent=TEXTS)
ROWS = st.builds(Row, TEXTS, st.just("skipped"), TEXTS, hint=st.none() | TEXTS, line=st.integers(1, 9_999))
MEMORIES = st.builds(
    lambda files, rows: Memory(tuple(files), tuple(rows), seen=tuple((one.real, one.path) for one in files)),
    st.lists(FILES, max_size=3),
    st.lists(ROWS, max_size=3),
)
TURNS = st.builds(
    lambda body, limit: Turn(lightened(sent(body, 9, sections={"system[0]": (("a", 1_000),)}), limit), 1, 2),
    REQUESTS,
    st.integers(0, 99),
)
STAMP = Stamp(1, 2, 3, 4, 5)
STAMPS = st.builds(Stamp, *[st.integers(0, 2**62)] * 5)
MARKED = st.builds(FileMark, TEXTS, STAMPS, st.booleans(), st.none() | TEXTS)
WHATS = st.sampled_from(["absent", "directory", "file"]) | TEXTS
FOLDERS = st.builds(
    FolderMark,
    TEXTS,
    STAMPS,
    st.booleans(),
    st.lists(st.tuples(TEXTS, WHATS), max_size=5).map(tuple),
    st.none() | st.lists(TEXTS, max_size=5).map(tuple),
)
FOOTPRINTS = st.builds(Footprint, st.lists(MARKED, max_size=5).map(tuple), st.lists(FOLDERS, max_size=5).map(tuple))
SESSIONS = st.builds(
    Remembered,
    workspace=TEXTS,
    date=TEXTS,
    told=st.dictionaries(TEXTS, TEXTS, max_size=3),
    sections=st.dictionaries(TEXTS, st.none() | TEXTS, max_size=3),
    memory=st.none() | MEMORIES,
    delivered=st.lists(TEXTS, max_size=3).map(tuple),
    late=st.lists(st.builds(Late, st.integers(0, 9), TEXTS, TEXTS), max_size=3).map(tuple),
    tools=st.none() | st.frozensets(TEXTS, max_size=3),
    turn=st.none() | TURNS,
    footprint=st.none() | FOOTPRINTS,
    request=st.none() | st.builds(LastRequest, st.binary(), st.lists(TEXTS, max_size=2).map(tuple)),
    fixed=st.lists(st.builds(Part, TEXTS, st.integers(0, 9_999)), max_size=3).map(tuple),
)


def reachable(root):
    """Bytes of every value that the interpreter finds from ``root``, without code."""
    seen, waiting, total = set(), [root], 0
    while waiting:
        one = waiting.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType):
            continue
        seen.add(id(one))
        total += sys.getsizeof(one)
        waiting.extend(gc.get_referents(one))
    return total


@given(SESSIONS, st.none() | SESSIONS)
def test_it_is_never_less_than_what_can_be_reached_and_never_three_times_as_much(session, replaced):
    one = replace(session, replaced=replaced)
    assert reachable(one) <= weight(one) <= 3 * reachable(one)


def turn(*texts):
    return Turn(sent({"messages": said(*texts)}, 0), 1, 1)


LOADED = {
    "workspace": lambda long: long,
    "date": lambda long: long,
    "told": lambda long: {"git": long},
    "model": lambda long: long,
    "configuration": lambda long: Configuration(excludes=(ExcludeGlob(long, "o"),)),
    "style": lambda long: ("name", OutputStyle("name", long)),
    "sections": lambda long: {"intro": long, "memory": None},
    "memory": lambda long: Memory(files=(replace(FILE, content=long),)),
    "delivered": lambda long: ("/p/a.md", long),
    "late": lambda long: (Late(0, "part", long),),
    "files": lambda long: long,
    "footprint": lambda long: Footprint((FileMark(long, STAMP, settled=True, sha256=None),)),
    "request": lambda long: LastRequest(long.encode()),
    "boundary": lambda long: long,
    "asked": lambda long: long,
    "tools": lambda long: frozenset({long}),
    "layout": lambda long: long,
    "turn": lambda long: turn("a", long),
    "replaced": lambda long: replace(FRESH, sections={"intro": long}),
    "fixed": lambda long: (Part(long, 1),),
}
NUMBERS = {"attempts", "calibrations", "compacting_until", "threshold"}


def test_every_field_with_a_text_is_known_here():
    assert {one.name for one in fields(Remembered)} == LOADED.keys() | NUMBERS


@pytest.mark.parametrize("name", LOADED)
def test_a_long_text_counts_wherever_it_stands(name):
    short, long = (replace(FRESH, **{name: LOADED[name](one)}) for one in ("x", LONG))
    assert SIZE - 1 <= weight(long) - weight(short) <= SIZE + 100


@pytest.mark.parametrize(
    "memory",
    [
        Memory(files=(replace(FILE, raw=LONG),)),
        Memory(rows=(Row("/p", "skipped", hint=LONG),)),
        Memory(notices=(Notice("code", LONG),)),
        Memory(seen=(("/p", LONG),)),
    ],
)
def test_all_that_memory_holds_counts(memory):
    assert weight(replace(FRESH, memory=memory)) > SIZE


@pytest.mark.parametrize(
    "folder",
    [
        FolderMark(LONG, STAMP, True, ()),
        FolderMark("/p", STAMP, True, ((LONG, "absent"),)),
        FolderMark("/p", STAMP, True, (("a", f"link:{LONG}"),)),
        FolderMark("/p", STAMP, True, (), (LONG,)),
    ],
)
def test_all_that_a_footprint_holds_counts(folder):
    assert weight(replace(FRESH, footprint=Footprint((), (folder,)))) > SIZE


@pytest.mark.parametrize(
    "body",
    [
        {"messages": [{"role": "user", "content": LONG}]},
        {"messages": [], "system": LONG},
        {"messages": [], "tools": [{"name": LONG}]},
        {"messages": [{"role": "user", "content": [text("a", {"type": "ephemeral", "ttl": LONG})]}]},
        {"messages": [{"role": "user", "content": [text("a", {"type": "ephemeral", "scope": LONG})]}]},
        {"messages": [], "model": LONG},
    ],
)
def test_all_that_the_last_request_leaves_counts(body):
    assert weight(replace(FRESH, turn=Turn(sent(body, 0), 1, 1))) > SIZE


def test_a_text_that_is_held_twice_counts_once():
    twice = replace(FRESH, sections={"a": LONG, "b": LONG}, replaced=replace(FRESH, sections={"a": LONG}))
    assert SIZE < weight(twice) < 2 * SIZE
    copied = replace(twice, delivered=("".join(list(LONG)),))
    assert weight(copied) > 2 * SIZE


def test_texts_that_went_from_a_request_do_not_count():
    whole = turn(LONG, "a")
    light = replace(whole, sent=lightened(whole.sent, 1))
    assert weight(replace(FRESH, turn=whole)) - weight(replace(FRESH, turn=light)) >= SIZE


@pytest.mark.parametrize("character", ["a", "é", "€", "😀"])
def test_it_has_room_for_the_form_that_a_text_gets_when_it_is_written_as_json(character):
    session = replace(FRESH, sections={"intro": character * SIZE})
    before = weight(session)
    orjson.dumps(dict(session.sections))
    assert reachable(session) <= before
