"""What a client decides without I/O: which broker gets a request, when it is repeated, and producers."""

from __future__ import annotations

import random
import re
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

import httpx

from ._errors import SebError, elsewhere, failure, repeatable, with_outcome

VERSION = "0.1.0"
RETRY_TIME = 30.0  # seconds for which one call is repeated, from its first failure on
CONNECT_MAX = 10.0
SILENCE_ONE = 120.0  # without a byte: of one broker, which may be slow
SILENCE_SEVERAL = 5.0  # of one of several brokers, for calls whose answer begins soon
AVOID_TIME = 10.0  # for which a broker that did not answer is not preferred
AGAIN_AFTER = 1.0  # a broker that failed longer ago is asked without a pause, if all others failed later
BROKERS_MAX = 64

T = TypeVar("T")


def span(seconds: float) -> str:
    """Returns a time span as the broker reads it."""
    return f"{max(0.0, seconds):.3f}s"


_UNITS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}


def seconds_of(text: str) -> float:
    """Returns the seconds of a time span such as 1m30s."""
    return sum(float(n) * _UNITS[unit] for n, unit in re.findall(r"([\d.]+)(ns|us|µs|ms|[smhd])", text))


@dataclass
class Request(Generic[T]):
    """One call, which may be sent several times."""

    method: str
    path: str
    parse: Callable[[httpx.Response], T]  # an answer with a 2xx status, whose body is read
    query: Mapping[str, Any] = field(default_factory=dict)  # members that are None are left out
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | None = None
    write: bool = False
    idempotent: bool = False  # a write that may be repeated whatever its outcome
    bounded: bool = False  # the answer begins soon, at most after wait
    wait: float = 0.0
    silence: float | None = None  # replaces the limits of the client
    stream: bool = False  # parse gets the answer before its body is read
    once: bool = False  # the caller repeats it
    settled: Callable[[SebError], bool] = lambda error: False  # a refusal rules out an effect of earlier attempts

    def url(self, address: str) -> str:
        query = {
            name: str(value).lower() if isinstance(value, bool) else value
            for name, value in self.query.items()
            if value is not None
        }
        return f"{address}{self.path}?{urllib.parse.urlencode(query, errors='surrogatepass')}"


def path(*parts: str) -> str:
    """Returns a path whose parts may have any characters."""
    quoted = (urllib.parse.quote(part, safe="", errors="surrogatepass") for part in parts)
    return "".join("/" + (part.replace(".", "%2E") if part in (".", "..") else part) for part in quoted)


def token_of(text: str | None) -> str | None:
    at = re.search(r"[\x00-\x1f\x7f\ud800-\udfff]", text or "")
    if at:
        raise SebError(f"token: a control character at position {at.start()}")
    return text.strip() if text else None


def addresses_of(given: str | Iterable[str]) -> list[str]:
    """Returns the addresses of brokers, without trailing slashes."""
    found: list[str] = []
    for address in given.split(",") if isinstance(given, str) else given:
        address = _address(address.strip(" "))
        if address not in found:
            found.append(address)
    if not 1 <= len(found) <= BROKERS_MAX:
        raise SebError(f"broker addresses: {len(found)}, want 1 to {BROKERS_MAX}")
    return found


def _address(text: str) -> str:
    """Checks an address. Its errors do not have a possible password."""
    if re.search(r"[\x00-\x20\x7f\\\ud800-\udfff]", text):
        raise SebError("broker address: want http://host:port: a space or control character")
    try:
        url = httpx.URL(text)
        port = urllib.parse.urlsplit(text).port
    except (ValueError, httpx.InvalidURL):
        raise SebError("broker address: want http://host:port") from None
    if url.userinfo or "@" in text or url.query or "?" in text or "#" in text:
        raise SebError("broker address: want http://host:port, without user, password, query or fragment")
    if url.scheme not in ("http", "https") or not url.host or port == 0:
        raise SebError("broker address: want http://host:port, or several separated by commas")
    return text.rstrip("/")


def loopback(address: str) -> bool:
    host = httpx.URL(address).host
    return host in ("localhost", "::1") or host.startswith("127.")


class Brokers:
    """The brokers of one bucket. Requests go to one of them: the leader, as far as the client knows it."""

    def __init__(self, addresses: list[str]) -> None:
        self._addresses = addresses
        self._lock = threading.Lock()  # guards the fields below
        self._current = 0
        self._failed = dict.fromkeys(addresses, float("-inf"))  # when, by address
        self._seen: tuple[int, int] | None = None  # the highest position of the log that an answer had

    def several(self) -> bool:
        return len(self._addresses) > 1

    def pick(self) -> str:
        with self._lock:
            return self._addresses[self._current]

    def failed(self, address: str) -> bool:
        """Notes that a broker does not serve requests now. The next request goes to the one whose last
        failure is the oldest. Returns whether that has not failed recently."""
        with self._lock:
            now = time.monotonic()
            self._failed[address] = now
            if self._addresses[self._current] == address:  # else another request has moved on
                n = len(self._addresses)
                rest = [(self._current + i) % n for i in range(1, n)]
                recent = {i: max(self._failed[self._addresses[i]], now - AVOID_TIME) for i in rest}
                self._current = min(rest, key=lambda i: recent[i], default=self._current)
            return self.several() and self._failed[self._addresses[self._current]] < now - AGAIN_AFTER

    def answered(self, headers: Mapping[str, str]) -> None:
        """Notes what the head of an answer tells about the brokers."""
        leader = headers.get("Seb-Leader", "").rstrip("/")
        position = _position(headers.get("Seb-Position", ""))
        with self._lock:
            if leader in self._failed and self._failed[leader] < time.monotonic() - AVOID_TIME:
                self._current = self._addresses.index(leader)
            if position is not None and (self._seen is None or self._seen < position):
                self._seen = position

    def after(self) -> str:
        """Returns the position that the next read must include, or ""."""
        with self._lock:
            return "0:%d:%d" % self._seen if self._seen else ""

    def missed(self, headers: Mapping[str, str], after: str) -> bool:
        """Reports whether an answer does not include the position that its request named."""
        got, wanted = _position(headers.get("Seb-Position", "")), _position(after)
        return got is not None and wanted is not None and got < wanted

    def forget(self, after: str) -> None:
        """Drops a position that no answer includes: the bucket is another one now."""
        with self._lock:
            if self._seen == _position(after):
                self._seen = None


def _position(text: str) -> tuple[int, int] | None:
    match = re.fullmatch(r"0:(\d{1,10}):(\d{1,20})", text, re.ASCII)
    return (int(match[1]), int(match[2])) if match else None


class Attempts:
    """The attempts of one call."""

    def __init__(self, request: Request[Any], brokers: Brokers, retry_time: float) -> None:
        self._request, self._brokers = request, brokers
        self._pauses = Pauses(0.0 if request.once else retry_time)
        self._unknown = False

    def failed(self, error: SebError, address: str) -> float:
        """Returns the pause before the next attempt. Raises the error if there is none."""
        r = self._request
        if self._unknown and error.outcome == "rejected" and not r.settled(error):
            # This attempt was refused, but an earlier one may still take effect.
            error = with_outcome(error, "unknown")
        self._unknown = error.outcome == "unknown"
        at_least = error.retry_after
        if elsewhere(error) and self._brokers.failed(address):
            at_least = 0.0  # that of another broker
        pause = self._pauses.next(at_least) if repeatable(error, write=r.write, idempotent=r.idempotent) else None
        if pause is None:
            if error._position:
                self._brokers.forget(error._position)
            raise error from error.__cause__
        return pause


class Pauses:
    """Pauses between attempts: they double, with jitter, up to a deadline after the first failure."""

    def __init__(self, total: float, first: float = 0.05, most: float = 5.0) -> None:
        self._total, self._first, self._most = total, first, most
        self._until = float("inf")
        self._failures = 0

    def next(self, at_least: float = 0.0) -> float | None:
        """Returns the pause after one more failure; None: the time is over."""
        if self._failures == 0:
            self._until = time.monotonic() + self._total
        delay = min(self._first * 2 ** min(self._failures, 20), self._most)
        self._failures += 1
        pause = max(at_least, delay * (0.5 + random.random() / 2))
        if at_least >= 1:  # the broker knows better when it has room again
            pause = at_least * (1 + random.random() / 4)
        return pause if time.monotonic() + pause <= self._until else None


@dataclass
class Producer:
    """An idempotent producer of one partition. At most one request uses it at a time, so its sequences
    arrive in order over any connection."""

    id: int = field(default_factory=lambda: random.SystemRandom().randrange(1, 1 << 63))
    epoch: int = 0
    sequence: int = 0

    def headers(self) -> dict[str, str]:
        return {
            "Seb-Producer-Id": str(self.id), "Seb-Producer-Epoch": str(self.epoch), "Seb-Sequence": str(self.sequence),
        }

    def stored(self, records: int) -> None:
        self.sequence = (self.sequence + records) & 0x7FFFFFFF

    def failed(self, error: BaseException) -> None:
        """Notes how a request failed. A rejected one uses no sequence. After an unknown outcome, such as that
        of a cancelled call, the next sequence is unknown, so the producer starts its next epoch. That also
        fences a request that may still be in progress."""
        if isinstance(error, SebError) and error.outcome == "rejected":
            if error.code not in ("sequence_gap", "producer_fenced"):
                return
        self.next_epoch()

    def next_epoch(self) -> None:
        self.sequence, self.epoch = 0, self.epoch + 1
        if self.epoch > 0x7FFF:
            self.id, self.epoch = Producer().id, 0


class Producers:
    """The idle producers of a client, by topic and partition. Concurrent calls use different ones."""

    IDLE_MAX = 4096  # all are dropped when it is reached: a new producer is always allowed

    def __init__(self) -> None:
        self._lock = threading.Lock()  # guards the fields below
        self._idle: dict[tuple[str, int], list[Producer]] = {}
        self._n = 0

    def take(self, topic: str, partition: int) -> Producer:
        with self._lock:
            idle = self._idle.get((topic, partition))
            if not idle:
                return Producer()
            self._n -= 1
            return idle.pop()

    def give(self, topic: str, partition: int, producer: Producer) -> None:
        with self._lock:
            if self._n >= self.IDLE_MAX:
                self._idle, self._n = {}, 0
            self._idle.setdefault((topic, partition), []).append(producer)
            self._n += 1


def partition_of(key: bytes | None, partitions: int) -> int:
    """Returns the partition of a key, as Kafka's Java client chooses it."""
    if key is None or partitions <= 1:
        return 0
    m, mask = 0x5BD1E995, 0xFFFFFFFF
    h = 0x9747B28C ^ len(key)
    whole = len(key) & ~3
    for i in range(0, whole, 4):
        k = int.from_bytes(key[i : i + 4], "little") * m & mask
        h = (h * m & mask) ^ ((k ^ k >> 24) * m & mask)
    if whole < len(key):
        h = (h ^ int.from_bytes(key[whole:], "little")) * m & mask
    h = (h ^ h >> 13) * m & mask
    return ((h ^ h >> 15) & 0x7FFFFFFF) % partitions


def items_of(given: Iterable[T], what: str) -> list[T]:
    """Returns the items of a call. The characters of a text are none."""
    if isinstance(given, (str, bytes, Mapping)):
        raise bad_input(f"{what}: want a list of them, not {type(given).__name__}")
    return list(given)


def bad_input(detail: str, write: bool = True) -> SebError:
    """Returns the error of a call that is not sent."""
    return failure("rejected" if write else "none", detail, final=True)
