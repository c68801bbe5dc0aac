"""Requests of a client, and their repetition."""

from __future__ import annotations

import functools
import json
import ssl
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from typing import Any, TypeVar, cast, get_origin

import httpx

from .. import _core as core
from .._core import Attempts, Brokers, Pauses, Producers, Request
from .._errors import (
    PROBLEM, PROBLEM_MAX, SebError, ended_early, error_of, failure, first_line, no_answer, not_broker, problem_of,
    repeatable,
)
from .._records import json_out
from .platform import sleep

T = TypeVar("T")

JSON, NDJSON, EVENTS = "application/json", "application/x-ndjson", "text/event-stream"
PAGE = 1000  # elements of one page of a list
STREAM_SILENCE = 45.0  # of an event stream, which has a heartbeat every 15 seconds
STREAM_LASTS = 5.0  # a connection that lasts longer counts as progress


@functools.cache
def authorities() -> ssl.SSLContext:
    """Returns the authorities of the system, which take a while to load."""
    return ssl.create_default_context()


class Transport:
    """A pool of connections to the brokers of one bucket."""

    def __init__(
        self,
        addresses: str | Iterable[str] = "http://127.0.0.1:51313",
        *,
        token: str | None = None,
        retry_time: float = core.RETRY_TIME,
        tls: ssl.SSLContext | None = None,
        idempotent: bool = True,
    ) -> None:
        """addresses are those of the brokers of one bucket: one, a list, or several separated by commas.
        retry_time bounds the repetitions of one call in seconds, from its first failure on. tls replaces the
        authorities of the system: ssl.create_default_context(cafile="ca.pem"). With idempotent=False the
        broker cannot recognize a repeated produce, so its unknown outcome is raised at once."""
        listed = core.addresses_of(addresses)
        token = core.token_of(token)
        self._brokers = Brokers(listed)
        self._retry_time = retry_time
        self._producers = Producers() if idempotent else None
        self._counts: dict[str, tuple[int, float]] = {}  # partitions of topics, and until when that counts
        headers = {"User-Agent": f"seb-python/{core.VERSION}", "Accept-Encoding": "identity"}
        if token:
            headers["Authorization"] = f"Bearer {token}"
        direct = {"all://" + httpx.URL(a).netloc.decode(): None for a in listed if core.loopback(a)}  # no proxy
        self._http = httpx.AsyncClient(
            verify=tls or authorities(), mounts=direct, follow_redirects=False,
            headers=httpx.Headers(headers, encoding="utf-8"),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=256, keepalive_expiry=60),
        )

    async def aclose(self) -> None:
        await self._http.aclose()

    async def _call(self, request: Request[T]) -> T:
        """Sends a request until it has an answer, may not be repeated, or the retry time is over."""
        attempts = Attempts(request, self._brokers, self._retry_time)
        while True:
            address = self._brokers.pick()
            try:
                return request.parse(await self._once(request, address))
            except SebError as e:
                pause = attempts.failed(e, address)
            await sleep(pause)

    async def _once(self, request: Request[Any], address: str) -> httpx.Response:
        """Sends a request once, and returns an answer with a 2xx status, whose body is read unless it is a
        stream."""
        several = self._brokers.several() and request.bounded
        silence = request.silence or (core.SILENCE_SEVERAL if several else core.SILENCE_ONE) + request.wait
        headers = {"Accept": f"{JSON}, {PROBLEM}", **request.headers}
        after = self._brokers.after() if request.method == "GET" else ""
        if after:
            headers["Seb-After"] = after
        try:
            built = self._http.build_request(
                request.method, request.url(address), headers=headers, content=request.body,
                timeout=httpx.Timeout(silence, connect=core.CONNECT_MAX, pool=None),
            )
        except (httpx.InvalidURL, ValueError) as e:
            raise core.bad_input(str(e), write=request.write) from None
        try:
            response = await self._http.send(built, stream=True)
        except httpx.HTTPError as e:
            raise no_answer(e, address, write=request.write) from e
        self._brokers.answered(response.headers)
        if not response.is_success:
            error = error_of(response, await self._problem(response), write=request.write)
            error._position = after if error.code == "not_yet" else ""
            raise error
        if after and self._brokers.missed(response.headers, after):
            self._brokers.forget(after)
        kind = response.headers.get("Content-Type", "")
        if request.stream and kind.startswith(EVENTS):
            return response
        try:
            await response.aread()
        except httpx.HTTPError as e:
            raise ended_early(e, response.status_code, write=request.write) from e
        finally:
            await response.aclose()
        if request.stream:
            raise not_broker(response, f"content type {kind!r}", write=False)
        return response

    async def _problem(self, response: httpx.Response) -> bytes:
        """Returns the body of an error, or the beginning of it."""
        body = b""
        try:
            async for chunk in response.aiter_bytes():
                body += chunk
                if len(body) > PROBLEM_MAX:
                    break
        except httpx.HTTPError:
            pass
        finally:
            await response.aclose()
        return body

    async def _get(self, kind: type[T], path: str, member: str, **query: Any) -> T:
        """Reads an answer that has a member: a proxy may answer in JSON, too."""
        return await self._call(Request("GET", path, parser(kind, member), query))

    async def _listed(self, kind: type[T], path: str, member: str) -> list[T]:
        """Returns all elements of a list, page by page."""
        found: list[T] = []
        query: dict[str, Any] = {"limit": PAGE}
        while True:
            page = await self._call(Request("GET", path, parser(dict[str, Any], member), query))
            found += page[member]
            if page.get("next") is None:
                return found
            query["after"] = page["next"]

    async def _send(self, kind: type[T], method: str, path: str, body: Any = None, *members: str, **options: Any) -> T:
        """Sends a change, with a body in JSON if there is one. The answer has the members."""
        request = Request(method, path, parser(kind, *members, write=True), write=True, **options)
        if body is not None:
            request.body = json_out(body)
            request.headers = {"Content-Type": JSON, **request.headers}
        return await self._call(request)

    async def _delete(self, path: str, **query: Any) -> None:
        await self._call(Request("DELETE", path, no_content, query, write=True))

    async def _events(self, path: str, query: Mapping[str, Any], last: str) -> AsyncIterator[tuple[str, bytes]]:
        """Follows an event stream over broken connections, and yields IDs and data. Each ID resumes the stream."""
        pauses = Pauses(self._retry_time)
        while True:
            headers = {"Accept": f"{EVENTS}, {PROBLEM}"}
            if last:
                headers["Last-Event-ID"] = last
            response = await self._call(
                Request("GET", path, lambda response: response, query, headers, stream=True, silence=STREAM_SILENCE)
            )
            began = time.monotonic()
            error = failure("none", "the event stream ended")  # the broker stops, or the connection gives way
            try:
                async for name, this, data in events(lines(response.aiter_bytes())):
                    if name == "error":
                        raise problem_of(data)
                    if name == "":
                        last, began = this, float("-inf")
                        yield last, data
            except httpx.HTTPError as e:
                error = ended_early(e, response.status_code)
            except SebError as e:
                if not repeatable(e):
                    raise
                error = e
            finally:
                await response.aclose()
            if time.monotonic() - began > STREAM_LASTS:
                pauses = Pauses(self._retry_time)
            pause = pauses.next(error.retry_after)
            if pause is None:
                raise error
            await sleep(pause)


def parser(kind: type[T], *members: str, write: bool = False) -> Callable[[httpx.Response], T]:
    """Returns a function that reads an answer in JSON: a list for a kind of list, else an object with members."""

    def parse(response: httpx.Response) -> T:
        try:
            value = json.loads(response.content)
        except (ValueError, RecursionError):
            value = None
        if not isinstance(value, list if get_origin(kind) is list else dict) or any(m not in value for m in members):
            raise not_broker(response, first_line(response.content), write=write)
        return cast(T, value)

    return parse


def no_content(response: httpx.Response) -> None:
    if response.status_code != 204:
        raise not_broker(response, first_line(response.content), write=True)


async def lines(chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """Splits a body at LF only."""
    rest: list[bytes] = []
    async for chunk in chunks:
        *whole, last = chunk.split(b"\n")
        for line in whole:
            yield b"".join([*rest, line])
            rest = []
        rest.append(last)


async def events(lines: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, str, bytes]]:
    """Parses server-sent events: name, ID and data."""
    name, last, data = "", "", b""
    async for line in lines:
        member, _, value = line.rstrip(b"\r").partition(b": ")
        if member == b"event":
            name = value.decode()
        elif member == b"id":
            last = value.decode()
        elif member == b"data":
            data = value
        elif not line.rstrip(b"\r"):
            if data:
                yield name, last, data
            name, data = "", b""
