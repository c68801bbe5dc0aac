"""Triggers and their firings."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal

from .._core import Request, path
from .._records import json_out
from .._types import DryRun, Explanation, Firing, Firings, Trigger, TriggerSpec, TriggerStored
from .transport import JSON, Transport, parser

DRY_RUN_SILENCE = 3600.0  # seconds without a byte: a dry run may take minutes


class Triggers(Transport):
    async def put_trigger(
        self, id: str, spec: TriggerSpec | str, *, if_tag: str | None = None, if_new: bool = False
    ) -> TriggerStored:
        """Creates a trigger, or replaces its definition. A str is an expression with the defaults. With if_tag it
        changes only a stored trigger with this tag, with if_new it only creates (code precondition_failed). An
        error about the expression has line and column. A repeated call has the same result."""
        headers = {"If-Match": f'"{if_tag}"'} if if_tag else {}
        if if_new:
            headers["If-None-Match"] = "*"
        where = path("triggers", id)
        return await self._send(TriggerStored, "PUT", where, specified(spec), "version", headers=headers, idempotent=True)

    async def trigger(self, id: str, *, counts: bool = False) -> Trigger:
        """Describes a trigger, with counts also its firings. Code: unknown_trigger."""
        return await self._get(Trigger, path("triggers", id), "id", counts=counts or None)

    async def triggers(self) -> list[Trigger]:
        """Describes all triggers, sorted by ID."""
        return await self._listed(Trigger, "/triggers", "triggers")

    async def delete_trigger(self, id: str) -> None:
        """Deletes a trigger, and drops its undelivered firings."""
        await self._delete(path("triggers", id))

    async def pause_trigger(self, id: str) -> Trigger:
        """Suppresses new firings, and holds undelivered ones."""
        return await self._send(Trigger, "POST", path("triggers", id, "pause"), None, "id", idempotent=True)

    async def resume_trigger(self, id: str) -> Trigger:
        return await self._send(Trigger, "POST", path("triggers", id, "resume"), None, "id", idempotent=True)

    async def explain(self, id: str, entity: str) -> Explanation:
        """Returns the state of a trigger for an entity."""
        return await self._get(Explanation, path("triggers", id, "entities", entity), "trigger")

    async def dry_run(
        self,
        spec: TriggerSpec | str,
        *,
        since: datetime | str | None = None,
        until: datetime | str | None = None,
        sample: int | None = None,
    ) -> DryRun:
        """Evaluates a trigger on the events that the log still has, and changes nothing. since and until bound the
        times of the firings that count, sample evaluates one of so many entities."""
        query = {"since": rfc3339(since), "until": rfc3339(until), "sample": sample}
        return await self._call(
            Request(
                "POST", "/triggers/dry-run", parser(DryRun, "firings"), query, {"Content-Type": JSON},
                json_out(specified(spec), "trigger"), silence=DRY_RUN_SILENCE,
            )
        )

    async def firings(
        self,
        trigger: str | None = None,
        *,
        entity: str | None = None,
        state: str | None = None,
        after: int | None = None,
        before: int | None = None,
        newest: bool = False,
        limit: int | None = None,
    ) -> Firings:
        """Returns firings. The next of a page is the after of the following one, with newest the before."""
        query = {
            "trigger": trigger, "entity": entity, "state": state, "after": after, "before": before,
            "order": "newest" if newest else None, "limit": limit,
        }
        return await self._get(Firings, "/firings", "firings", **query)

    async def firing(self, id: str) -> Firing:
        """Returns a firing with its matched events. Code: unknown_firing."""
        return await self._get(Firing, path("firings", id), "id")

    async def resend_firing(self, id: str) -> Firing:
        """Delivers a firing again, whatever its state."""
        return await self._send(Firing, "POST", path("firings", id, "resend"), None, "id")


def specified(spec: TriggerSpec | str) -> Mapping[str, Any]:
    return {"expr": spec} if isinstance(spec, str) else spec


def rfc3339(at: datetime | str | None) -> str | None:
    """Returns a time as the broker reads it. A datetime without a zone is one of the local zone."""
    return at.astimezone().isoformat() if isinstance(at, datetime) else at
