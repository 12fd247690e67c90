"""HTTP as uvicorn speaks it, but that a request which was answered before has its answer without a task of its own."""

from __future__ import annotations

from time import perf_counter
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE

from app.cli.connection import Connection
from app.errors import Problem
from app.warm_layer import Asked, Reply, Request, WarmLayer

LONGEST_BODY = 256 * 1024
"""Bytes of a body that is waited for here; a longer one goes to the application as it comes."""

LONGEST_REMEMBERED = 16 * 1024
"""Bytes of a body that a connection remembers to have asked."""


class WarmProtocol(Connection):
    """Holds a request that may have been answered before until it is whole, and asks the application's ``front``.

    What that cannot answer at once goes on exactly as without it: so do requests that come while another is being
    answered, that close their connection or expect anything, and those of a caller who reads more slowly than we write.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._front: WarmLayer | None = getattr(self.config.app, "front", None)
        self._held: bytearray | None = None
        self._weighed = 0
        self._last: tuple[Request, object, Asked] | None = None

    def _begin(self) -> None:
        if self._front is not None and not self._crowded and self._may_be_known(self._front) and self._is_plain():
            self._held = bytearray()
        else:
            super()._begin()

    def on_body(self, body: bytes) -> None:
        if self._held is None:
            super().on_body(body)
            return
        self._unheard = 0
        self._held += body
        if len(self._held) > LONGEST_BODY:
            self._let_go()

    def _go_on_waiting(self) -> None:
        super()._go_on_waiting()
        if self._held is not None:
            if self._traffic.bodies.take(len(self._held) - self._weighed):
                self._weighed = len(self._held)
            else:
                self._let_go()

    def on_message_complete(self) -> None:
        if self._held is not None and self._front is not None:
            began = perf_counter()
            asked = self._asked(self._front, bytes(self._held))
            reply = self._front.at_once(asked, began) if asked else None
            if reply is not None:
                self._held, self._coming, self._unheard = None, False, 0
                if self._weighed:
                    self._weigh_nothing()
                self._answer(reply)
                return
            self._let_go()
        super().on_message_complete()

    def _asked(self, front: WarmLayer, body: bytes) -> Asked | None:
        """What a connection asks again and again is looked up once, for as long as nothing changes that it hangs on."""
        client = self.client[0] if self.client else None
        request, epoch = Request(self.parser.get_method(), self.url, self.headers, client, body), front.epoch()
        if self._last is not None and self._last[0] == request and self._last[1] == epoch:
            return self._last[2]
        asked = front.asked(request)
        if asked is not None and len(body) <= LONGEST_REMEMBERED:
            self._last = request, epoch, asked
        return asked

    def _let_go(self) -> None:
        """Hands what is held to the application."""
        held, self._held = self._held, None
        self._weigh_nothing()
        super()._begin()
        if held:
            super().on_body(bytes(held))

    def _cut(self, problem: Problem) -> None:
        if self._held is not None:
            self._forget()
        super()._cut(problem)

    def _forget(self) -> None:
        self._held, self._coming = None, False
        self._weigh_nothing()

    def _weigh_nothing(self) -> None:
        self._traffic.bodies.give_back(self._weighed)
        self._weighed = 0

    def connection_lost(self, exc: Exception | None) -> None:
        if self._held is not None:
            self._let_go()  # it is told that its caller has gone
        super().connection_lost(exc)

    def shutdown(self) -> None:
        if self._held is not None:
            self._let_go()
        super().shutdown()

    def _may_be_known(self, front: WarmLayer) -> bool:
        method, last = self.parser.get_method(), self._last[0] if self._last else None
        if last is not None and last.path == self.url and last.method == method and last.headers == self.headers:
            return True
        whole = not any(name == b"transfer-encoding" for name, _ in self.headers)
        return whole and front.answers(method, self.url, self.headers, self.client[0] if self.client else None)

    def _is_plain(self) -> bool:
        parser, cycle = self.parser, self.cycle
        free = (cycle is None or cycle.response_complete) and not self.pipeline and not self.flow.write_paused
        usual = parser.get_http_version() == "1.1" and parser.should_keep_alive() and not parser.should_upgrade()
        return free and usual and not self.expect_100_continue

    def _answer(self, reply: Reply) -> None:
        head = [STATUS_LINE[reply.status]]
        for header in self.server_state.default_headers:
            head.append(b"%b: %b\r\n" % header)  # noqa: PERF401 - there is one, the date
        head.append(reply.lines)
        self._wire.writelines((b"".join(head), reply.body))
        self.on_response_complete()
