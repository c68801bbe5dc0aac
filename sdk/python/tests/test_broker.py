"""Tests with a broker, at SEB_ADDRESS with SEB_API_KEY. It may be killed and started again during LoopTest.

    python3 test_broker.py [--sync] [BrokerTest | LoopTest]
"""

from __future__ import annotations

import asyncio
import os
import sys
import unittest
from typing import Any

from generate import run_sync
from sebbroker import AsyncClient, GiveUp, Message, Record, RejectedError, RetryAfter, SebError
from sebbroker._async.platform import Event, Work, sleep, together

SYNC = False
FORM = "sync" if SYNC else "async"
LOOP = 200  # records of the loop


class Base(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.client = AsyncClient(os.environ["SEB_ADDRESS"], token=os.environ["SEB_API_KEY"])
        if not SYNC:
            asyncio.get_running_loop().set_debug(False)
        self.name = f"{self._testMethodName}-{FORM}"

    async def asyncTearDown(self) -> None:
        await self.client.aclose()

    async def read(self, topic: str, **o: Any) -> list[Record]:
        return [r async for r in self.client.read(topic, **o)]


class LoopTest(Base):
    async def test_loop(self) -> None:
        """While records are produced one by one, the broker is killed and started again."""
        await self.client.create_topic(self.name, 2)
        followed: list[Record] = []
        follower = Work(self.follow, followed)
        for i in range(LOOP):
            await self.client.produce(self.name, [Record(str(i), f"key {i % 10}")])
            print(FORM, "produced", i, flush=True)
            await sleep(0.005)
        stored = await self.read(self.name, partition="all")
        self.assertEqual(sorted(int(r.text) for r in stored), list(range(LOOP)), "each record is stored once")
        for partition in (0, 1):
            numbers = [int(r.text) for r in stored if r.partition == partition]
            self.assertEqual(numbers, sorted(numbers), "the records of a partition are in order")
        await follower.join()
        self.assertEqual(sorted(int(r.text) for r in followed), list(range(LOOP)), "the stream has each record once")

    async def follow(self, followed: list[Record]) -> None:
        async for record in self.client.read(self.name, partition="all", follow=True):
            followed.append(record)
            if len(followed) == LOOP:
                return


class BrokerTest(Base):
    async def test_records(self) -> None:
        """Values that are not text, not JSON, empty, missing and large."""
        values = ["æ\u2028", b"\xff\x00", b"", None, "[1, 2", "x" * (3 << 20)]
        given = [Record(v, b"\xfe", [("h", b"\xfd"), ("h", None)], timestamp=5) for v in values]
        await self.client.produce(self.name, given, partition=0)
        for got in [await self.read(self.name), await self.follow_first(len(values))]:
            self.assertEqual([vars(r) for r in got], [{**vars(g), "offset": i, "partition": 0} for i, g in enumerate(given)])
        with self.assertRaises(ValueError):
            given[4].json()
        with self.assertRaises(RejectedError) as raised:
            await self.client.produce(self.name, ["x" * (40 << 20)])
        self.assertEqual(raised.exception.code, "too_large")
        with self.assertRaises(SebError) as missing:
            await self.client.topic("missing")
        self.assertEqual((missing.exception.outcome, missing.exception.code), ("none", "unknown_topic"))

    async def follow_first(self, n: int) -> list[Record]:
        found: list[Record] = []
        async for record in self.client.read(self.name, offset=0, follow=True):
            found.append(record)
            if len(found) == n:
                break
        return found

    async def test_conditions(self) -> None:
        await self.client.produce(self.name, ["a"], expected_offset=0)
        with self.assertRaises(RejectedError) as raised:
            await self.client.produce(self.name, ["a"], expected_offset=0)
        self.assertEqual((raised.exception.code, raised.exception.next_offset), ("offset_mismatch", 1))
        for bad in ("\ud800", 3.5):
            with self.assertRaises(RejectedError):
                await self.client.produce(self.name, [bad])  # type: ignore[list-item]
        with self.assertRaises(RejectedError):
            await self.client.produce_event("e", "x", {"a": float("nan")})
        self.assertEqual(len(await self.read(self.name)), 1)

    async def test_all_or_none(self) -> None:
        await self.client.create_topic(self.name)
        await self.client.create_queue(self.name + "-q")
        order = [
            {"topic": self.name, "value": "é"}, {"queue": self.name + "-q", "value": "job"}, {"event": "e", "entity_id": self.name},
        ]
        for i in range(3):
            stored = await self.client.produce_all(order)
            self.assertEqual(stored[0], {"topic": self.name, "partition": 0, "offset": i})
            self.assertEqual(stored[1], {"queue": self.name + "-q", "id": f"0-{i}"})
            self.assertEqual(stored[2]["topic"], "events")
        with self.assertRaises(RejectedError) as raised:
            await self.client.produce_all([*order, {"queue": self.name + "-q", "value": "job", "dedup": "d"}])
        self.assertIn("record 3: dedup", str(raised.exception))
        with self.assertRaises(RejectedError):
            await self.client.produce_all([])
        self.assertEqual([r.text for r in await self.read(self.name)], ["é"] * 3)

    async def test_concurrent_calls(self) -> None:
        """Many calls share a client."""

        async def write() -> None:
            for _ in range(20):
                await self.client.produce(self.name, ["x"])

        await together([write] * 16, 16)
        self.assertEqual([r.offset for r in await self.read(self.name)], list(range(320)))

    async def test_consumer(self) -> None:
        await self.client.create_topic(self.name, 3)
        await self.client.produce(self.name, [Record(str(i), str(i)) for i in range(20)])
        taken: list[str] = []
        for take in (7, 99):
            async with self.client.consumer("group " + FORM, self.name) as consumer:
                async for record in consumer:
                    taken.append(record.text)
                    take -= 1
                    if take == 0:
                        consumer.done()
                        break
        self.assertEqual(sorted(taken), sorted(str(i) for i in range(20)))

    async def test_consumer_follows(self) -> None:
        await self.client.create_topic(self.name)
        await self.client.produce(self.name, ["old"])
        async with self.client.consumer("group " + self.name, self.name, start="latest", follow=True) as consumer:
            await self.client.create_topic(self.name, 2, exist_ok=True)
            await self.client.produce(self.name, ["new"], partition=1)
            async for record in consumer:
                self.assertEqual((record.text, record.partition), ("new", 1))
                break
        # The record was not finished.
        committed = await self.client.offsets("group " + self.name)
        self.assertEqual([(o["partition"], o["offset"]) for o in committed], [(0, 1)])

    async def test_consumer_continues(self) -> None:
        """A consumer continues after a call that was cancelled."""
        if SYNC:
            self.skipTest("a thread cannot be cancelled")
        await self.client.create_topic(self.name)
        await self.client.produce(self.name, ["a"])
        async with self.client.consumer("group " + self.name, self.name, follow=True) as consumer:
            self.assertEqual((await consumer.__anext__()).text, "a")
            waiting = asyncio.ensure_future(consumer.__anext__())
            await sleep(0.1)
            waiting.cancel()
            with self.assertRaises(asyncio.CancelledError):
                await waiting
            await self.client.produce(self.name, ["b"])
            self.assertEqual((await consumer.__anext__()).text, "b")

    async def test_events(self) -> None:
        entity = "entity " + FORM
        stored = await self.client.produce_event("signup", entity, {"plan": "pro"}, id="1")
        self.assertEqual(stored["topic"], "events")
        await self.client.put_trigger(self.name, {"expr": "signup", "backfill": "replay"})
        for _ in range(1000):  # the engine follows the log
            if (await self.client.explain(self.name, entity))["value"]:
                break
            await sleep(0.01)
        else:
            self.fail("the event does not count")
        with self.assertRaises(RejectedError) as raised:
            await self.client.put_trigger(self.name, "signup THEN (")
        self.assertEqual((raised.exception.line, raised.exception.column), (1, 14))
        await self.client.delete_trigger(self.name)

    async def test_dead_letter(self) -> None:
        queue = "dead-" + FORM
        await self.client.create_queue(queue, {"visibility": "1s", "backoff": "10ms", "max-deliveries": 3})
        await self.client.send(queue, "give up", headers=[("h", "1")])
        await self.client.send(queue, "fail", delay=0.01)
        await self.client.send(queue, b"\xff", key="k", dedup="d")
        self.assertTrue((await self.client.send(queue, b"\xff", dedup="d")).get("duplicate"))
        seen: list[tuple[bytes | None, int]] = []

        async def handler(message: Message) -> None:
            seen.append((message.value, message.deliveries))
            if message.value == b"give up":
                self.assertEqual(message.headers, [("h", b"1")])
                raise GiveUp("no such mailbox")
            if message.value == b"fail":
                raise ValueError("æ" * 400)
            if message.deliveries == 1:
                raise RetryAfter(0.01)

        errors: list[str] = []
        while (await self.client.queue(queue))["dead"] < 2 or (b"\xff", 2) not in seen:
            await self.client.work(
                queue, handler, concurrency=5, until_empty=True, on_error=lambda what, error: errors.append(what)
            )
            await sleep(0.02)
        reasons = {}
        for letter in (await self.client.messages(queue + ".dead"))["messages"]:
            reasons[letter["value"]] = {h["key"]: h.get("value") for h in letter["headers"]}["seb-reason"]
        self.assertEqual(reasons, {"give up": "no such mailbox", "fail": "æ" * 256})
        self.assertEqual([e.split()[0] for e in errors], ["message"] * 3)
        self.assertEqual(len(seen), 6)

    async def test_extension(self) -> None:
        """A handler takes longer than the lease, and another one loses its lease."""
        queue = "extended-" + FORM
        await self.client.create_queue(queue, {"visibility": "1s"})
        await self.client.send_messages(queue, ["long", "lost"])
        ends: list[str] = []

        async def handler(message: Message) -> None:
            if message.text == "long":
                await sleep(2.2)
                ends.append(f"long {message.deliveries}")
                return
            await self.client.settle(queue, [{"receipt": message.receipt, "do": "done"}])  # as another program would
            try:
                if SYNC:
                    self.assertTrue(message.cancelled.wait(10))
                    raise RuntimeError
                await sleep(10)
            finally:
                self.assertTrue(message.cancelled.is_set())
                ends.append("lost")

        errors: list[str] = []
        await self.client.work(queue, handler, concurrency=2, until_empty=True, on_error=lambda w, e: errors.append(str(e)))
        self.assertEqual(ends, ["lost", "long 1"])
        self.assertEqual(errors, ["the lease of the message is lost: another worker may have it"])
        state = await self.client.queue(queue)
        self.assertEqual([state["ready"], state["leased"], state["retry"], state["dead"]], [0, 0, 0, 0])

    async def test_stop(self) -> None:
        """A worker that is stopped waits for its handlers, and cancels them after the grace period."""
        queue = "stopped-" + FORM
        await self.client.create_queue(queue, {"visibility": "5s"})
        await self.client.send_messages(queue, ["quick", "slow"])
        stop = Event()
        running: list[str] = []

        async def handler(message: Message) -> None:
            running.append(message.text)
            if len(running) == 2:
                stop.set()
            if message.text == "quick":
                await sleep(0.2)
            elif SYNC:
                message.cancelled.wait(10)
                raise RuntimeError("cancelled")
            else:
                await sleep(10)

        await self.client.work(queue, handler, concurrency=2, grace=0.5, stop=stop)
        state = await self.client.queue(queue)
        self.assertEqual([state["ready"], state["leased"]], [1, 0], "the message comes again at once")

    async def test_worker_arguments(self) -> None:
        async def handler(message: Message) -> None: ...

        for o in ({"concurrency": 0}, {"visibility": 0.5}, {"grace": -1}):
            with self.assertRaises(SebError):
                await self.client.work("missing", handler, **o)  # type: ignore[arg-type]
        with self.assertRaises(SebError) as raised:
            await self.client.work("missing", handler)
        self.assertEqual(raised.exception.code, "unknown_topic")

    async def test_cancelled_work(self) -> None:
        """The first cancellation of work() is graceful."""
        if SYNC:
            self.skipTest("a thread cannot be cancelled")
        queue = "cancelled-" + FORM
        await self.client.create_queue(queue)
        await self.client.send_messages(queue, ["a", "b"])
        started = Event()

        async def handler(message: Message) -> None:
            started.set()
            await sleep(0.1)

        task = asyncio.ensure_future(self.client.work(queue, handler))
        await started.wait()
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        state = await self.client.queue(queue)
        self.assertEqual([state["ready"], state["leased"]], [1, 0])


if __name__ == "__main__":
    if "--sync" in sys.argv and not SYNC:
        run_sync(__file__, globals())
    else:
        unittest.main(argv=[a for a in sys.argv if not a.startswith("--")])
