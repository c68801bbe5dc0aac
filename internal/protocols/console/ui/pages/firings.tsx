// Firings: #/firings lists them with filters in the address, #/firings/ID is one.

import { useState } from "preact/hooks";
import { at, call } from "../lib/api";
import { count, seconds } from "../lib/format";
import { useGet } from "../lib/load";
import { ActButton, Button, Card, Choice, Facts, Got, Page, Text, When } from "../lib/parts";
import { go, route, to } from "../lib/route";
import { may } from "../lib/session";
import { causeOf, EntityOf, Events, FiringsTable, FiringState, states } from "./triggers/parts";
import type { Firing, Firings as Answer } from "./triggers/types";

export function Firings({ path: [id] }: { path: string[] }) { return id === undefined ? <List /> : <One key={id} id={id} />; }

function List() {
  const { trigger = "", entity = "", state = "", order = "newest", cursor } = route.value.query, newest = order === "newest";
  const page = (change: Record<string, string | undefined>) => to("firings", { trigger, entity, state, order: newest ? undefined : order, ...change });
  // Only the first page changes by itself.
  const list = useGet<Answer>("/firings", { trigger, entity, state, order, [newest ? "before" : "after"]: cursor }, cursor === undefined ? 5000 : undefined);
  return <Page title="Firings" lead="What triggers found, and whether it was delivered.">
    <nav class="tabs" aria-label="States of firings">{([["", "All"], ["dead", "Dead deliveries"], ["pending", "Pending"]] as const).map(([s, name]) =>
      <a href={page({ state: s })} aria-current={s === state ? "page" : undefined} key={s}>{name}</a>)}</nav>
    <Filter key={trigger + "/" + entity} />
    <Got of={list}>{({ firings, next }) => <>
      <FiringsTable trigger rows={firings} caption="Firings"
        empty={next != null ? "None among the firings looked at so far; there are more." : trigger || entity || state ? "No firing matches." : "Nothing has fired yet."} />
      <div class="actions">
        {cursor !== undefined && <a class="button" href={page({})}>{newest ? "Newest" : "Oldest"}</a>}
        {next != null && <a class="button" href={page({ cursor: String(next) })}>{newest ? "Older" : "Newer"}</a>}
      </div>
    </>}</Got>
  </Page>;
}

/** Filter has the choices of the list. Names are taken over with Enter or the button. */
function Filter() {
  const query = route.value.query, [draft, set] = useState({ trigger: query.trigger ?? "", entity: query.entity ?? "" });
  const show = (change: Record<string, string>) => go(to("firings", { ...query, ...draft, cursor: undefined, ...change }));
  return <form onSubmit={() => show({})}><div class="row">
    <Text label="Trigger" value={draft.trigger} onValue={v => set({ ...draft, trigger: v })} />
    <Text label="Entity" value={draft.entity} onValue={v => set({ ...draft, entity: v })} />
    <Choice label="State" value={query.state ?? ""} onValue={v => show({ state: v })} options={[["", "any"], ...Object.entries(states).map(([s, about]) => [s, `${s}: ${about}`] as const)]} />
    <Choice label="Order" value={query.order ?? "newest"} onValue={v => show({ order: v })} options={[["newest", "Newest first"], ["oldest", "Oldest first"]]} />
    <Button type="submit">Show</Button>
  </div></form>;
}

function One({ id }: { id: string }) {
  const firing = useGet<Firing>(at`/firings/${id}`), f = firing.data;
  return <Page title={f ? `${f.trigger} for ${f.entity}` : "Firing"} lead={<a href={to("firings")}>All firings</a>} actions={f && <>
    <Button onClick={firing.reload} busy={firing.loading}>Load again</Button>{may("write", "trigger") && <Resend of={f} reload={firing.reload} />}</>}>
    <Got of={firing}>{f => <>
      <Card title="Firing" actions={<FiringState of={f} />}><Facts facts={[
        ["Trigger", <><a href={to("triggers", f.trigger)}>{f.trigger}</a>, version {f.version}</>],
        ["Entity", <EntityOf of={f} />],
        ["Became true", <When t={f.at} />],
        ["Cause", causeOf(f.cause)],
        ["In the log", <When t={f.recorded_at} none="no" />],
        f.retracted_at && ["No longer true", <When t={f.retracted_at} />],
        ["State", states[f.state] ?? f.state],
        ["ID", <code>{f.id}</code>],
      ]} /></Card>
      <Delivery of={f} />
      <Card title="Matched events"><Events rows={f.witness ?? []} topic={f.topic} partition={f.partition} caption="Events that made the expression true" /></Card>
    </>}</Got>
  </Page>;
}

function Delivery({ of: f }: { of: Firing }) {
  const o = f.outcome;
  return <Card title={f.retraction ? "Delivery of the retraction" : "Delivery"}><Facts facts={[
    ["Attempts", count(f.attempts)],
    f.next_attempt && ["Next attempt", <>not before <When t={f.next_attempt} /></>],
    o && ["Last attempt", <><When t={o.at} />, took {seconds(o.took_ns / 1e9)}</>],
    o && ["Result", <bdi>{o.reason ?? o.kind}</bdi>],
    o?.status && ["Status of the answer", o.status],
    o?.detail && ["Beginning of the answer", <pre tabIndex={0} role="region" aria-label="Beginning of the answer"><code><bdi>{o.detail}</bdi></code></pre>],
  ]} /></Card>;
}

function Resend({ of: f, reload }: { of: Firing; reload: () => void }) {
  return <ActButton button="Deliver again" title="Deliver the firing again" action="Deliver again" act={() => call("POST", at`/firings/${f.id}/resend`)} said="The firing will be delivered again" onDone={reload}>
    <p>The message has the same ID, so that receivers can recognize it. Each confirmation sends it once more.</p>
  </ActButton>;
}
