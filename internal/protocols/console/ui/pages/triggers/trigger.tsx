// One trigger: its definition, what it did, and its state for an entity.

import { useState } from "preact/hooks";
import { at, call } from "../../lib/api";
import { count, seconds } from "../../lib/format";
import { useGet } from "../../lib/load";
import { ActButton, Ago, Button, Card, Facts, Failure, Got, Listed, Loading, Note, Page, Text, When } from "../../lib/parts";
import { go, route, to } from "../../lib/route";
import { manages, may } from "../../lib/session";
import { backfills, fires, named } from "./builder/settings";
import { Expression, FiringsTable, FiringState, Json, states, TriggerState } from "./parts";
import type { Firings, Trigger } from "./types";

export function One({ id }: { id: string }) {
  const trigger = useGet<Trigger>(at`/triggers/${id}`, { counts: true }, 5000), t = trigger.data;
  const write = may("write", "trigger");
  return <Page title={id} lead={<a href={to("triggers")}>All triggers</a>} actions={t && <>
    {write && <><a class="button" href={to("triggers", id, { edit: "yes" })}>Edit</a><a class="button" href={to("dry-run", { trigger: id })}>Dry run</a><Pause of={t} reload={trigger.reload} /></>}
    {may("delete", "trigger") && <Delete id={id} />}
  </>}>
    <Failure error={trigger.error}>{!t && <p><a href={to("firings", { trigger: id })}>Firings of a trigger with this name</a></p>}</Failure>
    {!t ? !trigger.error && <Loading /> : <>
      <Definition of={t} />
      <Counts of={t} />
      <Recent id={id} />
      <Explain id={id} />
    </>}
  </Page>;
}

function Definition({ of: t }: { of: Trigger }) {
  const d = t.deliver;
  return <Card title="Definition" actions={<TriggerState of={t} />}>
    {t.blocked && <Note kind="warn">{manages() ? t.blocked : "Its messages wait, because the broker cannot read the secrets of the delivery. Tell the operator of the broker."}</Note>}
    {t.topic_missing && <Note kind="warn">The topic {t.topic} does not exist. The trigger follows the next topic with this name.</Note>}
    <Expression text={t.text} />
    <Facts facts={[
      ["Events", <><a href={to("topics", t.topic)}>{t.topic}</a>: <Listed of={t.names.map(n => <bdi>{n}</bdi>)} /></>],
      ["Fires", named(fires, t.fire).toLowerCase() + (t.cooldown ? `, at most once in ${t.cooldown}` : "")],
      ["Older events", named(backfills, t.backfill) + (t.fire === "once" && !t.carry_fired ? "; firings of earlier versions do not count" : "")],
      t.on_retract && ["No longer true", "a second message is sent"],
      ["Delivery", <>{!d ? "none: firings are only listed" : d.topic ? <>to the topic <a href={to("topics", d.topic)}>{d.topic}</a></> : d.queue ? <>to the queue <a href={to("topics", d.queue)}>{d.queue}</a></> : <>to <bdi>{d.url}</bdi></>}
        {d && <details><summary>All settings of the delivery</summary><Json value={d} label="Delivery" /></details>}</>],
      ["Version", <>{t.version}, of <When t={t.version_at} />{t.version > 1 && <>; the first of <When t={t.created_at} /></>}</>],
    ]} />
  </Card>;
}

function Counts({ of: t }: { of: Trigger }) {
  const f = t.firings;
  if (!f) return null;
  return <Card title="Firings by state" actions={<a href={to("firings", { trigger: t.id })}>All firings</a>}>
    <p class="chips">{Object.keys(states).filter(s => f.states[s]).map(s =>
      <a href={to("firings", { trigger: t.id, state: s })} title={states[s]} key={s}><FiringState of={{ state: s }} /> {count(f.states[s])}</a>)}
      {!Object.values(f.states).some(Boolean) && "none yet"}</p>
    <Facts facts={[
      ["In 24 hours, 7 days", `${count(f.day)}, ${count(f.week)}`],
      ["Last", <Ago t={f.last} none="never" />],
      f.oldest_pending && ["Oldest pending", <Ago t={f.oldest_pending} />],
      ["Behind the events", f.lag_seconds ? `up to ${seconds(f.lag_seconds)}` : "no"],
      f.since && ["Counted since", <><When t={f.since} />, the time of the oldest counted firing</>],
    ]} />
  </Card>;
}

function Recent({ id }: { id: string }) {
  const list = useGet<Firings>("/firings", { trigger: id, order: "newest", limit: 10 }, 5000);
  return <Card title="Newest firings">
    <Got of={list}>{({ firings }) => <FiringsTable caption="Newest firings of the trigger" rows={firings} empty="None yet." />}</Got>
  </Card>;
}

function Explain({ id }: { id: string }) {
  const [entity, set] = useState("");
  return <Card title="Explain an entity"><form onSubmit={() => go(to("triggers", id, "entities", entity))}><div class="row">
    <Text label="Entity" value={entity} onValue={set} hint="Why it fired or did not, and what it waits for" required />
    <Button type="submit" disabled={!entity}>Explain</Button>
  </div></form></Card>;
}

function Pause({ of: t, reload }: { of: Trigger; reload: () => void }) {
  const paused = t.status === "paused", action = paused ? "Resume" : "Pause";
  return <ActButton button={action} title={action + " the trigger"} action={action} act={() => call("POST", at`/triggers/${t.id}/` + action.toLowerCase())} said={paused ? "Resumed" : "Paused"} onDone={reload}>
    {paused ? <p>Pending deliveries continue.</p>
      : <p>The trigger continues to follow events, but what fires during the pause is suppressed permanently{t.fire === "once" && ": an entity that fires now does not fire again"}. Pending deliveries wait.</p>}
  </ActButton>;
}

function Delete({ id }: { id: string }) {
  return <ActButton button="Delete" title="Delete the trigger" action="Delete trigger" danger typed={id} act={() => call("DELETE", at`/triggers/${id}`)} said="Trigger deleted" onDone={() => { if (route.value.path[1] === id) go(to("triggers")); }}>
    <p>Pending deliveries are cancelled. Its firings can still be listed.</p>
  </ActButton>;
}
