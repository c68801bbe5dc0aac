"""Answers calls on standard input with this client, one JSON object per line: go run ./test/cmd/sdk drives it.

    python3 conformance.py           uses AsyncClient
    python3 conformance.py --sync    uses Client: this module is turned into its synchronous form
"""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import ssl
import sys
import traceback
from collections.abc import AsyncIterator
from typing import Any

from generate import run_sync
from sebbroker import AsyncClient, GiveUp, Message, Record, RetryAfter, SebError, webhook
from sebbroker._async.platform import Event, Work, sleep
from sebbroker._core import seconds_of
from sebbroker._records import content_in, content_out, headers_in, headers_out


class Conformance:
    def __init__(self) -> None:
        self.client: AsyncClient | None = None
        self.stops: set[Event] = set()

    async def answer(self, line: str) -> None:
        request = json.loads(line)
        out: dict[str, Any] = {"id": request["id"]}
        try:
            out["result"] = await getattr(self, request["call"])(**request.get("args") or {})
        except SebError as e:
            out["error"] = {"outcome": e.outcome, "code": e.code, "status": e.status, "detail": e.detail or str(e)}
            if e.results:
                out["error"]["results"] = list(e.results)
        except webhook.WebhookError as e:
            out["error"] = {"outcome": "none", "code": e.code, "status": 0, "detail": str(e)}
        except Exception as e:
            out["crash"] = "".join(traceback.format_exception(e))
        text = json.dumps(out) + "\n"
        os.write(1, text.encode())

    def use(self) -> AsyncClient:
        if self.client is None:
            raise SebError("no client is open")
        return self.client

    async def open(self, addresses: list[str], token: str = "", retry_time: float = 30, ca: str = "") -> Any:
        try:
            tls = ssl.create_default_context(cafile=ca) if ca else None
        except OSError as e:
            raise SebError(f"{ca}: {e}") from e
        self.client = AsyncClient(addresses, token=token, retry_time=retry_time, tls=tls)
        return {}

    async def produce(self, topic: str, records: list[Any], **o: Any) -> Any:
        given = [
            Record(content_in(r, "value"), content_in(r, "key"), headers_in(r), timestamp=r.get("timestamp", 0))
            for r in records
        ]
        results = await self.use().produce(topic, given, **o)
        return {"results": sorted(results, key=lambda r: r["partition"])}

    async def read(self, topic: str, partition: int, offset: int, max: int) -> Any:
        records = self.use().read(topic, partition=partition, offset=offset)
        return {"records": [read_form(r) async for r in first(records, max)]}

    async def stream(self, topic: str, partition: Any, offset: Any, max: int) -> Any:
        records = self.use().read(topic, partition=partition, offset=offset, follow=True)
        return {"records": [taken_form(r) async for r in first(records, max)]}

    async def consume(self, group: str, topic: str, max: int, follow: bool = False) -> Any:
        async with self.use().consumer(group, topic, follow=follow) as consumer:
            records = [taken_form(r) async for r in first(consumer, max)]
            consumer.done()
        return {"records": records}

    async def event(self, events: list[Any], topic: str | None = None, many: bool = False) -> Any:
        if many:
            return {"results": await self.use().produce_events(events, topic=topic)}
        e = dict(events[0])
        return await self.use().produce_event(e.pop("event"), e.pop("entity_id"), topic=topic, **e)

    async def topic_create(self, topic: str, partitions: int = 0) -> Any:
        await self.use().create_topic(topic, partitions)
        return {}

    async def topic_get(self, topic: str) -> Any:
        return await self.use().topic(topic)

    async def trigger_put(self, id: str, spec: Any) -> Any:
        return await self.use().put_trigger(id, spec)

    async def trigger_get(self, id: str) -> Any:
        return await self.use().trigger(id)

    async def trigger_delete(self, id: str) -> Any:
        await self.use().delete_trigger(id)
        return {}

    async def explain(self, id: str, entity: str) -> Any:
        return await self.use().explain(id, entity)

    async def firings(self, trigger: str, limit: int | None = None) -> Any:
        return await self.use().firings(trigger, limit=limit)

    async def queue_create(self, queue: str, settings: dict[str, Any] | None = None) -> Any:
        return await self.use().create_queue(queue, settings)

    async def queue_get(self, queue: str) -> Any:
        return await self.use().queue(queue)

    async def send(self, queue: str, messages: list[Any]) -> Any:
        return {"messages": await self.use().send_messages(queue, messages)}

    async def lease(self, queue: str, max: int = 1, wait: Any = 0, visibility: Any = None) -> Any:
        wait, visibility = (seconds_of(x) if isinstance(x, str) else x for x in (wait, visibility))
        return {"messages": await self.use().lease(queue, max, wait=wait, visibility=visibility)}

    async def settle(self, queue: str, messages: list[Any]) -> Any:
        return {"messages": await self.use().settle(queue, messages)}

    async def work(self, queue: str, log: str = "", script: dict[str, str] | None = None, **o: Any) -> Any:
        done: list[str] = []

        async def handler(message: Message) -> None:
            if log:
                line = f"{message.id} {message.deliveries} {message.text}\n".encode()
                file = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
                os.write(file, line)
                os.close(file)
            action, _, argument = (script or {}).get(message.text, "ok").partition(":")
            if action == "fail":
                raise RuntimeError(argument)
            if action == "retry":
                raise RetryAfter(float(argument))
            if action == "dead":
                raise GiveUp(argument)
            if action == "sleep" and SYNC:
                message.cancelled.wait(float(argument))
            elif action == "sleep":
                await sleep(float(argument))
            if message.cancelled.is_set():
                raise RuntimeError("cancelled")
            done.append(message.id)

        stop = Event()
        self.stops.add(stop)
        try:
            await self.use().work(queue, handler, stop=stop, **o)
        finally:
            self.stops.discard(stop)
        return {"done": len(done)}

    async def stop(self) -> Any:
        for stop in list(self.stops):
            stop.set()
        return {}

    async def verify(self, secrets: list[str], headers: dict[str, str], body_base64: str, **o: Any) -> Any:
        try:
            received = webhook.verify(base64.b64decode(body_base64), headers, secrets, **o)
        except ValueError as e:
            raise SebError(str(e)) from e
        return {"id": received.id, "sent_at": int(received.sent_at.timestamp())}


async def first(records: AsyncIterator[Record], most: int) -> AsyncIterator[Record]:
    """Yields up to a number of records, and asks for no more."""
    n = 0
    while n < most:
        try:
            record = await records.__anext__()
        except StopAsyncIteration:
            return
        yield record
        n += 1


def taken_form(r: Record) -> dict[str, Any]:
    form: dict[str, Any] = {"partition": r.partition, "offset": r.offset}
    content_out(form, "value", r.value)
    return form


def read_form(r: Record) -> dict[str, Any]:
    form: dict[str, Any] = {"offset": r.offset, "timestamp": r.timestamp, "key": None, "value": None}
    content_out(form, "key", r.key)
    content_out(form, "value", r.value)
    headers_out(form, r.headers)
    return form


async def main() -> None:
    conformance = Conformance()
    while line := await readline():
        Work(conformance.answer, line)


SYNC = False

if __name__ == "__main__":
    if SYNC:
        readline: Any = sys.stdin.readline
        main()  # type: ignore[unused-coroutine]
    elif "--sync" in sys.argv:
        run_sync(__file__, globals())
    else:
        readline = functools.partial(asyncio.to_thread, sys.stdin.readline)
        asyncio.run(main())
