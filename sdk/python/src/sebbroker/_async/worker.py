"""The loop of a worker: it leases messages, keeps their leases while handlers run, and says in the background what
became of them.

    lease ──▶ handler ──outcome──▶ settle, in batches
                 └──still running──▶ settle, extend
"""

from __future__ import annotations

import logging
import random
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from .._core import span
from .._errors import SebError, failure, with_outcome
from .._records import Message, message_in
from .._types import MessageResult, QueueMessage, Settlement
from .._work import GiveUp, RetryAfter, again, busy, handed_back, lost, settlement_of
from .platform import LEASE_WAIT, Event, Handler, Inbox, Work, end_handler, handle, wait

LEASE_MAX = SETTLE_MAX = 1000
SETTLE_BYTES = 256 << 10  # of reasons
UNSETTLED_MAX = SETTLE_MAX  # the worker leases no more until there are fewer
BUSY_WAIT = 0.25  # of a lease until the queue is empty, while handlers run
SETTLE_PAUSE = 0.5  # until settlements that failed are repeated
LEASE_PAUSE, LEASE_PAUSE_MAX = 0.1, 5.0  # until a lease that failed is repeated
INFINITE = float("inf")
LOST = "the lease of the message is lost: another worker may have it"


class Source(Protocol):
    async def _visibility(self, queue: str) -> float: ...

    async def _lease(
        self, queue: str, max: int, wait: float, visibility: float | None, once: bool
    ) -> list[QueueMessage]: ...

    async def settle(self, queue: str, settlements: Iterable[Settlement]) -> list[MessageResult]: ...


@dataclass(eq=False)
class Held:
    """A message that the worker has."""

    message: Message
    at: float  # the lease began, at the latest
    work: Work | None = None
    says: Settlement | None = None  # the handler has ended
    ended: bool = False  # the handler was told to end
    lost: bool = False


class Worker:
    """One call of work(). Its fields belong to run(), which background functions tell what has happened."""

    def __init__(
        self,
        source: Source,
        queue: str,
        handler: Handler,
        concurrency: int,
        visibility: float | None,
        until_empty: bool,
        grace: float | None,
        on_error: Callable[[str, BaseException], None] | None,
    ) -> None:
        if not 1 <= concurrency <= 10_000:
            raise failure("none", f"concurrency: {concurrency} is not between 1 and 10000")
        if visibility is not None and not 1 <= visibility <= 12 * 3600:
            raise failure("none", f"visibility: {visibility:g}s is not between 1s and 12h")
        if grace is not None and grace < 0:
            raise failure("none", f"grace period: {grace:g}s is less than 0s")
        self._source, self._queue, self._handler = source, queue, handler
        self._concurrency, self._visibility, self._until_empty = concurrency, visibility or 0.0, until_empty
        self._grace = INFINITE if grace is None else grace
        self._on_error = on_error or log
        self._inbox: Inbox[Callable[[], None]] = Inbox()
        self._held: set[Held] = set()  # leased, and not settled
        self._running = 0
        self._pending: list[Held] = []  # to be settled
        self._settling = 0
        self._extending = False
        self._leasing: Work | None = None
        self._lease_at, self._lease_failures = 0.0, 0
        self._stopping = Event()
        self._over = False  # the grace period
        self._error: BaseException | None = None  # why it stops
        self._unsettled = 0  # messages whose settlement was given up

    def stop(self) -> None:
        """Stops the worker gracefully. It may be called twice."""
        self._stopping.set()
        self._inbox.put(lambda: None)

    async def run(self) -> None:
        await self._ask_visibility()
        tick, ends, stopped = time.monotonic() + self._visibility / 6, INFINITE, False
        try:
            while True:
                self._lease()
                self._settle()
                if self._stopping.is_set() and not stopped:
                    stopped, ends = True, time.monotonic() + self._grace
                    if self._leasing is not None:
                        self._leasing.cancel()
                busy = self._leasing or self._extending or self._running or self._pending or self._settling
                if stopped and not busy:
                    break
                lease_at = self._lease_at if self._lease_at > time.monotonic() else INFINITE
                await self._wait_until(min(tick, ends, lease_at))
                now = time.monotonic()
                if now >= tick:
                    tick = now + self._visibility / 6
                    self._extend(now)
                if now >= ends:
                    ends, self._over = INFINITE, True
                    for held in list(self._held):
                        self._end(held)
        finally:
            for held in self._held:  # only if this call itself is cancelled
                if held.work is not None:
                    held.work.cancel()
        if self._unsettled:
            text = f"{self._unsettled} settlements are not stored, so their messages come again"
            if not isinstance(self._error, SebError):
                raise failure("rejected", f"{text}: the broker refused them") from self._error
            detail = f"{text}: {self._error.detail}".rstrip(": ")
            raise with_outcome(self._error, self._error.outcome, detail=detail) from self._error
        if self._error is not None:
            raise self._error

    async def _ask_visibility(self) -> None:
        while not self._visibility and not self._stopping.is_set():
            try:
                self._visibility = await self._source._visibility(self._queue)
            except SebError as e:
                if not again(e):
                    raise
                self._tell("queue", e)
                await wait(self._stopping, self._lease_pause())
        self._lease_failures = 0
        self._visibility = self._visibility or 1.0

    def _lease_pause(self) -> float:
        """Returns the pause after one more lease that failed, with jitter."""
        pause = min(LEASE_PAUSE * (1 << min(self._lease_failures, 20)), LEASE_PAUSE_MAX)
        self._lease_failures += 1
        return pause * (0.5 + random.random())

    async def _wait_until(self, at: float) -> None:
        """Waits until something has happened, and takes all that has, so that one request serves it."""
        happened = await self._inbox.get(min(at - time.monotonic(), 3600.0))
        while happened is not None:
            happened()
            happened = self._inbox.waiting()

    def _tell(self, what: str, error: BaseException) -> None:
        try:
            self._on_error(what, error)
        except Exception as e:
            log("on_error", e)

    # Leases

    def _lease(self) -> None:
        """Leases messages for the handlers that can run, unless it does already."""
        free = min(LEASE_MAX, self._concurrency - self._running)
        full = free <= 0 or len(self._pending) + self._settling >= UNSETTLED_MAX
        if self._stopping.is_set() or self._leasing or full or time.monotonic() < self._lease_at:
            return
        idle = not self._held
        seconds = LEASE_WAIT if not self._until_empty else 0.0 if idle else BUSY_WAIT
        self._lease_at = 0.0
        self._leasing = Work(self._lease_once, free, seconds, idle)

    async def _lease_once(self, most: int, seconds: float, idle: bool) -> None:
        began = time.monotonic()
        messages: list[QueueMessage] = []
        error: BaseException | None = None
        try:
            messages = await self._source._lease(self._queue, most, seconds, self._visibility, once=True)
        except BaseException as e:  # also a cancellation
            error = e
        quick = time.monotonic() - began < seconds / 2  # a broker that stops does not wait
        self._inbox.put(lambda: self._leased(messages, error, idle, quick))

    def _leased(self, messages: list[QueueMessage], error: BaseException | None, idle: bool, quick: bool) -> None:
        self._leasing = None
        now = time.monotonic()
        if error is not None:
            if self._stopping.is_set():
                return
            if isinstance(error, SebError) and again(error):
                self._tell("lease", error)
                self._lease_at = now + self._lease_pause()
            else:
                self._fail(error)
            return
        if messages or not quick:
            self._lease_failures = 0
        else:
            self._lease_at = now + self._lease_pause()
        if not messages and self._until_empty and idle:
            self._stopping.set()
        for m in messages:
            self._start(m, now)

    def _fail(self, error: BaseException) -> None:
        self._error = self._error or error
        self._stopping.set()

    # Handlers

    def _start(self, m: QueueMessage, at: float) -> None:
        try:
            held = Held(message_in(m), at)
        except (KeyError, TypeError, ValueError) as e:
            self._tell("message " + m.get("id", ""), e)  # it comes again
            return
        self._held.add(held)
        if self._over:  # of a lease that was not cancelled
            held.says = handed_back(held.message.receipt)
            self._pending.append(held)
            return
        self._running += 1
        held.work = Work(self._handle, held)

    async def _handle(self, held: Held) -> None:
        error: BaseException | None = None
        try:
            await handle(self._handler, held.message)
        except BaseException as e:  # also a cancellation, and sys.exit()
            error = e
        self._inbox.put(lambda: self._ended(held, error))

    def _ended(self, held: Held, error: BaseException | None) -> None:
        self._running -= 1
        if error is not None and not held.ended and not isinstance(error, (RetryAfter, GiveUp)):
            self._tell(f"message {held.message.id}", error)
        held.says = settlement_of(held.message.receipt, error, held.ended)
        if held.lost:
            self._forget(held, failure("none", LOST))
        else:
            self._pending.append(held)

    def _end(self, held: Held) -> None:
        """Tells a handler that runs to end."""
        if held.says is None and held.work is not None:
            held.ended = True
            end_handler(held.work, held.message)

    def _forget(self, held: Held, error: SebError | None = None) -> None:
        self._held.discard(held)
        if error is not None:
            self._tell(f"message {held.message.id}", error)

    # Settlements

    def _settle(self) -> None:
        """Says what became of messages, unless it does already."""
        if self._settling or not self._pending:
            return
        n = size = 0
        for held in self._pending[:SETTLE_MAX]:
            if size >= SETTLE_BYTES:
                break
            n, size = n + 1, size + 4 * len(held.says.get("reason", "") if held.says else "")
        batch, self._pending = self._pending[:n], self._pending[n:]
        self._settling = n
        Work(self._settle_once, batch, self._stopping.is_set())

    async def _settle_once(self, batch: list[Held], last: bool) -> None:
        """Settles once. What is refused by a worker that stops is not repeated."""
        results: list[MessageResult] = []
        error: BaseException | None = None
        repeat = False
        try:
            results = await self._source.settle(self._queue, [held.says for held in batch if held.says])
            repeat = not last and any(busy(r.get("code", "")) for r in results)
        except BaseException as e:
            error, repeat = e, not last and isinstance(e, SebError) and again(e)
        if repeat:
            await wait(self._stopping, SETTLE_PAUSE)
        self._inbox.put(lambda: self._settled(batch, results, error, repeat))

    def _settled(
        self, batch: list[Held], results: list[MessageResult], error: BaseException | None, repeat: bool
    ) -> None:
        self._settling = 0
        if error is not None:
            self._tell("settle", error)
            if repeat:
                self._pending = batch + self._pending
                return
            self._unsettled += len(batch)
            for held in batch:
                self._forget(held)
            self._fail(error)
            return
        for held, result in zip(batch, results):
            code = result.get("code", "")
            if not code:
                self._forget(held)
            elif repeat and busy(code):
                self._pending.append(held)
            elif code == "no_dead_letter_queue" and held.says and held.says["do"] == "dead":
                held.says["do"] = "retry"
                self._pending.append(held)
            elif lost(code):
                self._forget(held, failure("none", LOST))
            else:  # it comes again when its lease is over
                self._unsettled += 1
                self._forget(held, failure("rejected", result.get("detail", ""), code=code))

    def _extend(self, now: float) -> None:
        """Keeps the messages of handlers that run, and those that are not settled yet."""
        due = [held for held in self._held if not held.lost and now - held.at >= self._visibility / 3]
        if due and not self._extending:
            self._extending = True
            Work(self._extend_once, due, now)

    async def _extend_once(self, due: list[Held], now: float) -> None:
        results: list[MessageResult] = []
        error: BaseException | None = None
        delay = span(self._visibility)
        try:
            for i in range(0, len(due), SETTLE_MAX):
                some: list[Settlement] = [
                    {"receipt": held.message.receipt, "do": "extend", "delay": delay} for held in due[i : i + SETTLE_MAX]
                ]
                results += await self._source.settle(self._queue, some)
        except BaseException as e:  # the next turn tries again; an error that stays ends the lease of the next messages
            error = e
        self._inbox.put(lambda: self._extended(due, results, error, now))

    def _extended(
        self, due: list[Held], results: list[MessageResult], error: BaseException | None, now: float
    ) -> None:
        self._extending = False
        if error is not None:
            self._tell("extend", error)
        for held, result in zip(due, results):
            code = result.get("code", "")
            if not code:
                held.at = now
            elif lost(code) and held.says is None:  # else its settlement says so
                held.lost = True
                self._end(held)


def log(what: str, error: BaseException) -> None:
    """Logs an error, with the place in a handler that raised it."""
    trace = None if isinstance(error, SebError) else error
    logging.getLogger("sebbroker").warning("%s: %s", what, error, exc_info=trace)
