"""What the two clients do differently: this one with tasks of asyncio."""

from __future__ import annotations

import asyncio
import collections
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Generic, TypeVar

from .._records import Message

Event = asyncio.Event
Lock = asyncio.Lock
Handler = Callable[[Message], Awaitable[object]]
T = TypeVar("T")

# The time for which one lease waits for messages. A worker that stops cancels it.
LEASE_WAIT = 20.0

sleep = asyncio.sleep
_tasks: set[asyncio.Task[Any]] = set()  # asyncio itself has only weak references


class Inbox(Generic[T]):
    """A queue of what has happened."""

    def __init__(self) -> None:
        self._items: collections.deque[T] = collections.deque()
        self._some = Event()

    def put(self, item: T) -> None:
        self._items.append(item)
        self._some.set()

    async def get(self, timeout: float) -> T | None:
        if not self._items:
            self._some.clear()
            await wait(self._some, timeout)
        return self.waiting()

    def waiting(self) -> T | None:
        return self._items.popleft() if self._items else None


class Work:
    """A function that runs in the background."""

    def __init__(self, f: Callable[..., Coroutine[Any, Any, None]], *args: Any) -> None:
        self._task = asyncio.ensure_future(f(*args))
        _tasks.add(self._task)
        self._task.add_done_callback(_tasks.discard)

    def cancel(self) -> None:
        self._task.cancel()

    async def join(self) -> None:
        await asyncio.wait({self._task})


async def wait(event: Event, timeout: float) -> bool:
    """Reports whether an event is set within a time."""
    try:
        await asyncio.wait_for(event.wait(), timeout)
    except asyncio.TimeoutError:
        return False
    return True


async def together(calls: list[Callable[[], Coroutine[Any, Any, T]]], most: int) -> list[T]:
    """Runs calls at once, up to a number, and returns their results in order."""
    room = asyncio.Semaphore(most)

    async def run(call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        async with room:
            return await call()

    return await asyncio.gather(*[run(call) for call in calls])


async def handle(handler: Handler, message: Message) -> None:
    result = handler(message)
    if inspect.isawaitable(result):
        await result


def end_handler(work: Work, message: Message) -> None:
    message.cancelled.set()
    work.cancel()


async def supervise(run: Callable[[], Coroutine[Any, Any, None]], stop: Callable[[], None], event: Event | None) -> None:
    """Runs a worker until it ends. The event, and the first cancellation, stop it gracefully; a second
    cancellation leaves it at once."""
    task = asyncio.ensure_future(run())
    waiter = asyncio.ensure_future(event.wait()) if event is not None else None
    if waiter is not None:
        waiter.add_done_callback(lambda _: stop())
    cancelled: asyncio.CancelledError | None = None
    try:
        while not task.done():
            try:
                await asyncio.wait({task})
            except asyncio.CancelledError as e:
                if cancelled is not None:
                    task.cancel()
                    raise
                cancelled = e
                stop()
        if cancelled is not None and task.exception() is None:
            raise cancelled
        task.result()
    finally:
        if waiter is not None:
            waiter.cancel()
