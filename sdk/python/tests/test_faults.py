"""Tests without a broker: what stands in its place answers wrongly, late, or not at all.

    python3 test_faults.py [--sync] [FaultTest.test_proxy]
"""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import os
import pickle
import socket
import ssl
import sys
import threading
import unittest
from typing import Any
from unittest import mock

from generate import run_sync
from sebbroker import AsyncClient, Message, OutcomeUnknownError, Record, RejectedError, SebError, webhook
from sebbroker._async.platform import Event, Work, sleep
from sebbroker._async.worker import Worker
from sebbroker._core import Brokers, Producer, partition_of, seconds_of
from sebbroker._records import time_in

SYNC = False
SECRET = "CANARY"
STORED = {"topic": "t", "partition": 0, "first_offset": 7, "count": 1}


def answer(status: int, body: Any = b"", kind: str = "", length: int | None = None, **headers: str) -> bytes:
    """Returns an answer; a body that is not bytes is JSON."""
    if not isinstance(body, bytes):
        body = json.dumps(body).encode()
        kind = kind or ("application/json" if status < 300 else "application/problem+json")
    head = f"HTTP/1.1 {status} X\r\nContent-Type: {kind or 'text/html'}\r\nContent-Length: {len(body) if length is None else length}\r\n"
    head += "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    return head.encode() + b"Connection: close\r\n\r\n" + body


def problem(status: int, code: str, detail: str = "", **headers: str) -> bytes:
    body = {"type": "", "title": "", "status": status, "code": code, "detail": detail, "next_offset": 9}
    return answer(status, body, **headers)


HANG = b"hang"  # no answer until the end of the test
CLOSE = b""  # the connection ends without an answer
HTML = b"<html>\n<body>bad gateway</body></html>"


class Fake:
    """A server that gives one answer per connection, and the last one again and again. Paths may have their own."""

    def __init__(self, *answers: bytes, **of_path: list[bytes]) -> None:
        self.answers, self.of_path = list(answers), of_path
        self.requests: list[tuple[str, bytes]] = []
        self.held: list[socket.socket] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.address = "http://127.0.0.1:%d" % self.socket.getsockname()[1]
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self) -> None:
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            with connection:
                connection.settimeout(5)
                try:
                    head, body = self.read(connection)
                except OSError:
                    continue
                self.requests.append((head, body))
                path = head.split()[1].partition("?")[0].rpartition("/")[2]
                answers = self.of_path.get(path, self.answers)
                text = answers.pop(0) if len(answers) > 1 else answers[0]
                if text == HANG:
                    self.held.append(connection.dup())
                else:
                    connection.sendall(text)

    def read(self, connection: socket.socket) -> tuple[str, bytes]:
        data = b""
        while b"\r\n\r\n" not in data:
            more = connection.recv(65536)
            if not more:
                raise OSError("no request")
            data += more
            if data[0] == 0x16:  # TLS
                return "TLS /", b""
        head, body = data.split(b"\r\n\r\n", 1)
        lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
        while lengths and len(body) < int(lengths[0].partition(b":")[2]):
            body += connection.recv(65536)
        return head.decode("latin1"), body

    def headers(self, i: int, name: str) -> str:
        found = [line for line in self.requests[i][0].split("\r\n") if line.lower().startswith(name.lower() + ":")]
        return found[0].partition(": ")[2] if found else ""

    def close(self) -> None:
        self.socket.close()
        for connection in self.held:
            connection.close()


class FaultTest(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.closing: list[Any] = []
        if not SYNC:
            asyncio.get_running_loop().set_debug(False)

    async def asyncTearDown(self) -> None:
        for fake in self.closing:
            fake.close()

    def fake(self, *answers: bytes, **of_path: list[bytes]) -> Fake:
        self.closing.append(Fake(*answers, **of_path))
        return self.closing[-1]  # type: ignore[no-any-return]

    async def error(self, call: Any, *args: Any, **o: Any) -> SebError:
        try:
            await call(*args, **o)
        except SebError as e:
            self.assertNotIn(SECRET, str(e) + repr(e))
            self.assertEqual(str(pickle.loads(pickle.dumps(e))), str(e))
            return e
        raise AssertionError("the call has not failed")

    async def test_arguments(self) -> None:
        """What a client cannot use is refused at once, without its secrets."""
        for address in (
            "", "127.0.0.1:1", "ftp://h", "http://", f"http://h?key={SECRET}", f"http://u:{SECRET}@h", f"http://{SECRET}@h:1",
            f"http://u:{SECRET}@h:x", f"ftp://u:{SECRET}@h", f"http://u:{SECRET}%zz@h", f"://{SECRET}", f"http://h\n{SECRET}",
            f"http://h#{SECRET}", "http://h:99999", "http://h:0", "http://h,", [], "http://[::1",
        ):
            with self.assertRaises(SebError, msg=repr(address)) as raised:
                AsyncClient(address)
            self.assertNotIn(SECRET, str(raised.exception))
            self.assertEqual(raised.exception.outcome, "none")
        for token in (SECRET + "\n", SECRET + "\0", SECRET + "\r\nX: y", SECRET + "\x7f", SECRET + "\ud800"):
            with self.assertRaises(SebError) as raised:
                AsyncClient(token=token)
            self.assertNotIn(SECRET, str(raised.exception))
        for client in (AsyncClient("http://h:1/prefix, http://i", token=f" {SECRET} é "), AsyncClient(["http://h", "http://h/"])):
            self.assertNotIn(SECRET, repr(client) + repr(vars(client)))
            await client.aclose()

    async def test_proxy(self) -> None:
        """Answers that no broker sends."""
        fake = self.fake(answer(502, HTML))
        e = await self.error(AsyncClient(fake.address, idempotent=False).produce, "t", ["x"])
        self.assertIsInstance(e, OutcomeUnknownError)
        text = "answer 502 Bad Gateway: <html> (outcome unknown: it may appear once, or never)"
        self.assertEqual((str(e), len(fake.requests)), (text, 1))
        fake = self.fake(answer(502, HTML), CLOSE, answer(201, STORED))
        self.assertEqual((await AsyncClient(fake.address).produce("t", ["x"]))[0].get("first_offset"), 7)
        for name in ("Seb-Producer-Id", "Seb-Sequence"):
            self.assertEqual(len({fake.headers(i, name) for i in range(3)}), 1, "the request is repeated as it was")
        for body in (HTML, b"[]", b"{}", b'{"count": 2, "partition": 0, "first_offset": 1}', b'{"results": [{"partition": 0}]}'):
            fake = self.fake(answer(200, body))
            e = await self.error(AsyncClient(fake.address).produce, "t", ["x"])
            self.assertIsInstance(e, OutcomeUnknownError, body)
            self.assertEqual(len(fake.requests), 1, "a proxy would give the same answer again")
        e = await self.error(AsyncClient(self.fake(answer(200, HTML)).address).delete_topic, "t")
        self.assertIsInstance(e, OutcomeUnknownError)
        e = await self.error(AsyncClient(self.fake(answer(200, HTML)).address).topic, "t")
        self.assertEqual((type(e), str(e)), (SebError, "answer 200 OK: not the answer of a broker: <html>"))
        e = await self.error(AsyncClient(self.fake(answer(302, HTML, Location="http://h")).address).produce, "t", ["x"])
        self.assertIsInstance(e, RejectedError)
        deep = answer(200, b"[" * 100_000)
        e = await self.error(AsyncClient(self.fake(deep).address).topics)
        self.assertIn("not the answer of a broker", str(e))

    async def test_cut_answers(self) -> None:
        """An answer that ends early is repeated if that is safe."""
        cut = answer(201, STORED, length=500)
        fake = self.fake(cut, answer(201, STORED))
        self.assertEqual(len(await AsyncClient(fake.address).produce("t", ["x"])), 1)
        fake = self.fake(cut)
        e = await self.error(AsyncClient(fake.address, idempotent=False).produce, "t", ["x"])
        self.assertEqual((type(e), e.status, len(fake.requests)), (OutcomeUnknownError, 201, 1))
        fake = self.fake(cut, answer(200, {"topics": []}))
        self.assertEqual(await AsyncClient(fake.address).topics(), [])
        fake = self.fake(answer(503, HTML, length=500), answer(200, {"topics": []}))
        self.assertEqual(await AsyncClient(fake.address).topics(), [])

    async def test_unknown_stays_unknown(self) -> None:
        """A refusal does not rule out that an earlier attempt takes effect, unless the end is beyond it."""
        client = AsyncClient(self.fake(CLOSE, problem(400, "bad_request")).address)
        self.assertIsInstance(await self.error(client.produce, "t", ["x"]), OutcomeUnknownError)
        client = AsyncClient(self.fake(CLOSE, problem(409, "offset_mismatch")).address)
        e = await self.error(client.produce, "t", ["x"], expected_offset=8)
        self.assertEqual((type(e), e.next_offset), (RejectedError, 9))

    async def test_refusals(self) -> None:
        """A write that is refused is repeated if the broker says when."""
        fake = self.fake(problem(429, "over_budget", Retry_After="0"), answer(201, {"topic": "e", "partition": 0, "offset": 1}))
        self.assertEqual((await AsyncClient(fake.address).produce_event("e", "x"))["offset"], 1)
        for refusal in (problem(429, "over_budget"), problem(500, "internal"), problem(403, "forbidden", Retry_After="0")):
            fake = self.fake(refusal)
            e = await self.error(AsyncClient(fake.address).produce_event, "e", "x")
            self.assertEqual((len(fake.requests), e.outcome), (1, "unknown" if e.status == 500 else "rejected"))
        fake = self.fake(problem(503, "store_unavailable", Retry_After="60"))
        with mock.patch("sebbroker._async.transport.sleep", side_effect=AssertionError("waits longer than retry_time")):
            e = await self.error(AsyncClient(fake.address, retry_time=1).topics)
        self.assertEqual((e.code, e.retry_after, len(fake.requests)), ("store_unavailable", 60, 1))

    async def test_problem_of_another_server(self) -> None:
        for status in (400, 404):
            fake = self.fake(problem(status, 7, ["x"], Retry_After="1 Jan 99999100600:00 89999"))  # type: ignore[arg-type]
            e = await self.error(AsyncClient(fake.address).produce, "t", ["x"], expected_offset=8)
            self.assertEqual((type(e), e.status, e.code), (RejectedError, status, ""))

    async def test_empty(self) -> None:
        fake = self.fake(HANG)
        client = AsyncClient(fake.address)
        self.assertIsInstance(await self.error(client.produce, "t", []), RejectedError)
        self.assertIsInstance(await self.error(client.produce_events, []), RejectedError)
        for call in (client.produce, client.send_messages):  # not a record for each character
            for text in ("text", b"text"):
                self.assertIsInstance(await self.error(call, "t", text), RejectedError)
        self.assertEqual(fake.requests, [])

    async def test_older_broker(self) -> None:
        old = problem(404, "not_found", 'no route "/queues/q"; see /openapi.json')
        for reply in (old, answer(404, b"404 page not found", "text/plain")):
            e = await self.error(AsyncClient(self.fake(reply).address).queue, "q")
            self.assertIn("the broker does not know GET /queues/q: it may be of an older version", str(e))
        e = await self.error(AsyncClient(self.fake(problem(404, "unknown_topic", "no topic q")).address).queue, "q")
        self.assertEqual(str(e), "unknown topic: no topic q")

    async def test_no_broker(self) -> None:
        """Nothing listens, TLS is not what the address says, or the certificate is not trusted."""
        free = socket.create_server(("127.0.0.1", 0))
        address = "127.0.0.1:%d" % free.getsockname()[1]
        free.close()
        e = await self.error(AsyncClient("http://" + address, retry_time=0.1, token=SECRET).produce, "t", ["x"])
        self.assertIsInstance(e, RejectedError)
        self.assertIn(address, str(e))
        fake = self.fake(answer(400))
        e = await self.error(AsyncClient(fake.address.replace("http", "https"), token=SECRET).produce_event, "e", "x", id="1")
        self.assertIsInstance(e, RejectedError)
        if "TLS_ADDRESS" in os.environ:  # a server with a certificate of its own
            address = os.environ["TLS_ADDRESS"]
            e = await self.error(AsyncClient(address, token=SECRET).produce, "t", ["x"])
            self.assertIsInstance(e, RejectedError)
            self.assertIn("certificate verify failed", str(e))
            trusting = AsyncClient(address, tls=ssl.create_default_context(cafile=os.environ["TLS_CERTIFICATE"]))
            self.assertEqual((await self.error(trusting.topics)).status, 404)

    async def test_brokers(self) -> None:
        """The next broker is asked at once. A leader that an answer names is preferred."""
        leader = self.fake(answer(200, {"topics": []}, Seb_Position="0:1:7"))
        standby = self.fake(answer(200, {"topics": []}, Seb_Leader=leader.address, Seb_Position="0:1:5"))
        silent = self.fake(CLOSE)
        client = AsyncClient(f"{silent.address},{standby.address},{leader.address}")
        for _ in range(3):
            await client.topics()
        self.assertEqual([len(f.requests) for f in (silent, standby, leader)], [1, 1, 2])
        self.assertEqual([leader.headers(i, "Seb-After") for i in range(2)], ["0:1:5", "0:1:7"])
        not_leader = self.fake(problem(503, "not_leader", Retry_After="30"))
        client = AsyncClient([not_leader.address, self.fake(answer(201, STORED)).address])
        self.assertEqual(len(await client.produce("t", ["x"])), 1)

    async def test_another_bucket(self) -> None:
        """A position that no broker reaches is forgotten."""
        fake = self.fake(answer(200, {"topics": []}, Seb_Position="0:5:5"), problem(503, "not_yet"), answer(200, {"topics": []}))
        client = AsyncClient(fake.address, retry_time=0)
        await client.topics()
        self.assertEqual((await self.error(client.topics)).code, "not_yet")
        await client.topics()
        self.assertEqual([fake.headers(i, "Seb-After") for i in range(3)], ["", "0:5:5", ""])

    async def test_cancelled_produce(self) -> None:
        """A produce that is cancelled has an unknown outcome: the next one begins an epoch."""
        if SYNC:
            self.skipTest("a thread cannot be cancelled")
        fake = self.fake(answer(201, STORED), HANG, answer(201, STORED))
        client = AsyncClient(fake.address)
        await client.produce("t", ["x"])
        task = asyncio.ensure_future(client.produce("t", ["x"]))
        while len(fake.requests) < 2:
            await sleep(0.01)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        await client.produce("t", ["x"])
        names = ("Seb-Producer-Epoch", "Seb-Sequence")
        self.assertEqual([[fake.headers(i, n) for n in names] for i in range(3)], [["0", "0"], ["0", "1"], ["1", "0"]])

    async def test_partitions(self) -> None:
        """If the outcomes of several partitions differ, the error has each."""
        topic = {"name": "t", "partitions": [{"partition": 0}, {"partition": 1}]}
        refused = problem(400, "bad_request")
        fake = self.fake(answer(200, topic), answer(201, STORED), refused)
        e = await self.error(AsyncClient(fake.address).produce, "t", [Record("x", str(i)) for i in range(9)])
        self.assertIsInstance(e, OutcomeUnknownError)
        self.assertEqual([r["partition"] for r in e.results], [0, 1])
        fake = self.fake(answer(200, topic), refused)
        e = await self.error(AsyncClient(fake.address).produce, "t", [Record("x", str(i)) for i in range(9)])
        self.assertEqual((e.outcome, [r.get("code") for r in e.results]), ("rejected", ["bad_request"] * 2))
        e = await self.error(AsyncClient(self.fake(refused).address).produce, "t", [Record("x", "k")])
        self.assertIsInstance(e, RejectedError)

    async def test_streams(self) -> None:
        """A stream continues behind the last event of a broken one, and ends with the broker's error."""

        def events(*offsets: int, more: bytes = b"") -> bytes:
            text = "".join(
                f'id: {o}\ndata: {json.dumps({"offset": o, "timestamp": 1, "key": None, "value": str(o)})}\n\n' for o in offsets
            )
            return answer(200, b":\n\n" + text.encode() + more, "text/event-stream", 10_000 if more else None)

        gone = b'event: error\ndata: {"status": 404, "code": "offset_below_start", "start_offset": 9}\n\n'
        busy = b'event: error\ndata: {"status": 503, "code": "shutting_down"}\n\n'
        fake = self.fake(events(3, 4, more=b"id: 5\ndata: {"), events(more=busy), events(5), events(6, more=gone))
        got: list[int] = []
        with self.assertRaises(SebError) as raised:
            async for record in AsyncClient(fake.address).read("t", offset=3, follow=True):
                got.append(record.offset)
        self.assertEqual((raised.exception.code, raised.exception.start_offset), ("offset_below_start", 9))
        self.assertEqual(got, [3, 4, 5, 6])
        with self.assertRaises(SebError) as raised:
            async for _ in AsyncClient(self.fake(answer(200, HTML)).address).read("t", offset=3, follow=True):
                pass
        self.assertEqual(str(raised.exception), "answer 200 OK: not the answer of a broker: content type 'text/html'")
        self.assertEqual([fake.headers(i, "Last-Event-ID") for i in range(4)], ["", "4", "4", "5"])

    async def test_worker_waits(self) -> None:
        """A worker waits for a broker that is away, and settles what it has done."""
        leased = {"id": "0-1", "receipt": "r", "deliveries": 1, "sent": "2026-01-01T00:00:00.123456789Z", "key": None, "value": "x"}
        fake = self.fake(
            lease=[CLOSE, problem(503, "store_unavailable"), answer(502, HTML), answer(200, {"messages": [leased]}), CLOSE,
                   answer(200, {"messages": []})],
            settle=[CLOSE, answer(200, {"messages": [{"code": "store_unavailable"}]}), answer(200, {"messages": [{}]})],
        )
        done: list[str] = []

        async def handler(message: Message) -> None:
            done.append(message.text)
            self.assertEqual(message.sent.microsecond, 123456)

        errors: list[str] = []
        await AsyncClient(fake.address).work(
            "q", handler, visibility=60, until_empty=True, on_error=lambda what, error: errors.append(what)
        )
        self.assertEqual((done, errors), (["x"], ["lease"] * 4))
        self.assertEqual(sum(b'"do":"done"' in body for _, body in fake.requests), 3)

    async def test_worker_gives_up(self) -> None:
        fake = self.fake(problem(403, "forbidden"))

        async def handler(message: Message) -> None: ...

        e = await self.error(AsyncClient(fake.address).work, "q", handler, visibility=60)
        self.assertEqual((e.code, len(fake.requests)), ("forbidden", 1))
        leased = {"id": "0-1", "receipt": "r", "deliveries": 1, "sent": "2026-01-01T00:00:00Z", "key": None, "value": "x"}
        fake = self.fake(lease=[answer(200, {"messages": [leased]}), answer(200, {"messages": []})], settle=[answer(403, HTML)])
        e = await self.error(AsyncClient(fake.address).work, "q", handler, visibility=60, on_error=lambda what, error: None)
        text = "answer 403 Forbidden: 1 settlements are not stored, so their messages come again: <html>"
        self.assertEqual((type(e), str(e)), (RejectedError, text))

    async def test_lease_after_grace_period(self) -> None:
        """A lease that ends after the grace period starts no handlers: its messages come again at once."""
        settled: list[Any] = []

        class Source:
            async def _lease(self, *args: Any, **o: Any) -> list[Any]:
                worker.stop()
                while not worker._over:
                    await sleep(0.01)
                return [{"id": "0-1", "receipt": "r", "deliveries": 1, "sent": "2026-01-01T00:00:00Z", "value": "x"}]

            async def settle(self, queue: str, settlements: Any) -> list[Any]:
                settled.extend(settlements)
                return [{} for _ in settlements]

        async def handler(message: Message) -> None:
            self.fail("the handler runs after the grace period")

        worker = Worker(Source(), "q", handler, 1, 60, False, 0, None)  # type: ignore[arg-type]
        await worker.run()
        again = {"receipt": "r", "do": "retry", "reason": "the worker stops", "delay": "0.000s"}
        self.assertEqual(settled, [again] if SYNC else [])  # a task ends the lease

    async def test_wrong_handler(self) -> None:
        """A coroutine function that Client would call and never wait for is no success."""
        if not SYNC:
            self.skipTest("AsyncClient waits for coroutines")
        leased = {"id": "0-1", "receipt": "r", "deliveries": 1, "sent": "2026-01-01T00:00:00Z", "key": None, "value": "x"}
        fake = self.fake(
            lease=[answer(200, {"messages": [leased]}), answer(200, {"messages": []})], settle=[answer(200, {"messages": [{}]})]
        )
        errors: list[str] = []
        coroutine = {"__builtins__": __builtins__}  # the synchronous form of this module has none
        exec("as" + "ync def handler(message): pass", coroutine)
        AsyncClient(fake.address).work(  # type: ignore[unused-coroutine]
            "q", coroutine["handler"], visibility=60, until_empty=True, on_error=lambda what, error: errors.append(str(error))
        )
        self.assertIn("the handler of a Client is no coroutine function", errors[0])
        self.assertTrue(any(b'"do":"retry"' in body for _, body in fake.requests))

    async def test_parts(self) -> None:
        """Parts that need no server."""
        self.assertEqual([partition_of(k, 1000) for k in (b"21", b"foobar", b"a-little-bit-long-string", b"", None)], PARTITIONS)
        self.assertEqual([seconds_of(s) for s in ("1m30s", "12h0m0s", "1.5s", "250ms", "1d")], [90, 43200, 1.5, 0.25, 86400])
        self.assertEqual(time_in("2026-01-01T00:00:00Z").isoformat(), "2026-01-01T00:00:00+00:00")
        producer = Producer(1, 0x7FFF, 5)
        producer.failed(RejectedError(code="bad_request"))
        self.assertEqual((producer.id, producer.sequence), (1, 5))
        producer.failed(KeyboardInterrupt())
        self.assertEqual((producer.epoch, producer.sequence), (0, 0))
        self.assertNotEqual(producer.id, 1)
        brokers = Brokers(["a", "b", "c"])
        self.assertEqual([(brokers.failed(brokers.pick()), brokers.pick()) for _ in range(3)], [(True, "b"), (True, "c"), (False, "a")])

    async def test_webhooks(self) -> None:
        key = bytes(range(32))
        secret = "whsec_" + base64.b64encode(key).decode()
        other = "whsec_" + base64.b64encode(bytes(24)).decode()
        body, now = b'{"test": 2432232314}', 1_614_265_330

        def signed(id: str = "msg_1", at: str = str(now), text: bytes = body) -> dict[str, str]:
            sum = hmac.new(key, f"{id}.{at}.".encode() + text, hashlib.sha256).digest()
            return {"Webhook-Id": id, "webhook-timestamp": at, "WEBHOOK-SIGNATURE": "v1a,x v1,eA== v1," + base64.b64encode(sum).decode()}

        received = webhook.verify(body, signed(), [other, secret], now=now + 300)
        self.assertEqual((received.id, received.sent_at.timestamp()), ("msg_1", now))
        vector = {
            "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek", "webhook-timestamp": "1614265330",
            "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
        }
        webhook.verify(body, vector, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", now=now)
        good = signed()
        for code, change in (
            ("bad_headers", {"Webhook-Id": ""}), ("bad_headers", {"webhook-id": "msg_1"}), ("bad_headers", {"webhook-timestamp": "+1"}),
            ("bad_headers", {"webhook-timestamp": "01614265330"}), ("bad_headers", {"WEBHOOK-SIGNATURE": "v1,a " * 1000}),
            ("bad_headers", signed("a.b")), ("bad_headers", signed("a b")), ("bad_headers", signed("a" * 257)),
            ("bad_headers", {"webhook-timestamp": "９"}), ("timestamp", signed(at=str(now - 301))), ("timestamp", signed(at=str(now + 301))),
            ("signature", signed(text=b"")), ("signature", {"webhook-timestamp": str(now + 1)}), ("signature", {"WEBHOOK-SIGNATURE": "v1,é"}),
        ):
            with self.assertRaises(webhook.WebhookError, msg=str(change)) as raised:
                webhook.verify(body, {**good, **change}, secret, now=now)
            self.assertEqual(raised.exception.code, code, change)
        for bad in ("", secret[6:], secret + "\n", secret[:-1], "whsec_" + "A" * 8, "whsec_" + "A" * 88, secret[:-2] + "9=", [], [secret] * 9):
            with self.assertRaises(ValueError) as wrong:
                webhook.verify(body, good, bad, now=now)
            self.assertNotIn(secret[8:20], str(wrong.exception))


# murmur2 of Kafka's tests, as partitions
PARTITIONS = [(h & 0x7FFFFFFF) % 1000 for h in (-973932308, -790332482, -985981536, 275646681)] + [0]

if __name__ == "__main__":
    if "--sync" in sys.argv and not SYNC:
        run_sync(__file__, globals())
    else:
        unittest.main(argv=[sys.argv[0], *(a for a in sys.argv[1:] if a.startswith("FaultTest"))])
