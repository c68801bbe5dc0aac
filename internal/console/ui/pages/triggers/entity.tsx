// The state of a trigger for an entity: its value, why, and what it waits for.

import { at } from "../../lib/api";
import { count } from "../../lib/format";
import { Card, Chip, Empty, Facts, Got, Note, Page, When } from "../../lib/parts";
import { to } from "../../lib/route";
import { AwaitedTable, FiringsTable } from "./parts";
import { useGet } from "../../lib/load";
import type { Explanation } from "./types";

export function Entity({ id, entity }: { id: string; entity: string }) {
  const state = useGet<Explanation>(at`/triggers/${id}/entities/${entity}`, {}, 5000);
  return <Page title={`${entity} in ${id}`} lead={<><a href={to("triggers", id)}>The trigger</a>, <a href={to("entities", entity)}>all about the entity</a></>}>
    <Got of={state}>{e => <>
      {!e.known && <Note>No event that matters to this trigger has happened to the entity.</Note>}
      {e.degraded && <Note kind="warn">Too many instances of THEN were open at a time, so the value may be wrong.</Note>}
      <Card title="Now"><Facts facts={[
        ["Expression is", <><Chip kind={e.value ? "good" : ""}>{String(e.value)}</Chip> as of <When t={e.as_of} /></>],
        ["Why", e.waits || "–"],
        ["Changes by time", e.next ? <When t={e.next} /> : "no"],
        ["Has fired", (e.fired ? "yes" : "no") + (e.over ? ", and it cannot fire again" : "")],
        e.instances > 0 && ["Open left sides", count(e.instances) + " of THEN"],
      ]} /></Card>
      <Card title="What it waits for">{e.awaited.length ? <AwaitedTable rows={e.awaited} /> : <Empty>No event can change the value.</Empty>}</Card>
      <Card title="Firings of the entity">{e.firings.length ? <FiringsTable caption="Firings for this entity" rows={e.firings} /> : <Empty>None.</Empty>}</Card>
    </>}</Got>
  </Page>;
}
