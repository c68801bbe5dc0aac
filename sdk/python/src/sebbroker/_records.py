"""Records and messages, and their forms in JSON."""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ._core import bad_input

Bytes = str | bytes | None  # str is encoded as UTF-8; None is no value
Headers = Iterable[tuple[str, Bytes]]


def _bytes(given: Bytes) -> bytes | None:
    return given.encode() if isinstance(given, str) else given


class _Content:
    """A key, a value and headers as bytes."""

    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]

    @property
    def text(self) -> str:
        """The value as UTF-8; "" if there is none."""
        return (self.value or b"").decode()

    def json(self) -> Any:
        return json.loads(self.value or b"")


class Record(_Content):
    """A record of a topic. A value of None is a tombstone."""

    def __init__(
        self, value: Bytes = None, key: Bytes = None, headers: Headers = (), *, timestamp: int = 0, partition: int = -1,
        offset: int = -1,
    ) -> None:
        self.value, self.key = _bytes(value), _bytes(key)
        self.headers = [(name, _bytes(content)) for name, content in headers]
        self.timestamp = timestamp  # milliseconds since 1970; 0 in a new record: now
        self.partition, self.offset = partition, offset  # of a record that was read

    def __repr__(self) -> str:
        return f"Record({self.value!r}, {self.key!r}, partition={self.partition}, offset={self.offset})"


@dataclass
class Message(_Content):
    """A message of a queue that a worker has."""

    id: str
    receipt: str
    deliveries: int  # leases of the message, this one included
    sent: datetime
    key: bytes | None
    value: bytes | None
    headers: list[tuple[str, bytes | None]]
    # Set when the handler should end: the lease is lost, or the grace period is over. An asyncio handler is
    # cancelled instead.
    cancelled: threading.Event = field(default_factory=threading.Event, repr=False, compare=False)


def content_in(source: Mapping[str, Any], name: str) -> bytes | None:
    """Returns a member of a JSON form that is text, or base64 beside it."""
    text, encoded = source.get(name), source.get(name + "_base64")
    if text is not None:
        return str(text).encode()
    return None if encoded is None else base64.b64decode(encoded)


def content_out(target: dict[str, Any], name: str, given: Bytes) -> None:
    """Sets a member of a JSON form: text if it is UTF-8, or base64 beside it."""
    if isinstance(given, bytes):
        try:
            target[name] = given.decode()
        except UnicodeDecodeError:
            target[name + "_base64"] = base64.b64encode(given).decode()
    elif given is None or isinstance(given, str):
        target[name] = given
    else:
        raise TypeError(f"{name}: want str, bytes or None, not {type(given).__name__}")


def headers_out(target: dict[str, Any], headers: Headers) -> None:
    listed = []
    for name, value in headers:
        listed.append({"key": name})
        if value is not None:
            content_out(listed[-1], "value", value)
    if listed:
        target["headers"] = listed


def headers_in(source: Mapping[str, Any]) -> list[tuple[str, bytes | None]]:
    return [(h["key"], content_in(h, "value")) for h in source.get("headers") or ()]


def record_in(source: Mapping[str, Any], partition: int) -> Record:
    return Record(
        content_in(source, "value"), content_in(source, "key"), headers_in(source), timestamp=source["timestamp"],
        partition=source.get("partition", partition), offset=source["offset"],
    )


def record_out(record: Record) -> dict[str, Any]:
    form: dict[str, Any] = {}
    content_out(form, "value", record.value)
    if record.key is not None:
        content_out(form, "key", record.key)
    headers_out(form, record.headers)
    if record.timestamp:
        form["timestamp"] = record.timestamp
    return form


def time_in(text: str) -> datetime:
    """Returns an RFC 3339 time, which may have more digits than Python 3.10 reads."""
    head, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{head}.{fraction[:6]:0<6}+00:00")


def message_in(source: Mapping[str, Any]) -> Message:
    return Message(
        source["id"], source["receipt"], source["deliveries"], time_in(source["sent"]), content_in(source, "key"),
        content_in(source, "value"), headers_in(source),
    )


def json_out(value: Any, what: str = "body") -> bytes:
    """Returns a body in JSON. An error about what cannot be written is that of a rejected call."""
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError, binascii.Error) as e:
        raise bad_input(f"{what}: {e}") from e


def lines_out(values: Iterable[Any], what: str) -> bytes:
    return b"".join(json_out(value, f"{what} {i}") + b"\n" for i, value in enumerate(values))
