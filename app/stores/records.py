"""A session as bytes for a store: a line that names the format, then JSON, compressed."""

from __future__ import annotations

import hashlib
import json

import zstandard

from app.core.remembered import Remembered
from app.stores.forms import Form, UnreadableError, form_of

COMPRESSION = 3
MOST_GROWTH = 8
"""How many bytes of JSON a byte in memory may become: control characters are written as six."""


class Records:
    """``most_bytes`` bounds what a session takes in memory, so that a few bytes cannot become a great many."""

    def __init__(self, most_bytes: int) -> None:
        self._form: Form = form_of(Remembered)
        self._head = b"strata-session %s\n" % hashlib.sha256(self._form.shape.encode()).hexdigest()[:16].encode()
        self._most = MOST_GROWTH * most_bytes

    def written(self, remembered: Remembered) -> bytes:
        """Lone surrogates stay what they are."""
        text = json.dumps(self._form.write(remembered), ensure_ascii=False, separators=(",", ":"))
        compressor = zstandard.ZstdCompressor(level=COMPRESSION, write_checksum=True)
        return self._head + compressor.compress(text.encode("utf-8", "surrogatepass"))

    def read(self, record: bytes) -> Remembered:
        """Raises UnreadableError."""
        if not record.startswith(self._head):
            raise UnreadableError("another format")
        try:
            values = json.loads(self._plain(record[len(self._head) :]).decode("utf-8", "surrogatepass"))
            found: Remembered = self._form.read(values, {})
        except (zstandard.ZstdError, ValueError, RecursionError) as error:
            raise UnreadableError(str(error)) from error
        return found

    def _plain(self, compressed: bytes) -> bytes:
        size = zstandard.frame_content_size(compressed)
        if not 0 <= size <= self._most:
            raise UnreadableError("of no size that could be a session's")
        return zstandard.ZstdDecompressor().decompress(compressed, allow_extra_data=False)
