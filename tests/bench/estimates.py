"""How far estimates of tokens are off, by kind of text: ``python -m tests.bench.estimates``.

The reference is the vocabulary that ``@anthropic-ai/tokenizer`` 0.0.4 carries: Claude's old public one, of tokenizer
generation 1. It is fetched with npm into a temporary folder, as are four packages of texts; exit code 2 when it cannot
be had. Models of generation 2 make about 1.3 times as many tokens by publication, which nothing here measures.

Each kind of text has two parts, which never share a file. ``--fit`` finds the coefficients on the first and prints them
as they stand in ``app/core/estimate.py``; the table is about the second, the part that was held out.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import sqrt
from operator import mul
from pathlib import Path

from app.core.calibration import Calibration
from app.core.character_classes import CLASSES, transitions, utf8
from app.core.estimate import estimate
from app.core.tokens import JSON_BYTES_PER_TOKEN, rough
from tests.bench.corpus.reference import ReferenceUnavailableError, exact, fetch
from tests.bench.corpus.texts import PARTS, Text, corpus

FIT, HELD_OUT = PARTS
PULL = 0.001
"""How strongly a pair that is seldom seen is drawn to what its class makes after any other.

Of 0.0003, 0.001, 0.003 and 0.01 the one with the smallest errors on kinds left out of the fit (``--unseen``).
"""
SWEEPS = 400
FEW = 5
MEBIBYTE = 1024**2
OTHER_TOKENIZER = 1.3
"""A tokenizer that the estimate knows nothing of makes so many times the tokens."""
COLUMNS = ("length/4", "estimate", "calibrated", "other", "calibrated", "unseen", "calibrated")
LEGEND = f"""\
texts that the fit has not seen; errors are means of |tokens / reference - 1| over a kind's texts
length/4: the rough count, length/2 for JSON; calibrated: the column before it, corrected by usage as a session goes on
other: when the truth is {OTHER_TOKENIZER} times as many; unseen: fitted again with nothing of the kind
"""


@dataclass(frozen=True, slots=True)
class Counted:
    """A text and its tokens by the reference."""

    text: Text
    tokens: int

    @property
    def rough(self) -> float:
        content = self.text.content
        return rough(content, JSON_BYTES_PER_TOKEN) if self.text.kind == "JSON" else rough(content)

    @property
    def estimated(self) -> int:
        return estimate(self.text.content, 1)


def of_part(counted: Iterable[Counted], part: str) -> dict[str, list[Counted]]:
    kinds: dict[str, list[Counted]] = {}
    for row in counted:
        if row.text.part == part:
            kinds.setdefault(row.text.kind, []).append(row)
    return kinds


# Fitting


@dataclass(frozen=True, slots=True)
class Sums:
    """What least squares need to know of the texts: products of their features, and of features and result."""

    products: list[list[float]]
    results: list[float]


def weighted_rows(kinds: dict[str, list[Counted]]) -> Iterator[tuple[dict[int, float], float]]:
    """Errors count relative to the tokens of a text; kinds count the same, but less when they have few texts."""
    for rows in kinds.values():
        for row in rows:
            share = 1 / sqrt(max(len(rows), FEW))
            counts = Counter(transitions(utf8(row.text.content)))
            yield {pair: count * share / row.tokens for pair, count in counts.items()}, share


def sums(rows: Iterable[tuple[dict[int, float], float]]) -> Sums:
    products, results = [[0.0] * 256 for _ in range(256)], [0.0] * 256
    for features, result in rows:
        for pair, amount in features.items():
            results[pair] += amount * result
            line = products[pair]
            for other, by in features.items():
                line[other] += amount * by
    return Sums(products, results)


def by_class(found: Sums) -> Sums:
    """The same for a model that looks at a character's class alone."""
    size = range(16)
    products = [[sum(sum(found.products[a * 16 + i][b * 16 : b * 16 + 16]) for i in size) for b in size] for a in size]
    return Sums(products, [sum(found.results[a * 16 : a * 16 + 16]) for a in size])


def least_squares(found: Sums, start: Sequence[float], most: Sequence[float], pull: float) -> list[float]:
    """Coefficients from 0 to ``most`` with the smallest squared error, drawn to ``start`` by ``pull``."""
    weights = list(start)
    for _ in range(SWEEPS):
        for at, line in enumerate(found.products):
            rest = found.results[at] - sum(map(mul, line, weights)) + line[at] * weights[at]
            scale = line[at] + pull
            weights[at] = min(most[at], max(0.0, (rest + pull * start[at]) / scale)) if scale else 0.0
    return weights


def fitted(kinds: dict[str, list[Counted]]) -> list[float]:
    """Tokens per occurrence of each transition: an index of a class times 16, and the index of the class before.

    No coefficient is above the bytes of the character and one more, for the token that it ends.
    """
    found = sums(weighted_rows(kinds))
    most = [row.size + 1.0 for row in CLASSES]
    alone = least_squares(by_class(found), [0.0] * 16, most, 0.0)
    return least_squares(found, repeated(alone), repeated(most), PULL)


def repeated(each: Iterable[float]) -> list[float]:
    return [value for value in each for _ in range(16)]


def as_code(weights: Sequence[float]) -> str:
    rows = [[round(1000 * weight) for weight in weights[at * 16 : at * 16 + 16]] for at in range(16)]
    width = [max(len(str(row[column])) for row in rows) for column in range(16)]
    lines = [
        f"    ({', '.join(f'{cell:>{size}}' for cell, size in zip(row, width, strict=True))}),  # {kind.name}"
        for row, kind in zip(rows, CLASSES, strict=True)
    ]
    return "\n".join(["WEIGHTS = (", *lines, ")  # fmt: skip"])


# Measuring


@dataclass(frozen=True, slots=True)
class Figures:
    """Of one kind: texts, their tokens by the reference, and the mean of how far each estimate of a text is off."""

    kind: str
    texts: int
    tokens: int
    errors: tuple[float, ...]


def error(tokens: float, truth: float) -> float:
    return abs(tokens / truth - 1)


def errors(estimates: Iterable[int], truths: Iterable[float]) -> Iterator[float]:
    return (error(estimated, truth) for estimated, truth in zip(estimates, truths, strict=True))


def calibrated(estimates: Iterable[int], truths: Iterable[float]) -> Iterator[int]:
    """Corrected estimates in a session that reads text after text, and sees the usage of all so far after each."""
    known, estimated, exact_total = Calibration(), 0, 0.0
    for one, truth in zip(estimates, truths, strict=True):
        yield known.apply(one)
        estimated, exact_total = estimated + one, exact_total + truth
        known = known.learned(estimated, round(exact_total))


def both(estimates: Sequence[int], truths: Sequence[float]) -> tuple[float, float]:
    """Means of the errors as estimated and as calibrated."""
    return (
        statistics.mean(errors(estimates, truths)),
        statistics.mean(errors(calibrated(estimates, truths), truths)),
    )


def without(kind: str, kinds: dict[str, list[Counted]], rows: Iterable[Counted]) -> list[int]:
    """Estimates when nothing of ``kind`` was there to fit to."""
    weights = fitted({name: texts for name, texts in kinds.items() if name != kind})
    return [round(sum(weights[pair] for pair in transitions(utf8(row.text.content)))) for row in rows]


def figures(kind: str, rows: Sequence[Counted], fit: dict[str, list[Counted]] | None) -> Figures:
    """``fit`` is what to fit to without this kind; None leaves these columns out."""
    estimates, truths = [row.estimated for row in rows], [float(row.tokens) for row in rows]
    plain = statistics.mean(error(row.rough, row.tokens) for row in rows)
    other = both(estimates, [truth * OTHER_TOKENIZER for truth in truths])
    new = both(without(kind, fit, rows), truths) if fit else ()
    return Figures(kind, len(rows), round(sum(truths)), (plain, *both(estimates, truths), *other, *new))


def table(rows: Sequence[Figures]) -> str:
    head = ("kind", "texts", "tokens", *COLUMNS[: len(rows[0].errors)])
    means = tuple(map(statistics.mean, zip(*(row.errors for row in rows), strict=True)))
    total = Figures("mean of the kinds", sum(row.texts for row in rows), sum(row.tokens for row in rows), means)
    lines = [
        (row.kind, f"{row.texts:,}", f"{row.tokens:,}", *(f"{share:.1%}" for share in row.errors))
        for row in (*rows, total)
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in [head, ("---", *["--:"] * (len(head) - 1)), *lines])


def speed(texts: Iterable[Text]) -> float:
    """Seconds for a mebibyte of ASCII, the median of nine."""
    text = "".join(text.content for text in texts if text.content.isascii())
    text = (text * (MEBIBYTE // len(text) + 1))[:MEBIBYTE]
    times = []
    for _ in range(9):
        started = time.perf_counter()
        estimate(text, 1)
        times.append(time.perf_counter() - started)
    return statistics.median(times)


def counted_corpus() -> list[Counted]:
    with tempfile.TemporaryDirectory() as folder:
        fetch(Path(folder))
        texts = corpus(Path(folder) / "node_modules")
        return [
            Counted(*pair) for pair in zip(texts, exact([text.content for text in texts], Path(folder)), strict=True)
        ]


def report(counted: Sequence[Counted], *, unseen: bool) -> str:
    fit = of_part(counted, FIT) if unseen else None
    rows = [figures(kind, texts, fit) for kind, texts in of_part(counted, HELD_OUT).items()]
    took = speed(row.text for row in counted)
    return f"{table(rows)}\n\n{LEGEND}\n{1000 * took:.0f} ms for a mebibyte of ASCII\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="How far estimates of tokens are off, by kind of text.")
    parser.add_argument("--fit", action="store_true", help="find the coefficients and print them")
    parser.add_argument("--unseen", action="store_true", help="fit again without each kind: two columns more")
    options = parser.parse_args()
    try:
        counted = counted_corpus()
    except ReferenceUnavailableError as problem:
        sys.stderr.write(f"{problem}\n")
        return 2
    found = as_code(fitted(of_part(counted, FIT))) if options.fit else report(counted, unseen=options.unseen)
    sys.stdout.write(f"{found}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
