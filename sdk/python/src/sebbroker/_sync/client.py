# Written by generate.py from _async/client.py.
"""The client."""

from __future__ import annotations

import types
from typing import Literal

from .consumer import Consumer
from .queues import Queues
from .triggers import Triggers


class Client(Queues, Triggers):
    """A client of the brokers of one bucket. It may be used concurrently.

    Every write that returns is durable. RejectedError: nothing of it is stored or can appear later.
    OutcomeUnknownError: it may appear once, or never. All other errors are SebError.
    """

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self.close()

    def consumer(
        self,
        group: str,
        topic: str,
        *,
        partition: int | Literal["all"] = "all",
        start: Literal["earliest", "latest"] = "earliest",
        follow: bool = False,
        commit_every: float | None = 1.0,
    ) -> Consumer:
        """Returns a reader of a topic for a consumer group. start is for partitions without a committed offset.
        With follow it waits for new records, also in partitions that are added later; all partitions are at most
        100. commit_every is the interval of commits in seconds; with None only commit() commits."""
        return Consumer(
            self, group, topic, partition=partition, start=start, follow=follow, commit_every=commit_every
        )
