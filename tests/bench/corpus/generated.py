"""Texts made from a seed: the same on every machine and every Python."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from tests.bench.corpus.dice import FACES, NAMES, PEOPLE, Dice

BROWSER = "Mozilla/5.0 (X11; Linux x86_64)"


def record(dice: Dice, depth: int = 2) -> dict[str, Any]:
    return {dice.name(): value(dice, depth) for _ in range(dice.number(3, 8))}


def value(dice: Dice, depth: int) -> Any:
    choice = dice.number(0, 9)
    if choice < 2 and depth:
        return record(dice, depth - 1)
    if choice == 2 and depth:
        return [value(dice, depth - 1) for _ in range(dice.number(0, 5))]
    plain: tuple[Any, ...] = (
        dice.phrase(1, 9), dice.number(0, 100_000), dice.number(0, 10**6) / 100, dice.moment(), dice.name(),
        dice.number(0, 1) == 1, None, dice.hexadecimal(4),
    )  # fmt: skip
    return plain[dice.number(0, len(plain) - 1)]


def compact_json(dice: Dice) -> str:
    return json.dumps([record(dice) for _ in range(12)], separators=(",", ":"))


def pretty_json(dice: Dice) -> str:
    return json.dumps({"items": [record(dice) for _ in range(9)]}, indent=dice.number(1, 2) * 2)


def lock_file(dice: Dice) -> str:
    rows = {}
    for _ in range(12):
        name, version = dice.name(), dice.version()
        rows[f"node_modules/{name}"] = {
            "version": version,
            "resolved": f"packages.example/{name}/-/{name}-{version}.tgz",
            "integrity": f"sha512-{dice.base64(64, 64)}",
            "engines": {"node": f">={dice.number(10, 20)}"},
        }
    return json.dumps({"lockfileVersion": 3, "packages": rows}, indent=2)


def application_log(dice: Dice) -> str:
    level = ("INFO", "INFO", "DEBUG", "WARNING", "ERROR")
    return "\n".join(
        f"{dice.moment()} {dice.pick(level)} [{dice.name()}-{dice.number(1, 32)}] {dice.phrase(4, 12)}"
        f" {dice.name()}={dice.number(1, 90_000)} {dice.name()}={dice.hexadecimal(8)} took {dice.number(1, 4000)}ms"
        for _ in range(30)
    )


def access_line(dice: Dice) -> str:
    place = f"10.{dice.number(0, 255)}.{dice.number(0, 255)}.{dice.number(1, 254)}"
    moment = f"{dice.number(10, 28)}/Nov/2026:{dice.number(10, 23)}:{dice.number(10, 59)}:{dice.number(10, 59)} +0000"
    path = f"/api/v{dice.number(1, 3)}/{dice.name()}/{dice.number(1, 99_999)}"
    status = dice.pick(("200", "200", "204", "301", "404", "500"))
    asked = f"{dice.pick(('GET', 'POST', 'PUT'))} {path} HTTP/1.1"
    return f'{place} - - [{moment}] "{asked}" {status} {dice.number(100, 90_000)} "-" "{BROWSER}"'


def access_log(dice: Dice) -> str:
    return "\n".join(access_line(dice) for _ in range(25))


def json_log(dice: Dice) -> str:
    rows = (
        {"time": dice.moment(), "level": "info", "message": dice.phrase(3, 9), **record(dice, 0)} for _ in range(20)
    )
    return "\n".join(map(json.dumps, rows))


def traceback(dice: Dice) -> str:
    lines = ["Traceback (most recent call last):"]
    for _ in range(12):
        name = dice.pick(NAMES)
        lines += [
            f'  File "/srv/{dice.pick(NAMES)}/{name}.py", line {dice.number(3, 900)}, in {dice.pick(NAMES)}_{name}',
            f"    {name} = self.{dice.name()}({dice.pick(NAMES)}, {dice.pick(NAMES)}={dice.number(0, 99)})",
        ]
    return "\n".join([*lines, f"ValueError: {dice.phrase(4, 9)}: {dice.number(1, 999)!r}"])


def test_output(dice: Dice) -> str:
    rows = (
        f"tests/{(name := dice.pick(NAMES))}/test_{name}.py::test_{dice.phrase(3, 7).replace(' ', '_')} "
        f"{dice.pick(('PASSED', 'PASSED', 'FAILED', 'SKIPPED'))} [{index * 3:3}%]"
        for index in range(30)
    )
    return "\n".join(["=" * 27 + " test session starts " + "=" * 27, *rows, "-" * 75])


def base64_text(dice: Dice) -> str:
    coded = dice.base64(900, 2400)
    return coded if dice.number(0, 1) else "\n".join(coded[at : at + 76] for at in range(0, len(coded), 76))


def data_urls(dice: Dice) -> str:
    rows = (f'<img alt="{dice.phrase(1, 3)}" src="data:image/png;base64,{dice.base64(90, 400)}">' for _ in range(5))
    return "\n".join(rows)


def hashes(dice: Dice) -> str:
    size = dice.number(5, 8) * 4
    return "\n".join(f"{dice.hexadecimal(size)}  {dice.pick(NAMES)}/{dice.name()}.bin" for _ in range(30))


def hexadecimal(dice: Dice) -> str:
    coded = dice.hexadecimal(dice.number(900, 1800))
    return coded if dice.number(0, 1) else "\n".join(coded[at : at + 64] for at in range(0, len(coded), 64))


def hex_dump(dice: Dice) -> str:
    return "\n".join(f"{at * 16:08x}: {dice.octets(16).hex(' ', 2)}" for at in range(50))


def identifiers(dice: Dice) -> str:
    def one() -> str:
        digits = dice.hexadecimal(16)
        return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

    return "\n".join(f"{one()} {dice.name()} {dice.moment()}" for _ in range(30))


def csv(dice: Dice) -> str:
    rows = (
        f"{10_000 + index},{dice.pick(PEOPLE)} {dice.pick(PEOPLE)}son,{dice.pick(PEOPLE).lower()}@example.org,"
        f"{dice.moment()[:10]},{dice.amount()},{dice.pick(('EUR', 'USD', 'CNY'))},{dice.phrase(1, 4)}"
        for index in range(45)
    )
    return "\n".join(("id,name,mail,date,amount,currency,comment", *rows))


def number_table(dice: Dice) -> str:
    mark = dice.pick((",", "\t", "  "))
    return "\n".join(mark.join(f"{dice.number(-(10**6), 10**6) / 1000:.3f}" for _ in range(8)) for _ in range(40))


DEPLOYMENT = """\
apiVersion: apps/v1
kind: Deployment
metadata:
  name: {name}
  labels:
    app: {name}
    tier: {tier}
spec:
  replicas: {replicas}
  template:
    spec:
      containers:
        - name: {name}
          image: example/{name}:{version}
          env:
{variables}          # {remark}
          resources: {{limits: {{cpu: {replicas}, memory: {memory}Gi}}}}
"""


def deployment(dice: Dice) -> str:
    rows = (
        f'            - name: {dice.name().upper()}\n              value: "{dice.phrase(1, 3)}"\n' for _ in range(3)
    )
    name, tier, version, variables = (
        f"{dice.pick(NAMES)}-{dice.pick(NAMES)}",
        dice.name(),
        dice.version(),
        "".join(rows),
    )
    more = {"replicas": dice.number(1, 9), "remark": dice.phrase(4, 10), "memory": dice.number(1, 16)}
    return DEPLOYMENT.format(name=name, tier=tier, version=version, variables=variables, **more)


def yaml(dice: Dice) -> str:
    return "---\n".join(deployment(dice) for _ in range(7))


STATEMENTS = """\
CREATE TABLE {table} (
    id SERIAL PRIMARY KEY,
{columns}
);
INSERT INTO {table} (id, {first}_id, {second}_id) VALUES
{rows};
SELECT t.{first}_id, COUNT(*) AS total FROM {table} t LEFT JOIN {other} o ON o.id = t.{second}_id
WHERE t.{second}_id > {bound} GROUP BY t.{first}_id ORDER BY total DESC LIMIT {bound};
"""


def statements(dice: Dice) -> str:
    columns = [dice.pick(NAMES) for _ in range(4)]
    types = ("INTEGER", "BIGINT", "VARCHAR(80)", "TIMESTAMP")
    return STATEMENTS.format(
        table=f"{dice.pick(NAMES)}s",
        other=f"{dice.pick(NAMES)}s",
        columns=",\n".join(f"    {column}_id {dice.pick(types)} NOT NULL" for column in columns),
        first=columns[0],
        second=columns[1],
        rows=",\n".join(f"  ({dice.number(1, 9999)}, '{dice.phrase(1, 4)}', {dice.amount()})" for _ in range(6)),
        bound=dice.number(5, 500),
    )


def sql(dice: Dice) -> str:
    return "\n".join(statements(dice) for _ in range(5))


def file_tree(dice: Dice) -> str:
    marks = ("├── ", "│   ├── ", "│   └── ", "│   │   ├── ", "└── ")
    endings = ("py", "ts", "md", "json", "tsx", "yaml")
    return "\n".join(f"{dice.pick(marks)}{dice.name()}.{dice.pick(endings)}" for _ in range(60))


def line_of_chat(dice: Dice) -> str:
    return f"{dice.pick(FACES)} {dice.phrase(4, 12).capitalize()} {dice.pick(FACES)} {dice.pick(PEOPLE)}!"


def chat(dice: Dice) -> str:
    return "\n".join(line_of_chat(dice) for _ in range(35))


GENERATED: Mapping[str, tuple[Callable[[Dice], str], ...]] = MappingProxyType(
    {
        "JSON": (compact_json, pretty_json, lock_file),
        "logs": (application_log, access_log, json_log, traceback, test_output),
        "base64": (base64_text, data_urls),
        "hexadecimal": (hashes, hexadecimal, hex_dump, identifiers),
        "CSV": (csv, number_table),
        "YAML": (yaml,),
        "SQL": (sql,),
        "file trees, emoji": (file_tree, chat),
    }
)
"""The makers of each kind of text."""


def made(kind: str, part: str, number: int) -> tuple[str, ...]:
    """``number`` texts of ``kind``. Texts of another ``part`` have other seeds."""
    makers = GENERATED[kind]
    return tuple(makers[index % len(makers)](Dice(f"{kind}:{part}:{index}")) for index in range(number))
