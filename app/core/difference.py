"""The first place at which two requests differ: block, section, offset, and a little of both texts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import zip_longest

from app.core.prefix import Segment
from app.core.secrets import masked_part
from app.core.sent import Sent, run_digests
from app.core.tokens import utf16_length

SHOWN = 60
"""Characters shown before and after the place of a difference."""

AREAS = ("tools", "system", "messages")


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place at which two requests differ. ``offset`` is in characters of the segment's text.

    ``offset`` None: one of the texts is no longer held; it is shown as "", and the other one from its beginning.
    """

    block: int
    at: str
    section: str | None
    offset: int | None
    before: str
    after: str


def difference(before: Sent, after: Sent, shared: int) -> Difference:
    """``before`` has more segments than are shared."""
    old = before.segments[shared]
    new = after.segments[shared] if shared < len(after.segments) else None
    area = min((one.area for one in (old, new) if one), key=AREAS.index)
    olds, news = (one if one is not None and one.area == area else None for one in (old, new))
    texts = (olds.text if olds else "", news.text if news else "")
    offset = None if None in texts else _offset(texts[0] or "", texts[1] or "")
    place = olds or news or old
    return Difference(
        block=shared,
        at=place.at,
        section=_tool(before, olds, news) if area == "tools" else _section(before, after, place, texts, offset),
        offset=offset,
        before=_shown(texts[0], offset),
        after=_shown(texts[1], offset),
    )


def _tool(before: Sent, old: Segment | None, new: Segment | None) -> str | None:
    """The tool that came, else the one that changed or went."""
    known = {one.name for one in before.segments if one.area == "tools"}
    came = new if new is not None and new.name not in known else None
    return next((one.name for one in (came, old, new) if one is not None), None)


def _offset(old: str, new: str) -> int:
    """The first character that differs, found by halves: texts can be long."""
    low, high = 0, min(len(old), len(new))
    while low < high:
        middle = (low + high + 1) // 2
        if old[low:middle] == new[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def _section(
    before: Sent, after: Sent, place: Segment, texts: tuple[str | None, str | None], offset: int | None
) -> str | None:
    """The first section or file of a block that is not the same; where they are not known, the one at the place."""
    changed = _changed_run(before, after, place.at, texts)
    if changed is not None or offset is None:
        return changed
    units = utf16_length(max((text or "" for text in texts), key=len)[:offset])
    return _section_at(before, place.at, units) or _section_at(after, place.at, units)


def _section_at(one: Sent, at: str, units: int) -> str | None:
    passed = 0
    for name, length in one.sections.get(at, ()):
        passed += length
        if units < passed:
            return name
    return None


def _changed_run(before: Sent, after: Sent, at: str, texts: tuple[str | None, str | None]) -> str | None:
    """The first section whose digest differs, where a text is gone."""
    old, new = (_told_runs(one, at, text) for one, text in zip((before, after), texts, strict=True))
    if old is None or new is None:
        return None
    changed = next((rows for rows in zip_longest(old, new) if rows[0] != rows[1]), ())
    return next((row[0] for row in changed if row), None)


def _told_runs(one: Sent, at: str, text: str | None) -> tuple[tuple[str, bytes], ...] | None:
    """(name, digest) of each section; None: nothing is known of them."""
    runs = one.sections.get(at)
    if runs is None:
        return () if text == "" else None
    names = [name for name, _ in runs]
    if text is not None:
        return tuple(zip(names, run_digests(text, runs), strict=False))
    return tuple(zip(names, one.runs[at], strict=False)) if at in one.runs else None


def _shown(text: str | None, offset: int | None) -> str:
    """A little of the text around the place, on one line, with a dot for each character of a secret."""
    start = max(0, (offset or 0) - SHOWN // 3)
    return " ".join(masked_part(text or "", start, start + SHOWN).split())
