"""Questions that are asked in one turn of the event loop travel together."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

T = TypeVar("T")
Waiting: TypeAlias = dict[str, list[asyncio.Future[T]]]


class Batches(Generic[T]):
    """``ask`` answers for several keys at once. What it raises is raised to each who asked."""

    def __init__(self, ask: Callable[[tuple[str, ...]], Coroutine[Any, Any, Mapping[str, T]]]) -> None:
        self._ask = ask
        self._waiting: Waiting[T] = {}
        self._running: set[asyncio.Task[Mapping[str, T]]] = set()

    async def get(self, key: str) -> T:
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._leave)
        future: asyncio.Future[T] = loop.create_future()
        self._waiting.setdefault(key, []).append(future)
        return await future

    async def close(self) -> None:
        running = tuple(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _leave(self) -> None:
        waiting, self._waiting = self._waiting, {}
        task = asyncio.get_running_loop().create_task(self._ask(tuple(waiting)))
        self._running.add(task)
        task.add_done_callback(partial(self._arrive, waiting))

    def _arrive(self, waiting: Waiting[T], task: asyncio.Task[Mapping[str, T]]) -> None:
        self._running.discard(task)
        error = None if task.cancelled() else task.exception()
        for key, futures in waiting.items():
            for future in (one for one in futures if not one.done()):
                if task.cancelled():
                    future.cancel()
                elif error is not None:
                    future.set_exception(error)
                else:
                    future.set_result(task.result()[key])
