"""Errors of calls, and what an answer says about the effect of a write."""

from __future__ import annotations

import email.utils
import http
import json
import ssl
import time
from collections.abc import Sequence
from typing import Any, Literal

import httpx

from ._types import Code, OffsetResult, PartitionResult

Outcome = Literal["none", "rejected", "unknown"]

PROBLEM = "application/problem+json"
PROBLEM_MAX = 1 << 20  # bytes that are read of an error answer

# Members of a problem that are fields of an error. Problems of other servers may have them with other types.
_MEMBERS: dict[str, type] = {
    "detail": str, "code": str, "next_offset": int, "start_offset": int, "committed_offset": int, "leader": str,
    "line": int, "column": int, "pointer": str, "results": list, "offsets": list,
}
_ELSEWHERE = ("not_leader", "fenced", "shutting_down", "not_yet", "store_unavailable")


class SebError(Exception):
    """A call failed. For a write it is one of its subclasses, which say whether it can take effect.

    str() is one line: the reason, and the outcome of a write.
    """

    outcome: Outcome = "none"

    def __init__(
        self,
        detail: str = "",
        *,
        status: int = 0,
        code: Code = "",
        retry_after: float = 0.0,
        next_offset: int = -1,
        start_offset: int = -1,
        committed: int = -1,
        leader: str = "",
        line: int = 0,
        column: int = 0,
        pointer: str = "",
        results: Sequence[PartitionResult] = (),
        offsets: Sequence[OffsetResult] = (),
        final: bool = False,
        position: str = "",
    ) -> None:
        self.detail = detail  # for people
        self.status = status  # of the HTTP answer; 0: no answer
        self.code = code  # stable name of the reason; "": the answer had none
        self.retry_after = retry_after  # seconds
        self.next_offset = next_offset  # the end of the partition, with offset_mismatch; else -1
        self.start_offset = start_offset  # its start, with offset_below_start; else -1
        self.committed = committed  # of the group, with offset_mismatch of a commit; else -1
        self.leader = leader
        # From 1, in the text of an expression; a JSON Pointer in the JSON form.
        self.line, self.column, self.pointer = line, column, pointer
        self.results = results  # per partition, if those of a produce differ
        self.offsets = offsets  # per offset, if those of a commit differ
        self._final = final  # a repetition has the same result
        self._position = position  # that the broker has not applied

    def __str__(self) -> str:
        parts = [self.detail] if self.detail else []
        if self.code:
            parts.insert(0, self.code.replace("_", " "))
        elif self.status:
            parts.insert(0, f"answer {self.status} {_phrase(self.status)}".rstrip())
        text = ": ".join(parts)
        if self.outcome == "unknown" and self.code != "outcome_unknown":
            text += " (outcome unknown: it may appear once, or never)"
        return text

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, (self.outcome, _fields(self))


class RejectedError(SebError):
    """Nothing of the write is stored, and nothing of it can appear later."""

    outcome = "rejected"


class OutcomeUnknownError(SebError):
    """The write may take effect once, or never."""

    outcome = "unknown"


_CLASSES: dict[str, type[SebError]] = {"none": SebError, "rejected": RejectedError, "unknown": OutcomeUnknownError}


def _restore(outcome: Outcome, fields: dict[str, Any]) -> SebError:
    return _CLASSES[outcome](**fields)


def _fields(error: SebError) -> dict[str, Any]:
    return {name.lstrip("_"): value for name, value in vars(error).items() if not name.startswith("__")}


def failure(outcome: Outcome, detail: str = "", **fields: Any) -> SebError:
    return _CLASSES[outcome](detail, **fields)


def with_outcome(error: SebError, outcome: Outcome, **changed: Any) -> SebError:
    """Returns the same error with another outcome, and so another class."""
    other = _restore(outcome, {**_fields(error), **changed})
    other.__cause__ = error.__cause__
    return other


def elsewhere(error: SebError) -> bool:
    """Reports whether another broker may serve the request that failed."""
    if error.code in _ELSEWHERE:
        return True
    return not error._final and (error.status == 0 or 200 <= error.status < 300)


def repeatable(error: SebError, *, write: bool = False, idempotent: bool = False) -> bool:
    """Reports whether sending the request again is safe and can succeed."""
    if error._final or error.code == "key_index_behind" or error.code == "fenced" and not error.retry_after:
        return False
    free = not write or idempotent
    if error.status == 0:  # it was not sent, or there is no answer
        return free or error.outcome == "rejected"
    if 200 <= error.status < 300:  # the answer ended early
        return free
    if not free:
        again = error.outcome == "rejected" and not error.results and error.retry_after > 0
        return again and error.status in (429, 503)
    return error.status in (408, 429, 502, 503, 504)


def no_answer(error: Exception, address: str, *, write: bool) -> SebError:
    """Returns the error of a request without an answer."""
    tls = _tls(error)
    sent = not isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout, httpx.ProxyError))
    final = tls is not None and (not sent or "certificate" in str(tls).lower())
    if isinstance(error, httpx.LocalProtocolError):  # its text may have the token
        return failure(_of(write, False), f"{address}: the request has a header that cannot be sent", final=True)
    if isinstance(error, httpx.ReadTimeout):
        text = "the broker sends nothing"
    else:
        text = str(tls or error) or type(error).__name__
    # A broker that refuses the certificate of the client has read no request.
    result = failure(_of(write, sent and not final), f"{address}: {text}", final=final)
    result.__cause__ = error
    return result


def _of(write: bool, sent: bool) -> Outcome:
    return "none" if not write else "unknown" if sent else "rejected"


def _tls(error: BaseException | None) -> ssl.SSLError | None:
    """Returns the error of TLS that has caused an error, if there is one."""
    while error is not None:
        if isinstance(error, ssl.SSLError) and not isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)):
            return error
        error = error.__cause__ or error.__context__
    return None


def not_broker(response: httpx.Response, why: str, *, write: bool) -> SebError:
    """Returns the error of an answer with a 2xx status that no broker sends; a proxy may have sent it."""
    return failure(
        "unknown" if write else "none", f"not the answer of a broker: {why}", status=response.status_code, final=True
    )


def ended_early(error: Exception, status: int, *, write: bool = False) -> SebError:
    """Returns the error of an answer with a 2xx status that is incomplete."""
    return failure(_of(write, True), f"the answer ended early: {str(error) or type(error).__name__}", status=status)


def problem_of(data: bytes) -> SebError:
    """Returns the error of an event with a problem."""
    problem = _object(data) or {}
    status = problem.get("status", 0)
    return _from(status if isinstance(status, int) else 0, problem, "", data, "", write=False)


def error_of(response: httpx.Response, body: bytes, *, write: bool) -> SebError:
    """Returns the error of an answer without a 2xx status."""
    problem = _object(body) if response.headers.get("Content-Type", "").startswith(PROBLEM) else None
    name = f"{response.request.method} {response.request.url.path}"
    return _from(response.status_code, problem, response.headers.get("Retry-After", ""), body, name, write=write)


def _from(
    status: int, problem: dict[str, Any] | None, retry_after: str, body: bytes, name: str, *, write: bool
) -> SebError:
    fields: dict[str, Any] = {"status": status, "retry_after": _retry_after(retry_after)}
    if problem is None:
        fields["detail"] = first_line(body)
    else:
        fields.update({name: problem[name] for name, kind in _MEMBERS.items() if isinstance(problem.get(name), kind)})
        fields["committed"] = fields.pop("committed_offset", -1)
    code, detail = fields.get("code", ""), fields.get("detail", "")
    if status == 404 and (not code or code == "not_found" and "no route" in detail):
        fields["detail"] = f"the broker does not know {name}: it may be of an older version, or no broker: {detail}"
    outcome: Outcome = "none"
    if write:
        # A 5xx status without a code comes from a proxy, which may have forwarded the request.
        rejected = status < 500 or status == 503 and code
        outcome = "rejected" if rejected and code != "outcome_unknown" else "unknown"
    return failure(outcome, **fields)


def _object(body: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _retry_after(value: str) -> float:
    if value.isascii() and value.isdigit() and int(value) <= 3600:
        return max(float(value), 0.001)
    try:
        return max(email.utils.parsedate_to_datetime(value).timestamp() - time.time(), 0.001)
    except (ValueError, OverflowError):
        return 0.0


def first_line(body: bytes) -> str:
    return body[:300].decode("utf-8", "replace").strip().partition("\n")[0].rstrip()


def _phrase(status: int) -> str:
    try:
        return http.HTTPStatus(status).phrase
    except ValueError:
        return ""
