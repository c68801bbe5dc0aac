// Entities: #/entities finds one, #/entities/ID is its time line.

import { useState } from "preact/hooks";
import { at, call, parse, type Problem } from "../../lib/api";
import { everything } from "../../lib/list";
import { useGet, useLoad, type Loaded } from "../../lib/load";
import { ActButton, Button, Card, Chip, Empty, Failure, Got, Loading, Note, Page, Table, Text, When } from "../../lib/parts";
import { keysOf, place, type Rec } from "../../lib/records";
import { go, route, to } from "../../lib/route";
import { may, session } from "../../lib/session";
import { FiringsTable, Value } from "../triggers/parts";
import type { Explanation, Firings, Trigger } from "../triggers/types";
import { NeedsIndex, useExplanation, Why } from "../triggers/why";
import { Drawing } from "./drawing";
import type { EntityEvent, EntityTrigger } from "./layout";

const eventsShown = 100;

export function Entities({ path: [entity] }: { path: string[] }) { return entity === undefined ? <Find /> : <One key={entity} entity={entity} />; }

/** topicOfEvents is the topic in the address, or the broker's topic of events. */
function topicOfEvents(): string { return route.value.query.topic ?? session.value!.events_topic; }

/** whyNot explains that the events of an entity cannot be listed. */
function WhyNot({ error, topic }: { error: Problem; topic: string }) {
  if (error.code === "unknown_topic" && topic === session.value!.events_topic) return <Empty>There are no events yet. The first one makes the topic <bdi>{topic}</bdi>: <a href={to("overview")}>send it</a>.</Empty>;
  return <Failure error={error}>{/index/.test(error.code + error.message) && <NeedsIndex topic={topic} />}</Failure>;
}

function Find() {
  const q = route.value.query, topic = topicOfEvents(), [name, set] = useState(q.prefix ?? "");
  const page = useLoad(signal => keysOf(topic, { prefix: q.prefix, after: q.after }, signal), [topic, q.prefix, q.after]);
  const keys = page.data?.keys.filter(k => k.key);
  return <Page title="Entities" lead="What happened to one user, device or order, and what triggers know of it.">
    <form class="row card scope" aria-label="Find an entity" onSubmit={() => { if (name) go(to("entities", name, { topic: q.topic })); }}>
      <Text wide label="Entity" value={name} onValue={set} hint="Its whole name, or the beginning for a list" />
      <Button type="submit" kind="primary" disabled={!name}>Open</Button>
      <Button onClick={() => go(to("entities", { topic: q.topic, prefix: name }))}>List</Button>
    </form>
    {page.error && <WhyNot error={page.error} topic={topic} />}
    {!keys ? !page.error && <Loading /> : <Table caption="Entities" rows={keys} empty={q.prefix ? "No entity begins with this." : <>There are no events yet. <a href={to("topics", topic, "produce")}>Send the first one</a>.</>} keyOf={k => k.key!} columns={[
      { name: "Entity", line: "value", cell: k => <a href={to("entities", k.key!, { topic: q.topic })}><bdi>{k.key}</bdi></a> },
      { name: "Newest event", cell: k => <When t={Number(k.timestamp)} /> },
    ]} />}
    {page.data?.next !== undefined && <p class="actions paging"><a href={to("entities", { topic: q.topic, prefix: q.prefix, after: page.data.next })}>More entities</a></p>}
  </Page>;
}

/** eventOf reads a record of the topic of events. */
function eventOf(r: Rec): EntityEvent {
  let event: string | undefined;
  try {
    const v = typeof r.value === "string" ? parse(r.value) : undefined;
    if (typeof v?.event === "string") event = v.event;
  } catch { /* not an event */ }
  return { at: Number(r.timestamp), place: place(r), event, value: r.value?.slice(0, 2000), erased: r.value === null };
}

function One({ entity }: { entity: string }) {
  const topic = topicOfEvents(), triggersToo = may("read", "trigger"), history = may("read", "topic");
  const events = useLoad(async signal => {
    if (!history) return undefined;
    const found = await call<{ records: Rec[]; next?: string }>("GET", "/key/history", { signal, query: { "topic-name": topic, key: entity, limit: eventsShown, "max-bytes": 4 << 20 } });
    return { rows: found.records.map(eventOf), more: !!found.next };
  }, [topic]);
  const known = useGet<{ triggers: EntityTrigger[]; next: string | null }>(triggersToo && at`/entities/${entity}`, { limit: 100 });
  const firings = useGet<Firings>(triggersToo && "/firings", { entity, order: "newest", limit: 100 });
  const all = useLoad(async signal => triggersToo ? everything<Trigger>("/triggers", "triggers", {}, signal) : undefined, []), why = useExplanation(triggersToo ? route.value.query.why : undefined, entity);
  const reload = () => [events, known, firings, all, why].forEach(l => l.reload());
  const own = known.data?.triggers.filter(t => t.topic === topic) ?? [];
  return <Page title={entity} lead={<><a href={to("entities", { topic: route.value.query.topic })}>Entities</a> of the topic <a href={to("topics", topic)}><bdi>{topic}</bdi></a></>} actions={<>
    <Button onClick={reload} busy={events.loading || known.loading}>Load again</Button>
    {may("write", "topic") && <a class="button" href={to("topics", topic, "produce", { entity })}>Send an event</a>}
    {may("delete", "trigger") && <Erase entity={entity} topic={topic} onDone={reload} />}</>}>
    {events.error && <WhyNot error={events.error} topic={topic} />}
    <Failure error={known.error ?? firings.error ?? all.error} />
    {!history && <Note>Your key has no right to read topics, so its events are not shown.</Note>}
    {!triggersToo && <Note>Your key has no right to read triggers, so what they know is not shown.</Note>}
    {(events.data || known.data) && !(events.loading || known.loading || firings.loading) &&
      <Drawing events={events.data?.rows ?? []} triggers={own} firings={firings.data?.firings ?? []} />}
    {known.data && all.data && <Known known={known.data.triggers} all={all.data} entity={entity} topic={topic} why={why} />}
    {!!firings.data?.firings.length && <Card title="Firings"><FiringsTable caption="Firings of this entity" rows={firings.data.firings} trigger /></Card>}
    {events.data ? <EventList events={events.data.rows} more={events.data.more} topic={topic} entity={entity} /> : events.loading && <Loading />}
  </Page>;
}

/** Known lists what triggers know, then the other triggers of the topic. The address has the one that is explained. */
function Known({ known, all, entity, topic, why }: { known: EntityTrigger[]; all: Trigger[]; entity: string; topic: string; why: Loaded<Explanation> }) {
  const { why: asked, ...query } = route.value.query;
  const rows: (Pick<EntityTrigger, "trigger" | "topic"> & Partial<EntityTrigger>)[] =
    [...known, ...all.filter(t => t.topic === topic && !known.some(k => k.trigger === t.id)).map(t => ({ trigger: t.id, topic }))];
  return <Card title="What triggers know"><Table caption="Triggers and this entity" rows={rows} first={20} keyOf={t => t.trigger} selected={t => t.trigger === asked}
    empty={<>No trigger reads this topic. {may("write", "trigger") && <a href={to("triggers", { edit: "yes" })}>Make one</a>}</>} columns={[
      { name: "Trigger", cell: t => <a href={to("triggers", t.trigger, "entities", entity)}>{t.trigger}</a> },
      { name: "Value", cell: t => t.waits === undefined ? "–" : <Value of={String(t.value)} /> },
      { name: "Explanation", cell: t => <a class="nowrap" href={to("entities", entity, { ...query, why: t.trigger })}>{t.value || t.fired ? "Why?" : "Why not?"}<span class="unseen"> {t.trigger}</span></a> },
      { name: "What it waits for", wide: true, cell: t => <>{t.waits || "–"}{t.degraded && <> <Chip kind="warn">may be wrong</Chip></>}</> },
      { name: "Changes by time", cell: t => <When t={t.next} /> },
      { name: "Firings", num: true, cell: t => t.firings! >= 1000 ? "1,000 or more" : t.firings ?? "–" },
      { name: "Last", cell: t => <When t={t.last} /> },
    ]} />
    {asked && <section aria-label={"Why " + asked}><h3>{asked}</h3><Got of={why} what="Reading the events of the entity">{e => <Why of={e} topic={rows.find(t => t.trigger === asked)?.topic} />}</Got></section>}
  </Card>;
}

function EventList({ events, more, topic, entity }: { events: EntityEvent[]; more: boolean; topic: string; entity: string }) {
  return <Card title="Events, newest first" actions={more && <a href={to("topics", topic, "records", { from: "key", key: entity })}>All events</a>}>
    <Table caption="Events of this entity" rows={events} empty="No event of this entity is in the topic." keyOf={e => e.place} columns={[
      { name: "Time", cell: e => <When t={e.at} /> },
      { name: "Event", line: "key", cell: e => e.event !== undefined ? <bdi>{e.event}</bdi> : <span class="dim">{e.erased ? "erased here" : "not an event"}</span> },
      { name: "Value", line: "value", cell: e => <span class="mono" dir="auto">{e.value}</span> },
      { name: "Offset", cell: e => <a href={to("topics", topic, "records", { from: "key", key: entity, open: e.place })}>{e.place}</a> },
    ]} /></Card>;
}

/** Erase makes all triggers forget the entity, after its name was typed. */
function Erase({ entity, topic, onDone }: { entity: string; topic: string; onDone: () => void }) {
  return <ActButton button="Erase" title="Erase the entity" action="Erase" danger typed={entity} act={() => call("DELETE", at`/entities/${entity}`, { query: { "topic-name": topic } })} said="The entity is erased" onDone={onDone}>
    <p>All triggers of <bdi>{topic}</bdi> forget <bdi>{entity}</bdi>, and its firings, delivered or not, are deleted. Nothing brings them back. Later events belong to a new entity.</p>
    <p>The events stay in the log until they are trimmed.</p>
  </ActButton>;
}
