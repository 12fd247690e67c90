import pytest
from markdown_it import MarkdownIt

from app.core.parsers import DEEPEST, TakesTooLongError, parser

ORDINARY = """# A

- one *b* **c** ~~d~~
- [x](y) `code`

> quote
> - list
lazy

| a | b |
|---|---|
| 1 |

```
fence
```

[r]: /s 'title'
"""


def test_counting_changes_nothing_of_what_is_read():
    plain = MarkdownIt("commonmark", {"maxNesting": DEEPEST}).enable(["table", "strikethrough"])
    plain.disable(["text_join", "entity"])
    assert [one.as_dict() for one in parser().parse(ORDINARY)] == [one.as_dict() for one in plain.parse(ORDINARY)]


@pytest.mark.parametrize(
    "text",
    [
        "- a\n" * 30_000,
        "a\n" * 60_000,
        "> - " * 49 + "a\n" + "a\n" * 10_000,
        "[a\n" * 5_000,
        "@ " * 200_000,
        ("|a" * 2_000 + "|\n" + "|-" * 2_000 + "|\n" + "|\n" * 32 + "\n") * 4,
        ("> " * 90 + "\n") * 25_000,
    ],
    ids=["items", "lines", "lazy", "labels", "words", "cells", "quotes"],
)
def test_what_takes_too_long_is_given_up(text):
    with pytest.raises(TakesTooLongError):
        parser().parse(text)


def test_documents_are_counted_apart():
    one = parser()
    for _ in range(3):
        one.parse("a\n" * 15_000)
