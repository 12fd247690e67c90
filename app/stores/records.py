"""A session as bytes for a store: a line that names the format and whose it is, then JSON, compressed."""

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
        self._shape = _digest(self._form.shape)[:16]
        self._most = MOST_GROWTH * most_bytes

    def head(self, key: str) -> bytes:
        """What the record of the session at ``key`` begins with, and that at no other."""
        return f"strata-session {self._shape} {_digest(key)[:32]}\n".encode()

    def begins(self, key: str, beginning: bytes, size: int) -> bool:
        """Whether ``beginning``, all of its head and more, is that of a record of ``size`` bytes at ``key``."""
        head = self.head(key)
        if not beginning.startswith(head) or size > self._most + len(head):
            return False
        try:
            return self._fits(beginning[len(head) :])
        except zstandard.ZstdError:
            return False

    def written(self, key: str, remembered: Remembered) -> bytes:
        """Lone surrogates stay what they are."""
        text = json.dumps(self._form.write(remembered), ensure_ascii=False, separators=(",", ":"))
        compressor = zstandard.ZstdCompressor(level=COMPRESSION, write_checksum=True)
        return self.head(key) + compressor.compress(text.encode("utf-8", "surrogatepass"))

    def read(self, key: str, record: bytes) -> Remembered:
        """Raises UnreadableError."""
        head = self.head(key)
        if not record.startswith(head):
            raise UnreadableError("another format, or another session's")
        try:
            values = json.loads(self._plain(record[len(head) :]).decode("utf-8", "surrogatepass"))
            found: Remembered = self._form.read(values, {})
        except (zstandard.ZstdError, ValueError, RecursionError) as error:
            raise UnreadableError(str(error)) from error
        return found

    def _plain(self, compressed: bytes) -> bytes:
        if not self._fits(compressed):
            raise UnreadableError("of no size that could be a session's")
        return zstandard.ZstdDecompressor().decompress(compressed, allow_extra_data=False)

    def _fits(self, compressed: bytes) -> bool:
        return 0 <= zstandard.frame_content_size(compressed) <= self._most


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
