// Triggers: #/triggers lists them, #/triggers/ID is one, #/triggers/ID/entities/E its state for an entity.

import { count, seconds } from "../../lib/format";
import { List, useList, type Paged } from "../../lib/list";
import { Ago, Page, Table, Tabs } from "../../lib/parts";
import { route, to } from "../../lib/route";
import { may } from "../../lib/session";
import { Edit } from "./builder";
import { Entity } from "./entity";
import { TriggerState } from "./parts";
import { One } from "./trigger";
import type { Trigger } from "./types";

export function Triggers({ path: [id, part, entity] }: { path: string[] }) {
  const { edit, expr } = route.value.query;
  if (id === undefined) return edit ? <Edit key={expr} /> : <All />;
  return part === "entities" && entity !== undefined ? <Entity key={`${id}/${entity}`} id={id} entity={entity} /> : edit ? <Edit key={id} id={id} /> : <One key={id} id={id} />;
}

/** TriggerTabs leads to the pages that belong together. */
export function TriggerTabs() {
  return <Tabs label="Pages of triggers" tabs={[[to("triggers"), "Triggers"], ...(may("write", "trigger") ? [[to("dry-run"), "Dry run"] as const] : []), [to("evaluate"), "Evaluate"]]} />;
}

function All() {
  const list = useList<Paged<"triggers", Trigger>>("/triggers", { counts: true }, 10_000), lag = list.data?.triggers[0]?.firings?.lag_seconds;
  return <Page title="Triggers" lead="A trigger fires when its expression becomes true for an entity."
    actions={may("write", "trigger") && <a class="button primary" href={to("triggers", { edit: "yes" })}>New trigger</a>}>
    <TriggerTabs />
    <List of={list} rows={list.data?.triggers} label="Name or event contains" noun="trigger" none={<>There is no trigger yet. Try an expression on <a href={to("dry-run")}>past events</a> or on <a href={to("evaluate")}>events that you write</a>.</>}>{rows =>
      <div class="card">{lag !== undefined && <p>{lag ? `up to ${seconds(lag)} behind the events` : "up to date with the events"}</p>}
        <Table caption="Triggers" rows={rows} keyOf={t => t.id} columns={[
          { name: "Trigger", cell: t => <a href={to("triggers", t.id)}>{t.id}</a> },
          { name: "Expression", cell: t => <code>{t.text}</code>, wide: true },
          { name: "State", cell: t => <TriggerState of={t} /> },
          { name: "24 h", cell: t => count(t.firings?.day), num: true },
          { name: "7 d", cell: t => count(t.firings?.week), num: true },
          { name: "Pending", cell: t => <States of={t} state="pending" n={t.firings?.pending} />, num: true },
          { name: "Dead", cell: t => <States of={t} state="dead" n={t.firings?.states.dead ?? 0} />, num: true },
          { name: "Last fired", cell: t => <Ago t={t.firings?.last} none="never" /> },
        ]} /></div>}</List>
  </Page>;
}

/** States links a number of firings to their list. */
function States({ of: t, state, n }: { of: Trigger; state: string; n?: number }) {
  return n ? <a href={to("firings", { trigger: t.id, state })} class={state === "dead" ? "bad" : ""}>{count(n)}</a> : <>{count(n)}</>;
}
