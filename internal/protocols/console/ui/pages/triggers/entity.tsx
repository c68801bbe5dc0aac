// The state of a trigger for an entity: its value, why, and what it waits for.

import { at } from "../../lib/api";
import { count } from "../../lib/format";
import { useGet } from "../../lib/load";
import { Button, Card, Facts, Got, Note, Page, When } from "../../lib/parts";
import { to } from "../../lib/route";
import { AwaitedTable, FiringsTable, Value } from "./parts";
import type { Trigger } from "./types";
import { useExplanation, Why } from "./why";

export function Entity({ id, entity }: { id: string; entity: string }) {
  const state = useExplanation(id, entity), topic = useGet<Trigger>(at`/triggers/${id}`).data?.topic;
  return <Page title={`${entity} in ${id}`} lead={<><a href={to("triggers", id)}>The trigger</a>, <a href={to("entities", entity, { topic })}>all about the entity</a></>} actions={<Button onClick={state.reload} busy={state.loading}>Load again</Button>}>
    <Got of={state}>{e => <>
      {e.degraded && <Note kind="warn">Too many instances of THEN were open at a time, so the value may be wrong.</Note>}
      <Card title={e.value ? "Why" : "Why not"}><Why of={e} topic={topic} /></Card>
      <Card title="Now"><Facts facts={[
        ["Expression is", <><Value of={String(e.value)} /> as of <When t={e.as_of} /></>],
        ["Changes by time", <When t={e.next} none="no" />],
        ["Has fired", (e.fired ? "yes" : "no") + (e.over ? ", and it cannot fire again" : "")],
        e.instances > 0 && ["Open left sides", count(e.instances) + " of THEN"],
      ]} /></Card>
      <Card title="What it waits for"><AwaitedTable rows={e.awaited} /></Card>
      <Card title="Firings of the entity"><FiringsTable caption="Firings for this entity" rows={e.firings} empty="None." /></Card>
    </>}</Got>
  </Page>;
}
