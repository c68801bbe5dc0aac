// The dry run: what a trigger would have done with the events in the log.

import { useEffect, useRef, useState } from "preact/hooks";
import { at, call, parse, Problem, stream } from "../lib/api";
import { count, plural } from "../lib/format";
import { useAction, useLoad } from "../lib/load";
import { announce, Button, Card, Choice, Empty, Failure, Loading, Note, Page, Table, Text, Time, When } from "../lib/parts";
import { choose, route, to, withQuery } from "../lib/route";
import { may, session } from "../lib/session";
import { TriggerTabs } from "./triggers";
import { fires } from "./triggers/edit";
import { causeOf, ExpressionField, exprOf } from "./triggers/parts";
import type { Trigger, Witness } from "./triggers/types";

interface Estimate { value: number; low: number; high: number }

/** Result is the answer of a dry run. Counts are those of the evaluated entities. */
interface Result {
  events: number; matched: number; entities: number; entities_seen: number; since: string | null; until: string | null; firings: number; fired: number; days: Record<string, number>;
  true_now: number; sample: number; estimate: { firings: Estimate; fired: Estimate; entities: Estimate } | null; waiting: number; next: string | null; instances: number; degraded: number;
  as_of: string; truncated: boolean; skipped: number; complete_from: string | null; names: string[]; warnings: string[];
  samples: { entity: string; at: string; cause: string; offsets: number[]; witness?: Witness[] }[];
  not_fired: { entity: string; true_now: boolean; next: string | null; last: string | null }[];
}

interface Progress { read: number; total: number; percent: number }

/** Draft is the form; it is in the address once a run began. */
interface Draft { expr: string; topic: string; fire: string; cooldown: string; since: string; until: string; sample: string }

export function DryRun(_: { path: string[] }) {
  const { trigger, expr } = route.value.query;
  const from = useLoad(async signal => trigger && expr === undefined ? call<Trigger>("GET", at`/triggers/${trigger}`, { signal }) : {} as Partial<Trigger>, [trigger]);
  return <Page title="Dry run" lead="What a trigger would have done with the events that the log has. Nothing is stored or sent.">
    <TriggerTabs />
    <Failure error={from.error} />
    {from.data ? <Form of={from.data} /> : !from.error && <Loading />}
  </Page>;
}

function Form({ of: t }: { of: Partial<Trigger> }) {
  const q = route.value.query;
  const [draft, set] = useState<Draft>({
    expr: q.expr ?? t.text ?? "", topic: q.topic ?? t.topic ?? "", fire: q.fire ?? t.fire ?? "once", cooldown: q.cooldown ?? t.cooldown ?? "", since: q.since ?? "", until: q.until ?? "", sample: q.sample ?? "1",
  });
  const [result, show] = useState<Result>(), [progress, step] = useState<Progress>(), [stopped, stop] = useState(false), action = useAction(), abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const field = (name: keyof Draft) => ({ value: draft[name], onValue: (v: string) => set({ ...draft, [name]: v }) });
  const run = async () => {
    const signal = (abort.current = new AbortController()).signal;
    choose({ ...draft });
    show(undefined); step(undefined); stop(false);
    announce("The dry run has begun");
    const ok = await action.run(async () => {
      try {
        show(await dryRun(draft, signal, step));
      } catch (e) {
        if (!signal.aborted) throw e;
        stop(true);
      }
    });
    announce(signal.aborted ? "Cancelled" : ok ? "The dry run has ended" : "");
  };
  return <>
    <form onSubmit={e => { e.preventDefault(); run(); }}><Card title="What to try">
      <ExpressionField {...field("expr")} error={action.error} />
      <div class="row">
        <Text label="Topic of the events" {...field("topic")} placeholder={session.value!.events_topic} />
        <Choice label="Fires" {...field("fire")} options={fires} />
        {draft.fire !== "once" && <Text label="Cooldown" {...field("cooldown")} placeholder="none" hint="Such as 7d" />}
        <Time label="Firings since" {...field("since")} hint="Earlier events count as history" />
        <Time label="Firings before" {...field("until")} />
        <Choice label="Entities" {...field("sample")} options={["1", "16", "256", "4096"].map(n => [n, n === "1" ? "All" : `One of ${count(Number(n))}`])} />
      </div>
      <div class="actions"><Button kind="primary" type="submit" busy={action.busy} disabled={!may("write", "trigger")}>Run</Button>{action.busy && <Button onClick={() => abort.current!.abort()}>Cancel</Button>}
        {!may("write", "trigger") && <span>Your key has no right to change triggers, which a dry run needs.</span>}</div>
    </Card></form>
    {action.busy && <p>{progress ? <><progress aria-label="Progress of the dry run" value={progress.percent} max={100} /> {count(progress.read)} of {plural(progress.total, "record")} read</> : "Waiting for the broker …"}</p>}
    {stopped && <Note>Cancelled. The broker stopped reading, and there is no result.</Note>}
    <Failure error={action.error} />
    {result && <Outcome of={result} trigger={q.trigger} />}
    {result && may("write", "trigger") && !q.trigger && <p><a class="button" href={withQuery(to("triggers"), { edit: "yes", expr: draft.expr, topic: draft.topic, fire: draft.fire, cooldown: draft.cooldown })}>Make this trigger</a></p>}
  </>;
}

/** dryRun sends the request and reads its events. Errors: Problem, AbortError. */
async function dryRun(d: Draft, signal: AbortSignal, step: (p: Progress) => void): Promise<Result> {
  const body = { expr: exprOf(d.expr), topic: d.topic || undefined, fire: d.fire, cooldown: d.fire === "once" ? undefined : d.cooldown || undefined };
  let result: Result | undefined;
  await stream("POST", "/triggers/dry-run", { query: { since: d.since, until: d.until, sample: d.sample }, body, signal }, events => {
    for (const { event, data } of events) {
      const value = parse(data);
      if (event === "error") throw new Problem(value.status, value.code, value.detail ?? value.title, value);
      if (event === "result") result = value;
      if (event === "progress") step(value);
    }
  });
  if (!result) throw new Problem(0, "", "The answer ended before the result.");
  return result;
}

function Outcome({ of: r, trigger }: { of: Result; trigger?: string }) {
  const e = r.estimate, about = (x: Estimate) => `about ${count(x.value)} (${count(x.low)} to ${count(x.high)})`;
  return <>
    {r.sample > 1 && <Note>One of {count(r.sample)} entities was evaluated. The estimates suppose that the others are alike, and hold with 95 % probability. All other numbers are those of the sample.</Note>}
    {r.truncated && <Note kind="warn">The entities did not fit into memory: only the first {count(r.entities)} were evaluated, so the true numbers are higher. Choose fewer entities.</Note>}
    {r.complete_from && <Note kind="warn">Some events before <When t={r.complete_from} /> no longer exist. They count as absent, so numbers of that time can be too small, or too large where an event must not come.</Note>}
    {r.degraded > 0 && <Note kind="warn">{plural(r.degraded, "entity", "entities")} had too many open instances of THEN, so their values may be wrong.</Note>}
    {r.skipped > 0 && <Note kind="warn">{plural(r.skipped, "record")} of the topic {r.skipped === 1 ? "is no event and was" : "are no events and were"} left out.</Note>}
    {r.warnings.length > 0 && <Note kind="warn"><ul>{r.warnings.map(w => <li key={w}>{w}</li>)}</ul></Note>}
    <Card title="Result">
      <p class="big">{e ? `About ${count(e.firings.value)} firings for about ${plural(e.fired.value, "entity", "entities")}` : `${plural(r.firings, "firing")} for ${plural(r.fired, "entity", "entities")}`}</p>
      <dl class="facts">
        {e && <><dt>Estimates for all</dt><dd>firings {about(e.firings)}, entities that fired {about(e.fired)}, entities with such events {about(e.entities)}</dd>
          <dt>In the sample</dt><dd>{plural(r.firings, "firing")} for {plural(r.fired, "entity", "entities")}</dd></>}
        <dt>Firings counted</dt><dd>{r.since ? <>from <When t={r.since} /></> : "from the beginning"} {r.until ? <>to before <When t={r.until} /></> : <>to <When t={r.as_of} /></>}</dd>
        <dt>Entities</dt><dd>{count(r.entities)} with an event that matters{!e && `, of ${r.entities_seen > 8192 ? "about " : ""}${count(r.entities_seen)} with any event`}</dd>
        <dt>Events</dt><dd>{count(r.matched)} that matter, of {count(r.events)} read</dd>
        <dt>True at the end</dt><dd>{plural(r.true_now, "entity", "entities")}</dd>
        <dt>Change by time alone</dt><dd>{plural(r.waiting, "entity", "entities")}{r.next && <>, the first at <When t={r.next} /></>}</dd>
      </dl>
    </Card>
    <Days of={r} />
    <Card title={`Last firings${r.firings > r.samples.length ? `: ${r.samples.length} of ${count(r.firings)}` : ""}`}>{r.samples.length ? <Table caption="Samples of firings" rows={r.samples} keyOf={s => s.cause + s.entity} columns={[
      { name: "Would have fired", cell: s => <When t={s.at} /> },
      { name: "Entity", cell: s => <EntityLink entity={s.entity} trigger={trigger} /> },
      { name: "Cause", cell: s => causeOf(s.cause) },
      { name: "Events", cell: s => s.witness?.map(w => <div key={w.offset}><bdi>{w.event}</bdi> <When t={w.time} /></div>) ?? "–", wide: true },
    ]} /> : <Empty>None.</Empty>}</Card>
    {r.not_fired.length > 0 && <Card title="Entities that did not fire, for example"><Table caption="Entities without a firing" rows={r.not_fired} keyOf={n => n.entity} columns={[
      { name: "Entity", cell: n => <EntityLink entity={n.entity} trigger={trigger} /> },
      { name: "True at the end", cell: n => n.true_now ? "yes" : "no" },
      { name: "Changes by time", cell: n => n.next ? <When t={n.next} /> : "no" },
      { name: "Fired before the range", cell: n => n.last ? <When t={n.last} /> : "no", wide: true },
    ]} /></Card>}
  </>;
}

/** EntityLink leads to an entity, with its state of the trigger if there is one. */
function EntityLink({ entity, trigger }: { entity: string; trigger?: string }) {
  return <><a href={to("entities", entity)}><bdi>{entity}</bdi></a>{trigger && <> <a href={to("triggers", trigger, "entities", entity)} aria-label={`Explain ${entity}`}>explain</a></>}</>;
}

const day = 86_400_000;

/** Days draws the firings of each day as bars, and has them as a table. */
function Days({ of: r }: { of: Result }) {
  const found = Object.keys(r.days).sort();
  if (!found.length) return null;
  const first = Date.parse(found[0]!), n = Math.round((Date.parse(found[found.length - 1]!) - first) / day) + 1, most = Math.max(...Object.values(r.days));
  const all = Array.from({ length: n }, (_, i) => { const name = new Date(first + i * day).toISOString().slice(0, 10); return { name, count: r.days[name] ?? 0 }; });
  return <Card title={`Firings by day${r.sample > 1 ? " in the sample" : ""} (UTC)`}>
    <svg class="bars" viewBox={`0 0 ${Math.max(n, 14) * 10} 100`} preserveAspectRatio="none" role="img" aria-label={`Firings on ${plural(n, "day")}, from ${found[0]}, at most ${count(most)} on a day`}>
      {all.map((d, i) => <rect x={i * 10 + 1} width={8} y={100 - 100 * d.count / most} height={100 * d.count / most} key={d.name}><title>{`${d.name}: ${count(d.count)}`}</title></rect>)}
    </svg>
    <p class="axis"><span>{found[0]}</span><span>at most {count(most)} on a day</span><span>{found[found.length - 1]}</span></p>
    <details><summary>As a table</summary><Table caption="Firings by day" rows={all} keyOf={d => d.name} columns={[{ name: "Day", cell: d => d.name }, { name: "Firings", cell: d => count(d.count), num: true }]} /></details>
  </Card>;
}
