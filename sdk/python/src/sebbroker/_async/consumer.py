"""A reader of a topic for a consumer group."""

from __future__ import annotations

import types
from collections.abc import AsyncIterator
from typing import Literal

from .._errors import SebError
from .._records import Record
from .._types import OffsetEntry
from .platform import Event, Lock, Work, wait
from .records import Records, unknown_partition


class AsyncConsumer:
    """Reads a topic for a consumer group, from its committed offsets. Use it in a with statement, and iterate
    over it in one place.

    A record is finished when the next one is taken, or by done(). Only finished records are committed: in the
    background, by commit(), and at the end of the with statement. After a crash the group reads every
    unfinished record again, and possibly some finished ones (at least once).
    """

    def __init__(
        self,
        client: Records,
        group: str,
        topic: str,
        *,
        partition: int | Literal["all"],
        start: Literal["earliest", "latest"],
        follow: bool,
        commit_every: float | None,
    ) -> None:
        self._client, self._group, self._topic = client, group, topic
        self._partition, self._start, self._follow, self._every = partition, start, follow, commit_every
        self._current: Record | None = None  # taken, and not finished
        self._finished: dict[int, int] = {}  # offsets of the next records, by partition
        self._committed: dict[int, int] = {}
        self._committing = Lock()  # so that an older commit cannot overtake a newer one
        self._closed = Event()
        self._committer: Work | None = None
        self._error: SebError | None = None  # of a commit in the background
        self._positions: dict[int, int] | None = None  # offsets of the records to take next, by partition
        self._records: AsyncIterator[Record] | None = None

    async def __aenter__(self) -> AsyncConsumer:
        self._positions = await self._begin()
        if self._every is not None:
            self._committer = Work(self._commit_all, self._every)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        await self.aclose()

    def __aiter__(self) -> AsyncConsumer:
        return self

    async def __anext__(self) -> Record:
        """Finishes the previous record, and returns the next one. With follow it waits for it, without it the
        iteration ends where each partition ended when its reading began. After an error, and after a call that
        was cancelled, the next call continues."""
        self.done()
        if self._error is not None:
            raise self._error
        if self._positions is None:
            raise RuntimeError("a consumer is used in a with statement")
        if self._records is None and not self._closed.is_set():
            self._records = self._read(self._positions.copy())
        if self._records is None:
            raise StopAsyncIteration
        try:
            record = await self._records.__anext__()
        except StopAsyncIteration:
            raise
        except BaseException:
            self._records = None  # a generator that raises has ended, and would end the iteration in silence
            raise
        self._current, self._positions[record.partition] = record, record.offset + 1
        return record

    def done(self) -> None:
        """Finishes the record that was taken last."""
        if self._current is not None:
            self._finished[self._current.partition] = self._current.offset + 1
            self._current = None

    async def commit(self) -> None:
        """Commits all finished records, and returns when that is durable."""
        async with self._committing:
            due = {p: offset for p, offset in self._finished.copy().items() if self._committed.get(p) != offset}
            commits: list[OffsetEntry] = [
                {"topic": self._topic, "partition": p, "offset": offset} for p, offset in due.items()
            ]
            await self._client.commit_offsets(self._group, commits)
            self._committed.update(due)

    async def aclose(self) -> None:
        """Ends the consumer, and commits the finished records unless commit_every is None."""
        self._closed.set()
        close = getattr(self._records, "aclose", None)  # of a stream, its connection
        if close is not None:
            await close()
        if self._committer is not None:
            await self._committer.join()
            self._committer = None
            await self.commit()

    async def _commit_all(self, every: float) -> None:
        while not await wait(self._closed, every):
            try:
                await self.commit()
            except SebError as e:
                self._error = e
                return

    async def _read(self, positions: dict[int, int]) -> AsyncIterator[Record]:
        if self._follow:
            async for record in self._client._follow(self._topic, self._partition, positions):
                yield record
            return
        for p, offset in positions.items():
            async for record in self._client._to_end(self._topic, p, offset):
                yield record

    async def _begin(self) -> dict[int, int]:
        """Returns the offsets at which the group continues."""
        found = (await self._client.topic(self._topic))["partitions"]
        there = {p["partition"]: p for p in found if self._partition in ("all", p["partition"])}
        if not there:
            raise unknown_partition(self._topic, len(found))
        committed = {o["partition"]: o["offset"] for o in await self._client.offsets(self._group, self._topic)}
        # A group with committed offsets reads new partitions from their start, so that it misses no records.
        latest = self._start == "latest" and not committed
        edges = {n: p["next_offset"] if latest else p["start_offset"] for n, p in there.items()}
        if latest:
            # Without this commit a crash before the first one would skip the records that arrived meanwhile.
            begin: list[OffsetEntry] = [
                {"topic": self._topic, "partition": n, "offset": at, "expected_offset": -1} for n, at in edges.items()
            ]
            try:
                await self._client.commit_offsets(self._group, begin)
            except SebError as e:
                if e.code != "offset_mismatch" and not e.offsets:
                    raise
                return await self._begin()  # another consumer of the group has started, and has committed
        return {n: committed.get(n, edge) for n, edge in edges.items()}
