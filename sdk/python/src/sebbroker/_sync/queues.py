# Written by generate.py from _async/queues.py.
"""Queues: their messages, workers and schedules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import httpx

from .._core import Request, bad_input, items_of, path, seconds_of, span
from .._errors import SebError, failure, not_broker
from .._records import Bytes, Headers, content_out, headers_out, json_out
from .._types import (
    Message, MessageResult, MessageResults, Queue, QueueMessage, QueueMessages, Redriven, Schedule, ScheduleSpec,
    Settlement, Stats,
)
from .platform import Event, Handler, supervise
from .records import Records, Setting
from .transport import JSON, parser
from .worker import Worker


class Queues(Records):
    def queues(self) -> list[Queue]:
        """Describes all queues, sorted by name."""
        return self._listed(Queue, "/queues", "queues")

    def queue(self, name: str) -> Queue:
        """Describes a queue. Codes: unknown_topic, not_a_queue."""
        return self._get(Queue, path("queues", name), "name")

    def create_queue(
        self, name: str, settings: Mapping[str, Setting] | None = None, *, priorities: int = 0, exist_ok: bool = False
    ) -> Queue:
        """Creates a queue, with the dead-letter queue of its name and .dead unless the settings name another one
        or none. Code: topic_exists. With exist_ok it merges the settings into those of a queue that exists."""
        body = {"priorities": priorities, "settings": dict(settings or {})}
        headers = {} if exist_ok else {"If-None-Match": "*"}
        return self._send(Queue, "PUT", path("queues", name), body, "name", headers=headers)

    def update_queue(self, name: str, settings: Mapping[str, Setting]) -> Queue:
        """Merges settings into those of a queue; None removes one. Codes: unknown_topic, not_a_queue."""
        self.queue(name)
        return self.create_queue(name, settings, exist_ok=True)

    def delete_queue(self, name: str) -> None:
        """Deletes a queue and its messages. Code: topic_in_use if it is the dead-letter queue of another one."""
        self._delete(path("queues", name))

    def pause_queue(self, name: str) -> Queue:
        """Lets workers get no messages."""
        return self._send(Queue, "POST", path("queues", name, "pause"), None, "name", idempotent=True)

    def resume_queue(self, name: str) -> Queue:
        return self._send(Queue, "POST", path("queues", name, "resume"), None, "name", idempotent=True)

    def queue_stats(self, name: str, window: Literal["1h", "6h", "24h"] = "1h") -> Stats:
        return self._get(Stats, path("queues", name, "stats"), "series", window=window)

    def send(
        self,
        queue: str,
        value: str | bytes,
        *,
        key: Bytes = None,
        headers: Headers = (),
        delay: float = 0,
        at: str | None = None,
        dedup: str | None = None,
        priority: int = 0,
        expire: float | None = None,
    ) -> MessageResult:
        """Sends a message, and returns once it is durable. delay and expire are seconds, at is a time in RFC 3339.
        A message whose dedup ID was sent within the dedup-window of the queue is not stored again."""
        form: dict[str, Any] = {"value": None, "delay": span(delay) if delay else None, "at": at, "dedup": dedup}
        form.update(priority=priority or None, expire=None if expire is None else span(expire))
        try:
            content_out(form, "value", value)
            if key is not None:
                content_out(form, "key", key)
            headers_out(form, headers)
        except (TypeError, ValueError) as e:
            raise bad_input(f"message: {e}") from e
        sent: Any = {name: content for name, content in form.items() if content is not None}
        (result,) = self.send_messages(queue, [sent])
        if "code" in result:
            raise refused(result)
        return result

    def send_messages(self, queue: str, messages: Iterable[Message | str | bytes]) -> list[MessageResult]:
        """Sends up to 10,000 messages, and returns once they are durable. Each has its own result: one with a code
        is not stored. A str or bytes is a message without attributes."""
        listed: list[Any] = []
        for m in items_of(messages, "messages"):
            if isinstance(m, (str, bytes)):
                form: dict[str, Any] = {}
                content_out(form, "value", m)
                m = form  # type: ignore[assignment]
            listed.append(m)
        return self._results(queue, "messages", listed)

    def lease(
        self, queue: str, max: int = 1, *, wait: float = 0, visibility: float | None = None
    ) -> list[QueueMessage]:
        """Leases up to max messages, and waits for the first up to wait seconds, at most 60. The worker has them for
        visibility seconds, by default those of the queue. work() does this, and what follows, by itself."""
        return self._lease(queue, max, wait, visibility, once=False)

    def _visibility(self, queue: str) -> float:
        found = self._call(Request("GET", path("queues", queue), parser(Queue, "effective_settings"), once=True))
        return seconds_of(found["effective_settings"]["visibility"])

    def _lease(
        self, queue: str, max: int, wait: float, visibility: float | None, once: bool
    ) -> list[QueueMessage]:
        # It may be repeated: messages of an answer that is lost come again.
        body = {"max": max, "wait": span(wait)}
        if visibility is not None:
            body["visibility"] = span(visibility)
        answer = self._send(
            QueueMessages, "POST", path("queues", queue, "lease"), body, "messages", idempotent=True, bounded=True,
            wait=wait, once=once,
        )
        return answer["messages"]

    def settle(self, queue: str, settlements: Iterable[Settlement]) -> list[MessageResult]:
        """Says what became of leased messages, and returns once that is durable. Each has its own result. It may be
        repeated: after the first settlement a receipt is stale."""
        return self._results(queue, "settle", items_of(settlements, "settlements"), idempotent=True, bounded=True)

    def _results(self, queue: str, call: str, messages: list[Any], **options: Any) -> list[MessageResult]:
        def parse(response: httpx.Response) -> list[MessageResult]:
            results = parse_object(response)["messages"]
            if len(results) != len(messages):
                raise not_broker(response, f"{len(results)} results for {len(messages)} messages", write=True)
            return results

        parse_object = parser(MessageResults, "messages", write=True)
        body, headers = json_out({"messages": messages}), {"Content-Type": JSON}
        where = path("queues", queue, call)
        return self._call(Request("POST", where, parse, {}, headers, body, write=True, **options))

    def messages(
        self,
        queue: str,
        *,
        state: Literal["ready", "leased", "delayed", "retry", "done"] | None = None,
        before: str | None = None,
        limit: int | None = None,
        max_value_bytes: int | None = None,
    ) -> QueueMessages:
        """Lists messages without leasing them, the newest first: those in a state, or all that are not done. The
        next of a page is the before of the following one."""
        query = {"state": state, "before": before, "limit": limit, "max-value-bytes": max_value_bytes}
        return self._get(QueueMessages, path("queues", queue, "messages"), "messages", **query)

    def cancel_message(self, queue: str, id: str) -> None:
        """Ends a message that no worker has. Codes: unknown_message, message_leased."""
        self._delete(path("queues", queue, "messages", id))

    def purge_queue(self, queue: str) -> int:
        """Ends all messages of a queue, and returns how many there were."""
        answer = self._send(dict[str, int], "POST", path("queues", queue, "purge"), None, "purged")
        return answer["purged"]

    def redrive(
        self,
        queue: str,
        *,
        to: str = "",
        reason: str = "",
        text: str = "",
        max: int = 1000,
        after: str = "",
        dry_run: bool = False,
    ) -> Redriven:
        """Moves up to 1,000 messages of a queue, mostly a dead-letter queue, to another one, by default each to the
        one from which it comes. Continue with the next of the answer as after until there is none."""
        body = {"to": to, "reason": reason, "text": text, "max": max, "after": after, "dry_run": dry_run}
        return self._send(Redriven, "POST", path("queues", queue, "redrive"), body, "moved")

    def schedules(self, queue: str) -> list[Schedule]:
        return self._listed(Schedule, path("queues", queue, "schedules"), "schedules")

    def schedule(self, queue: str, name: str) -> Schedule:
        """Describes a schedule. Code: unknown_schedule."""
        return self._get(Schedule, path("queues", queue, "schedules", name), "name")

    def put_schedule(self, queue: str, name: str, spec: ScheduleSpec, *, dry_run: bool = False) -> Schedule:
        """Makes or replaces a schedule, which sends a message at times. A dry run only returns the times."""
        where = path("queues", queue, "schedules", name)
        return self._send(Schedule, "PUT", where, spec, "name", query={"dry-run": dry_run})

    def delete_schedule(self, queue: str, name: str) -> None:
        self._delete(path("queues", queue, "schedules", name))

    def work(
        self,
        queue: str,
        handler: Handler,
        *,
        concurrency: int = 1,
        visibility: float | None = None,
        until_empty: bool = False,
        grace: float | None = None,
        on_error: Callable[[str, BaseException], None] | None = None,
        stop: Event | None = None,
    ) -> None:
        """Calls the handler for each message of a queue, until it is stopped.

        A message is done when the handler has returned and that is durable at the broker. After an exception it
        comes again after the backoff of the queue, until it goes to the dead-letter queue; the first 512 bytes of
        the text are the reason that is shown. RetryAfter and GiveUp say more. A message may be given more than
        once, so a handler must be repeatable.

        - concurrency is the number of handlers that run at once. No more messages are leased than can run.
        - visibility is the time in seconds after which another worker gets a message if this program dies: 1 s to
          12 h; by default that of the queue. Leases are extended while a handler runs. If one is lost the handler
          is cancelled (Client: message.cancelled is set), and what becomes of it does not count.
        - With until_empty it returns when no message is ready and all handlers have returned.
        - The event stop, a cancellation and KeyboardInterrupt stop it: it leases no more, and waits for the
          handlers that run and until what they said is stored. After grace seconds, if given, it cancels them.
        - on_error gets a noun and each error that it rides out; by default they go to the logger sebbroker.

        It waits for a broker that restarts, hands over, or has no room, for as long as it takes. It raises an
        error that no repetition can change, such as unknown_topic, or why settlements are not stored.
        """
        worker = Worker(self, queue, handler, concurrency, visibility, until_empty, grace, on_error)
        supervise(worker.run, worker.stop, stop)


def refused(result: MessageResult) -> SebError:
    """Returns the error of a message that was refused."""
    return failure("rejected", result.get("detail", ""), code=result["code"], final=True)
