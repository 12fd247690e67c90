"""What Redis is told to do in one step: scripts that know one key each, or two that a cluster keeps in one place."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Script:
    """``sha`` is what Redis calls it once it was told."""

    text: str
    sha: str


def _script(text: str) -> Script:
    return Script(text, hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest())


LONG = b"long"
"""Stands for a field that is longer than any that is written here."""

_FIELDS = """
local kind = redis.call('TYPE', KEYS[1]).ok
local function field(name)
    if kind ~= 'hash' then return false end
    if redis.call('HSTRLEN', KEYS[1], name) > 32 then return 'long' end
    return redis.call('HGET', KEYS[1], name)
end
"""

FIND = _script(
    _FIELDS
    + """
if kind ~= 'hash' and kind ~= 'none' then return false end
if ARGV[1] ~= '' then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end
return {field('version'), field('lineage'), field('count')}
"""
)
"""Of another type: nothing. With ARGV[1] it lives for so many milliseconds from now on."""

BODY = _script(
    _FIELDS
    + """
local size = kind == 'hash' and redis.call('HSTRLEN', KEYS[1], 'body') or 0
local body = size > 0 and redis.call('HGET', KEYS[1], 'body') or ''
if size > tonumber(ARGV[1]) then body = string.sub(body, 1, tonumber(ARGV[2])) end
return {field('version'), field('lineage'), field('count'), size, body}
"""
)
"""The whole body of at most ARGV[1] bytes; of a longer one the first ARGV[2]."""

SAVE = _script(
    _FIELDS
    + """
if kind ~= 'hash' and kind ~= 'none' then redis.call('DEL', KEYS[1]) end
local version, held, past = field('version') or '0', field('lineage') or ARGV[3], field('count') or '0'
local lineage, count = ARGV[3], tonumber(ARGV[4])
if field('by') == ARGV[2] then return {held, past} end
if version ~= ARGV[1] then return false end
if count == 0 then
    count = 1
    if version ~= '0' then lineage, count = held, (#past < 14 and tonumber(past) or 0) + 1 end
end
local written = ARGV[5] == '' and '0' or ARGV[2]
redis.call('HSET', KEYS[1], 'version', written, 'lineage', lineage, 'count', count, 'body', ARGV[5], 'by', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[6])
return {lineage, tostring(count)}
"""
)
"""Writes if the version is still ARGV[1], and says again what it wrote when it is asked twice with one ARGV[2]."""

DELETE = _script(
    _FIELDS
    + """
local version, lineage, by = field('version') or '0', field('lineage') or '', field('by')
local none = version == '0'
if by == ARGV[1] then return {none and lineage == '*' and ARGV[3] or lineage, 1} end
if none then
    if lineage ~= '' and (ARGV[3] == '' or ARGV[3] == lineage) then return {'', 0} end
    lineage = ARGV[3] == '' and '*' or ARGV[3]
elseif ARGV[2] ~= '*' and not string.find(ARGV[2], ' ' .. lineage .. ' ', 1, true) then
    return {'', 0}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'version', '0', 'lineage', lineage, 'count', '0', 'by', ARGV[1])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {none and ARGV[3] or lineage, 1}
"""
)
"""Leaves a mark of what was deleted, for processes that hold a copy: of any lineage where nothing was there.

Says what was deleted, and whether the mark is its own. DEL comes first: a full Redis lets it pass.
"""

DISCARD = _script(
    _FIELDS
    + """
if field('version') == ARGV[1] then redis.call('UNLINK', KEYS[1]) end
"""
)

EVICT = _script(
    _FIELDS
    + """
if kind ~= 'hash' then return false end
if field('by') ~= ARGV[1] then return {field('by') or '', redis.call('HSTRLEN', KEYS[1], 'body')} end
local version = field('version')
redis.call('UNLINK', KEYS[1])
return version == '0' and 0 or 1
"""
)
"""Removes what the write ARGV[1] left, and says whether that was a session; else who wrote what is there, its size."""

_BOOKS = """
local function begin() redis.call('DEL', KEYS[1], KEYS[2]) end
local function count() return redis.call('ZCARD', KEYS[1]) end
local function number(text)
    return type(text) == 'string' and #text <= 15 and string.find(text, '^%d+$') and tonumber(text) or nil
end
local function total() return number(redis.call('HGET', KEYS[2], 'total') or '0') end
local function whole()
    local order, rows = redis.call('TYPE', KEYS[1]).ok, redis.call('TYPE', KEYS[2]).ok
    if order == 'none' then return rows == 'none' end
    return order == 'zset' and rows == 'hash' and redis.call('HLEN', KEYS[2]) == count() + 1 and total() ~= nil
end
local function row(name)
    if redis.call('HSTRLEN', KEYS[2], name) > 40 then return nil end
    local by, cost = string.match(redis.call('HGET', KEYS[2], name) or '', '^(%d+) (%d+)$')
    return by, number(cost)
end
local function tell(sum) redis.call('HSET', KEYS[2], 'total', string.format('%.0f', sum)) end
local most, most_bytes, at_once = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local function too_much(sum)
    local going, left, at = {}, count(), 0
    while (left > most or sum > most_bytes) and left > 1 and at < at_once do
        local oldest = redis.call('ZRANGE', KEYS[1], at, at)[1]
        local by, cost = row(oldest)
        if not cost then return nil end
        going[2 * at + 1], going[2 * at + 2] = oldest, by
        left, sum, at = left - 1, sum - cost, at + 1
    end
    if left > 1 then return going end
    local _, cost = row(redis.call('ZRANGE', KEYS[1], -1, -1)[1])
    return cost == sum and going or nil
end
"""
"""At most ARGV[1] of together ARGV[2] bytes stay, but for the last; ARGV[3] are to go at once, each with who wrote it.

What is not as it is written here is thrown away.
"""

BOOK = _script(
    _BOOKS
    + """
redis.call('PEXPIRE', KEYS[1], ARGV[4])
local function booked()
    local last = redis.call('ZREVRANGE', KEYS[1], 0, 0, 'WITHSCORES')[2]
    local rank, by, before = tonumber(last or 0) + 1, row(ARGV[5])
    local sum = total() - (before or 0) + tonumber(ARGV[7])
    if not (rank > 0 and rank < 2^53) or sum < 0 or (redis.call('HEXISTS', KEYS[2], ARGV[5]) == 1 and not before) then
        return nil
    end
    redis.call('ZADD', KEYS[1], rank, ARGV[5])
    redis.call('HSET', KEYS[2], ARGV[5], ARGV[6] .. ' ' .. ARGV[7])
    tell(sum)
    return too_much(sum)
end
local going = whole() and booked()
if not going then
    begin()
    going = booked()
end
for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[4]) end
return going
"""
)
"""Books that ARGV[6] writes ARGV[7] bytes as ARGV[5], as the last of all, and says what is to go.

The first PEXPIRE lets a full Redis take what follows. The order is by rank: no clock tells it.
"""

MEND = _script(
    _BOOKS
    + """
if not whole() or count() == 0 then return {} end
local sum = total()
for at = 4, #ARGV, 4 do
    local name, there = ARGV[at], ARGV[at + 2]
    local by, cost = row(name)
    if cost and by == ARGV[at + 1] then
        sum = sum - cost
        if there == '' then
            redis.call('ZREM', KEYS[1], name)
            redis.call('HDEL', KEYS[2], name)
        else
            redis.call('HSET', KEYS[2], name, there .. ' ' .. ARGV[at + 3])
            sum = sum + tonumber(ARGV[at + 3])
        end
    end
end
if sum < 0 or count() == 0 then
    begin()
    return {}
end
tell(sum)
return too_much(sum) or {}
"""
)
"""Of each four from ARGV[4] on, what is booked as the first of the second is of the third, and takes the fourth.

Without a third it is gone. Says what is still to go.
"""

RENEW = _script("for _, key in ipairs(KEYS) do redis.call('PEXPIRE', key, ARGV[1]) end")
