"""Verification of webhooks, which follow Standard Webhooks."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Any, Literal, TypedDict, cast

TOLERANCE = 300.0  # seconds
SECRETS_MAX = 8


class _Event(TypedDict):
    event: str
    time: str
    offset: int


class Event(_Event, total=False):
    """An event of the log. It has no data if it was sent without."""

    data: dict[str, Any]


class FiringData(TypedDict):
    trigger: str
    trigger_version: int
    entity: str
    witness: list[Event]  # the events that made the expression true, in log order


class Firing(TypedDict):
    """The body of a message of a trigger without a template."""

    type: Literal["trigger.fired", "trigger.retracted"]
    timestamp: str
    version: int
    id: str  # a retraction has that of its firing
    attempt: int
    data: FiringData


@dataclass
class Received:
    """A verified message."""

    id: str  # the same for all attempts: store it, and skip a message whose ID you have
    sent_at: datetime  # this attempt, in whole seconds
    body: bytes

    def firing(self) -> Firing:
        return cast(Firing, json.loads(self.body))


class WebhookError(Exception):
    """A message is refused: its headers are missing, duplicate or invalid, its timestamp is out of tolerance, or no
    secret matches a signature."""

    def __init__(self, code: Literal["bad_headers", "timestamp", "signature"], detail: str) -> None:
        super().__init__(f"webhook: {detail}")
        self.code = code


def verify(
    body: bytes,
    headers: Mapping[str, str] | Iterable[tuple[str, str]],
    secrets: str | Sequence[str],
    *,
    tolerance: float = TOLERANCE,
    now: float | None = None,
) -> Received:
    """Verifies a message. body is that of the request, byte for byte. secrets may have signed it; during a rotation
    name the old and the new one. tolerance is the allowed difference in seconds between its timestamp and the clock
    (now), in both directions; a negative one allows any."""
    listed = [secrets] if isinstance(secrets, str) else list(secrets)
    if not 1 <= len(listed) <= SECRETS_MAX:
        raise ValueError(f"webhook secrets: {len(listed)} given, want 1 to {SECRETS_MAX}")
    keys = [_key(secret) for secret in listed]
    pairs = list(headers.items() if isinstance(headers, Mapping) else headers)
    id, seconds, signatures = (_header(pairs, "webhook-" + name) for name in ("id", "timestamp", "signature"))
    if not re.fullmatch(r"[!-\-/-~]{1,256}", id):
        raise WebhookError("bad_headers", "webhook-id is not printable ASCII without full stops, at most 256 bytes")
    if not re.fullmatch(r"0|[1-9][0-9]{0,11}", seconds):
        raise WebhookError("bad_headers", "webhook-timestamp is not a number of seconds")
    if len(signatures) > 4096:
        raise WebhookError("bad_headers", "webhook-signature has more than 4096 bytes")
    apart = abs((time.time() if now is None else now) - int(seconds))
    if 0 <= tolerance < apart:
        raise WebhookError("timestamp", f"timestamp out of tolerance: {apart:.0f}s apart, limit {tolerance:g}s")
    given = [sum for text in signatures.split(" ") if (sum := _signature(text)) is not None]
    found = False
    for key in keys:  # all pairs, so that the duration does not tell the place of a difference
        want = hmac.new(key, f"{id}.{seconds}.".encode() + body, hashlib.sha256).digest()
        for sum in given:
            found |= hmac.compare_digest(want, sum)
    if not found:
        raise WebhookError("signature", "no signature matches")
    return Received(id, datetime.fromtimestamp(int(seconds), timezone.utc), body)


def _header(pairs: list[tuple[str, str]], name: str) -> str:
    found = [value for key, value in pairs if key.lower() == name]
    if len(found) != 1 or not found[0] or not isinstance(found[0], str):
        raise WebhookError("bad_headers", f"want one header {name} that is not empty, got {len(found)}")
    return found[0]


def _key(secret: str) -> bytes:
    """Parses a secret. Its errors do not have the text."""
    encoded = secret[len("whsec_") :].encode("ascii", "replace") if secret.startswith("whsec_") else b""
    try:
        key = base64.b64decode(encoded, validate=True)
    except ValueError:
        key = b""
    if not 24 <= len(key) <= 64 or base64.b64encode(key) != encoded:
        raise ValueError("webhook secret: want whsec_ and 24 to 64 bytes in base64 with padding")
    return key


def _signature(text: str) -> bytes | None:
    if not text.startswith("v1,"):  # another scheme
        return None
    try:
        return base64.b64decode(text[3:].encode("ascii", "replace"), validate=True)
    except ValueError:
        return None
