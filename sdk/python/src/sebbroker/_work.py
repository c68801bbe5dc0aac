"""What a worker says about its messages."""

from __future__ import annotations

import asyncio

from ._core import span
from ._errors import SebError, repeatable
from ._types import Settlement

REASON_MAX = 512  # bytes
DELAY_MAX = 365 * 86400.0
# Codes of statuses 429 and 5xx.
_BUSY = frozenset(
    ("clock_wrong", "corrupt_data", "fenced", "internal", "not_leader", "not_yet", "outcome_unknown", "over_budget",
     "producers_full", "queue_full", "quota_exceeded", "shutting_down", "store_unavailable")
)


class RetryAfter(Exception):
    """A handler raises it to get the message again after a delay in seconds, instead of the backoff of the queue."""

    def __init__(self, delay: float, reason: str = "") -> None:
        super().__init__(delay, reason)
        self.delay, self.reason = min(max(0.0, delay), DELAY_MAX), reason

    def __str__(self) -> str:
        return self.reason or f"again after {self.delay:g}s"


class GiveUp(Exception):
    """A handler raises it to send the message to the dead-letter queue at once. Without such a queue the message
    comes again as after another error."""

    def __init__(self, reason: str = "dead") -> None:
        super().__init__(reason)


def settlement_of(receipt: str, error: BaseException | None, stopped: bool) -> Settlement:
    """Returns what is said of a message whose handler ended with an error, because the worker stops or not."""
    if error is None:
        return {"receipt": receipt, "do": "done"}
    if isinstance(error, GiveUp):
        return {"receipt": receipt, "do": "dead", "reason": reason_of(error)}
    if stopped and isinstance(error, asyncio.CancelledError):
        return handed_back(receipt)
    said: Settlement = {"receipt": receipt, "do": "retry", "reason": reason_of(error)}
    if isinstance(error, RetryAfter):
        said["delay"] = span(error.delay)
    elif stopped:
        said["delay"] = span(0)
    return said


def handed_back(receipt: str) -> Settlement:
    """Returns what is said of a message that a worker cannot finish because it stops."""
    return {"receipt": receipt, "do": "retry", "reason": "the worker stops", "delay": span(0)}


def reason_of(error: BaseException) -> str:
    """Returns the text of an error as the broker takes it."""
    try:
        text = str(error)
    except Exception:
        text = ""
    if not text or isinstance(error, KeyError):  # whose text is only the key
        text = f"{type(error).__name__}({text})" if text else type(error).__name__
    return text.encode("utf-8", "replace")[:REASON_MAX].decode("utf-8", "ignore")


def lost(code: str) -> bool:
    """Reports whether a message was settled, or another worker may have it."""
    return code in ("stale_receipt", "unknown_receipt", "unknown_message")


def busy(code: str) -> bool:
    """Reports whether a settlement that was refused may succeed if it is repeated."""
    return code in _BUSY


def again(error: SebError) -> bool:
    """Reports whether a worker may succeed if it repeats a call."""
    return not error._final and (
        repeatable(error, write=True, idempotent=True) or error.status // 100 == 5 or error.status == 0
    )
