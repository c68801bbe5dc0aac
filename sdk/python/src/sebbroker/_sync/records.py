# Written by generate.py from _async/records.py.
"""Topics, records, events and offsets of groups."""

from __future__ import annotations

import functools
import json
import time
from collections.abc import Iterator, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

import httpx

from .._core import Request, bad_input, items_of, partition_of
from .._errors import SebError, failure, first_line, not_broker, with_outcome
from .._records import Record, json_out, lines_out, record_in, record_out
from .._types import (
    Event, EventStored, GroupOffset, OffsetEntry, OffsetResults, PartitionResult, Produced, Stored, StoredRecord, Topic,
)
from .platform import together
from .transport import JSON, NDJSON, Transport, parser

Setting = str | int | float | bool | None
Offset = int | Literal["earliest", "latest"]

COUNT_TIME = 30.0  # seconds for which the number of a topic's partitions is not asked again
COUNTS_MAX = 4096
WRITES_MAX = 16  # partitions that one call writes to at once
READ_BYTES = 1 << 20  # of one answer
INT32_MAX = (1 << 31) - 1


class Records(Transport):
    def topics(self) -> list[Topic]:
        """Describes all topics, sorted by name."""
        return self._listed(Topic, "/topics", "topics")

    def topic(self, name: str) -> Topic:
        """Describes a topic. Code: unknown_topic."""
        return self._get(Topic, "/topic", "name", **{"topic-name": name})

    def create_topic(
        self, name: str, partitions: int = 0, settings: Mapping[str, Setting] | None = None, *, exist_ok: bool = False
    ) -> Topic:
        """Creates a topic with one partition or more. Code: topic_exists. With exist_ok it changes a topic that
        exists: it can add partitions, and it merges settings."""
        body = {"partitions": partitions, "settings": dict(settings or {})}
        headers = {} if exist_ok else {"If-None-Match": "*"}
        return self._send(Topic, "PUT", "/topic", body, "name", query={"topic-name": name}, headers=headers)

    def delete_topic(self, name: str, *, force: bool = False) -> None:
        """Deletes a topic and all its records. Codes: unknown_topic; topic_in_use unless it is forced."""
        self._delete("/topic", **{"topic-name": name, "force": force or None})

    def produce(
        self,
        topic: str,
        records: Iterable[Record | str | bytes | None],
        *,
        partition: int | None = None,
        expected_offset: int | None = None,
    ) -> list[PartitionResult]:
        """Appends records, and returns once they are durable, with their positions by partition.

        A record with a key goes to the partition of the key's hash, as in Kafka's Java client, others to
        partition 0, unless partition is given. With expected_offset the broker refuses the records unless the
        first one gets this offset (code offset_mismatch). A call that is cancelled has an unknown outcome.
        """
        try:
            given = [r if isinstance(r, Record) else Record(r) for r in items_of(records, "records")]
            forms = [record_out(r) for r in given]
        except (TypeError, ValueError, AttributeError) as e:
            raise bad_input(f"records: {e}") from e
        if not given:
            raise bad_input("no records")
        keyed = partition is None and any(r.key is not None for r in given)
        if self._producers is None or keyed and expected_offset is not None:
            return self._produce(topic, forms, partition, expected_offset, {})
        if not keyed:
            return self._produce_to(topic, partition or 0, forms, expected_offset)
        try:
            count = self._partitions(topic)
        except SebError as e:
            raise with_outcome(e, "rejected") from e.__cause__
        parts: dict[int, list[dict[str, Any]]] = {}
        for record, form in zip(given, forms):
            parts.setdefault(partition_of(record.key, count), []).append(form)
        return self._produce_parts(topic, dict(sorted(parts.items())))

    def produce_all(self, items: Iterable[Mapping[str, Any]]) -> list[StoredRecord]:
        """Stores all items or none, and returns once they are durable, with the position of each, in order.

        An item is a record with its "topic", a message with its "queue", or an event with "event" and "entity_id",
        with the members that it has in JSON: {"topic": "orders", "key": "7", "value": "paid"}. Bytes are in
        "value_base64". The outcome of an error is that of all items.
        """
        forms = items_of(items, "items")
        if not forms:
            raise bad_input("no items")
        if self._producers is None:
            return self._produce_all(forms, {})
        producer = self._producers.take("", -1)
        try:
            stored = self._produce_all(forms, producer.headers())
            producer.next_epoch()  # the epoch is the number of the request, whose partitions may differ
            return stored
        except BaseException as e:
            producer.failed(e)
            raise
        finally:
            self._producers.give("", -1, producer)

    def _produce_all(self, forms: list[Mapping[str, Any]], headers: Mapping[str, str]) -> list[StoredRecord]:
        parse_object = parser(Stored, write=True)

        def parse(response: httpx.Response) -> list[StoredRecord]:
            found = parse_object(response).get("records", [])
            if len(found) != len(forms) or any("id" not in r and "offset" not in r for r in found):
                raise not_broker(response, f"{len(found)} of {len(forms)} items acknowledged", write=True)
            return found

        return self._call(
            Request(
                "POST", "/records", parse, {"atomic": True}, {"Content-Type": NDJSON, **headers}, lines_out(forms, "item"),
                write=True, idempotent=bool(headers), bounded=bool(headers),
            )
        )

    def _produce_parts(self, topic: str, parts: dict[int, list[dict[str, Any]]]) -> list[PartitionResult]:
        """Writes to several partitions at once. As in answers of the broker, "rejected" applies to all records:
        if the outcomes differ, the outcome is unknown, and the results have the details."""

        def one(p: int) -> list[PartitionResult] | SebError:
            try:
                return self._produce_to(topic, p, parts[p], None)
            except SebError as e:
                return e

        results: list[PartitionResult] = []
        first: SebError | None = None
        maybe = False
        ended = together([functools.partial(one, p) for p in parts], WRITES_MAX)
        for (p, forms), end in zip(parts.items(), ended):
            if not isinstance(end, SebError):
                maybe = True
                results.append(end[0])
                continue
            unknown = end.outcome == "unknown"
            maybe = maybe or unknown
            code = "outcome_unknown" if unknown else end.code or "store_unavailable"  # or it was never sent
            results.append({"partition": p, "count": len(forms), "code": code})
            if first is None or unknown:
                first = end
            if end.code in ("unknown_partition", "unknown_topic"):
                self._counts.pop(topic, None)
        if first is None:
            return results
        if len(parts) > 1:
            first = with_outcome(first, "unknown" if maybe else first.outcome, results=results)
        raise first from first.__cause__

    def _produce_to(
        self, topic: str, partition: int, forms: list[dict[str, Any]], expected: int | None
    ) -> list[PartitionResult]:
        """Writes to one partition, with an idempotent producer if the client has them."""
        if self._producers is None:
            return self._produce(topic, forms, partition, expected, {})
        producer = self._producers.take(topic, partition)
        try:
            stored = self._produce(topic, forms, partition, expected, producer.headers())
            producer.stored(len(forms))
            return stored
        except BaseException as e:
            producer.failed(e)
            raise
        finally:
            self._producers.give(topic, partition, producer)

    def _produce(
        self,
        topic: str,
        forms: list[dict[str, Any]],
        partition: int | None,
        expected: int | None,
        headers: Mapping[str, str],
    ) -> list[PartitionResult]:
        def settled(error: SebError) -> bool:
            # The end only grows. If it is beyond the expected offset, no earlier attempt can succeed any more,
            # and one that did would have been recognized.
            return expected is not None and error.code == "offset_mismatch" and error.next_offset > expected

        return self._call(
            Request(
                "POST", "/records", acknowledged(len(forms)),
                {"topic-name": topic, "partition": partition, "expected-offset": expected},
                {"Content-Type": NDJSON, **headers}, lines_out(forms, "record"), write=True,
                idempotent=bool(headers), bounded=bool(headers), settled=settled,
            )
        )

    def _partitions(self, topic: str) -> int:
        """Returns the partition count of a topic. A produce creates a missing topic with one."""
        now = time.monotonic()
        count, until = self._counts.get(topic, (0, now))
        if now < until:
            return count
        try:
            found = self.topic(topic)
        except SebError as e:
            if e.code == "unknown_topic":
                return 1
            raise
        if len(self._counts) >= COUNTS_MAX:
            self._counts = {}
        self._counts[topic] = len(found["partitions"]), now + COUNT_TIME
        return len(found["partitions"])

    def read(
        self,
        topic: str,
        *,
        partition: int | Literal["all"] = 0,
        offset: Offset = "earliest",
        follow: bool = False,
        max_bytes: int = READ_BYTES,
    ) -> Iterator[Record]:
        """Yields the records of a partition from an offset on, up to the end that it had when the read began.
        With follow it waits for more, also over broken connections, without a gap or a repetition. With "all" it
        reads all partitions, and each record has its partition. max_bytes bounds an answer that is not followed.
        """
        if isinstance(offset, int) and (partition == "all" or offset < 0):
            raise bad_input(f"offset {offset}: want 0 or more, earliest or latest; one of these with all", write=False)
        positions = {partition: offset} if isinstance(offset, int) and partition != "all" else None
        if positions is None:
            positions = self._edges(topic, partition, offset)
        if follow:
            for record in self._follow(topic, partition, positions):
                yield record
            return
        for p, start in positions.items():
            for record in self._to_end(topic, p, start, max_bytes):
                yield record

    def _edges(self, topic: str, partition: int | str, offset: Offset) -> dict[int, int]:
        """Returns the first or the next offset of a partition, or of all."""
        found = (self.topic(topic))["partitions"]
        member: Literal["start_offset", "next_offset"] = "start_offset" if offset == "earliest" else "next_offset"
        edges = {p["partition"]: p[member] for p in found if partition in ("all", p["partition"])}
        if not edges:
            raise unknown_partition(topic, len(found))
        return edges

    def _to_end(self, topic: str, partition: int, at: int, max_bytes: int = READ_BYTES) -> Iterator[Record]:
        """Yields the records of a partition from an offset on, page by page."""
        end: int | None = None
        while end is None or at < end:
            page, resume, next_offset = self._page(topic, partition, at, max_bytes)
            end = next_offset if end is None else end
            for record in page:
                if record.offset >= end:
                    return
                yield record
            if resume <= at:
                return
            at = resume

    def _page(self, topic: str, partition: int, at: int, max_bytes: int) -> tuple[list[Record], int, int]:
        """Reads once, and returns the records, the offset of the next read, and the end of the partition."""

        def parse(response: httpx.Response) -> tuple[list[Record], int, int]:
            page = parser(list[Any])(response)
            try:
                records = [record_in(r, partition) for r in page]
                resume, end = (int(response.headers[name]) for name in ("Seb-Resume-Offset", "Seb-Next-Offset"))
            except (KeyError, TypeError, ValueError) as e:
                raise not_broker(response, f"{type(e).__name__}: {e}", write=False) from e
            return records, resume, end

        query = {
            "topic-name": topic, "partition": partition, "offset": at, "timeout": "0s", "max-records": INT32_MAX,
            "max-bytes": max_bytes,
        }
        return self._call(Request("GET", "/records", parse, query, bounded=True))

    def _follow(
        self, topic: str, partition: int | Literal["all"], positions: Mapping[int, int]
    ) -> Iterator[Record]:
        query: dict[str, Any] = {"topic-name": topic, "partition": partition}
        last = ""
        if partition == "all":
            last = ",".join(f"{p}:{offset}" for p, offset in sorted(positions.items()))
        else:
            query["offset"] = positions[partition]
        for _, data in self._events("/records", query, last):
            yield record_in(json.loads(data), 0 if partition == "all" else partition)

    def produce_event(
        self,
        event: str,
        entity_id: str,
        data: Mapping[str, Any] | None = None,
        *,
        id: str | None = None,
        occurred_at: datetime | str | None = None,
        topic: str | None = None,
    ) -> EventStored:
        """Appends an event, and returns once it is durable. An event with an ID is sent again after an unknown
        outcome, because triggers ignore the second one; the answer says if it is a duplicate."""
        form: dict[str, Any] = {"event": event, "entity_id": entity_id}
        at = occurred_at.astimezone().isoformat() if isinstance(occurred_at, datetime) else occurred_at
        form.update({n: v for n, v in (("data", data), ("id", id), ("occurred_at", at)) if v is not None})
        return self._call(
            Request(
                "POST", "/event", parser(EventStored, "topic", "partition", "offset", write=True), {"topic-name": topic},
                {"Content-Type": JSON}, json_out(form, "event"), write=True, idempotent=bool(id),
            )
        )

    def produce_events(self, events: Iterable[Event], *, topic: str | None = None) -> list[PartitionResult]:
        """Appends events in one request, and returns once they are durable, with their positions by partition.
        If all have an ID they are sent again after an unknown outcome."""
        listed = items_of(events, "events")
        if not listed:
            raise bad_input("no events")
        return self._call(
            Request(
                "POST", "/event", acknowledged(len(listed)), {"topic-name": topic}, {"Content-Type": NDJSON},
                lines_out(listed, "event"), write=True, idempotent=all(e.get("id") for e in listed),
            )
        )

    def offsets(self, group: str, topic: str | None = None) -> list[GroupOffset]:
        """Returns the committed offsets of a consumer group, in one topic or in all."""
        query = {"group": group, "topic-name": topic}
        return (self._call(Request("GET", "/offsets", parser(dict[str, Any], "offsets"), query)))["offsets"]  # type: ignore[no-any-return]

    def commit_offsets(self, group: str, commits: Sequence[OffsetEntry]) -> None:
        """Stores offsets of a consumer group, each of the next record to read, and returns once they are durable.
        Commits without an expected_offset are sent again after an unknown outcome. If some are refused, the
        offsets of the error have the outcome of each."""
        if commits:
            self._send(
                OffsetResults, "PUT", "/offsets", {"offsets": list(commits)}, "offsets", query={"group": group},
                idempotent=all(c.get("expected_offset") is None for c in commits),
            )


def acknowledged(records: int) -> Any:
    """Returns a parser of positions, which refuses an answer that does not cover all records."""
    parse_object = parser(Produced, write=True)

    def parse(response: httpx.Response) -> list[PartitionResult]:
        answer = parse_object(response)
        one: PartitionResult = {"partition": answer.get("partition", -1), "count": answer.get("count", 0)}
        one["first_offset"] = answer.get("first_offset", -1)
        found = answer["results"] if "results" in answer else [one]
        total = 0
        for r in found:
            if r.get("code") or min(r.get("first_offset", -1), r.get("partition", -1), r.get("count", 0) - 1) < 0:
                raise not_broker(response, first_line(response.content), write=True)
            total += r["count"]
        if total != records or not total:
            raise not_broker(response, f"{total} of {records} records acknowledged", write=True)
        return found

    return parse


def unknown_partition(topic: str, count: int) -> SebError:
    return failure("none", f"topic {topic} has {count} partitions", code="unknown_partition")

