"""What the two clients do differently: this one with threads."""

from __future__ import annotations

import inspect
import queue
import threading
import time
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from .._records import Message

Event = threading.Event
Lock = threading.Lock
Handler = Callable[[Message], object]
T = TypeVar("T")

# The time for which one lease waits for messages. A worker that stops waits for it, because a thread cannot
# be cancelled.
LEASE_WAIT = 5.0

sleep = time.sleep


class Inbox(Generic[T]):
    """A queue of what has happened."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[T] = queue.SimpleQueue()

    def put(self, item: T) -> None:
        self._queue.put(item)

    def get(self, timeout: float) -> T | None:
        try:
            return self._queue.get(timeout=max(0.0, timeout))
        except queue.Empty:
            return None

    def waiting(self) -> T | None:
        try:
            return self._queue.get_nowait()
        except queue.Empty:
            return None


class Work:
    """A function that runs in the background. It does not keep the process from ending."""

    def __init__(self, f: Callable[..., None], *args: Any) -> None:
        self._thread = threading.Thread(target=f, args=args, daemon=True)
        self._thread.start()

    def cancel(self) -> None:
        """Does nothing: a thread cannot be cancelled."""

    def join(self) -> None:
        self._thread.join()


def wait(event: Event, timeout: float) -> bool:
    """Reports whether an event is set within a time."""
    return event.wait(timeout)


def together(calls: list[Callable[[], T]], most: int) -> list[T]:
    """Runs calls at once, up to a number, and returns their results in order."""
    if len(calls) == 1:
        return [calls[0]()]
    results: dict[int, T] = {}
    faults: list[BaseException] = []
    left = list(enumerate(calls))[::-1]

    def run() -> None:
        while True:
            try:
                i, call = left.pop()
            except IndexError:
                return
            try:
                results[i] = call()
            except BaseException as e:  # all are raised where the calls are waited for
                faults.append(e)

    for work in [Work(run) for _ in calls[:most]]:
        work.join()
    if faults:
        raise faults[0]
    return [results[i] for i in range(len(calls))]


def handle(handler: Handler, message: Message) -> None:
    result = handler(message)
    if inspect.isawaitable(result):
        getattr(result, "close", lambda: None)()
        raise TypeError("the handler of a Client is no coroutine function: use AsyncClient")


def end_handler(work: Work, message: Message) -> None:
    message.cancelled.set()


def supervise(run: Callable[[], None], stop: Callable[[], None], event: Event | None) -> None:
    """Runs a worker until it ends. The event, and the first KeyboardInterrupt, stop it gracefully; a second one
    leaves it at once. The worker has a thread of its own, so that no interrupt ends a step of it halfway."""
    done = threading.Event()
    faults: list[BaseException] = []

    def guarded() -> None:
        try:
            run()
        except BaseException as e:
            faults.append(e)
        done.set()

    Work(guarded)
    interrupt: KeyboardInterrupt | None = None
    while not done.is_set():
        try:
            if done.wait(0.1):  # not longer, because of the event, and interrupts on Windows
                break
            if event is not None and event.is_set():
                stop()
        except KeyboardInterrupt as e:
            if interrupt is not None:
                raise
            interrupt = e
            stop()
    if faults:
        raise faults[0]
    if interrupt is not None:
        raise interrupt
