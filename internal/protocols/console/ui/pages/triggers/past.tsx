// Parts of a dry run: the request, and what its result shows.

import { parse, Problem, stream } from "../../lib/api";
import { count, plural } from "../../lib/format";
import { Card, Note, Table, When } from "../../lib/parts";
import { to } from "../../lib/route";
import { causeOf, exprOf, Warnings } from "./parts";
import type { Spec, Witness } from "./types";

export interface Estimate { value: number; low: number; high: number }

/** Result is the answer of a dry run. Counts are those of the evaluated entities. */
export interface Result {
  events: number; matched: number; entities: number; entities_seen: number; since: string | null; until: string | null; firings: number; fired: number; days: Record<string, number>;
  true_now: number; sample: number; estimate: { firings: Estimate; fired: Estimate; entities: Estimate } | null; waiting: number; next: string | null; instances: number; degraded: number;
  as_of: string; truncated: boolean; skipped: number; complete_from: string | null; names: string[]; warnings: string[];
  samples: { entity: string; at: string; cause: string; offsets: number[]; witness?: Witness[] }[];
  not_fired: { entity: string; true_now: boolean; next: string | null; last: string | null }[];
}

export interface Progress { read: number; total: number; percent: number }

/** dryRun sends the request and reads its events. Errors: Problem, AbortError. */
export async function dryRun(spec: Spec, { since, until, sample }: { since?: string; until?: string; sample?: string }, signal: AbortSignal, step: (p: Progress) => void): Promise<Result> {
  let result: Result | undefined;
  await stream("POST", "/triggers/dry-run", { query: { since, until, sample }, body: spec, signal }, events => {
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

/** asked is what a form asks a dry run: the members of a definition that matter to it. */
export function asked(d: { expr: string; topic: string; fire: string; cooldown: string }): Spec {
  return { expr: exprOf(d.expr), topic: d.topic || undefined, fire: d.fire, cooldown: d.fire === "once" ? undefined : d.cooldown || undefined };
}

/** Running shows how far a dry run is. */
export function Running({ progress: p }: { progress?: Progress }) {
  return <p>{p ? <><progress aria-label="Progress of the dry run" value={p.percent} max={100} /> {count(p.read)} of {plural(p.total, "record")} read</> : "Waiting for the broker …"}</p>;
}

/** Doubts says why the numbers of a result may be wrong. */
export function Doubts({ of: r }: { of: Result }) {
  return <>
    {r.sample > 1 && <Note>One of {count(r.sample)} entities was evaluated. The estimates suppose that the others are alike, and hold with 95 % probability. All other numbers are those of the sample.</Note>}
    {r.truncated && <Note kind="warn">The entities did not fit into memory: only the first {count(r.entities)} were evaluated, so the true numbers are higher. Choose fewer entities.</Note>}
    {r.complete_from && <Note kind="warn">Some events before <When t={r.complete_from} /> no longer exist. They count as absent, so numbers of that time can be too small, or too large where an event must not come.</Note>}
    {r.degraded > 0 && <Note kind="warn">{plural(r.degraded, "entity", "entities")} had too many open instances of THEN, so their values may be wrong.</Note>}
    {r.skipped > 0 && <Note kind="warn">{plural(r.skipped, "record")} of the topic {r.skipped === 1 ? "is no event and was" : "are no events and were"} left out.</Note>}
    <Warnings of={r.warnings} />
  </>;
}

/** Who lists entities that fired and some that did not, for example. */
export function Who({ of: r, trigger }: { of: Result; trigger?: string }) {
  return <>
    <Card title={`Last firings${r.firings > r.samples.length ? `: ${r.samples.length} of ${count(r.firings)}` : ""}`}><Table caption="Samples of firings" rows={r.samples} empty="None." keyOf={s => s.cause + s.entity} columns={[
      { name: "Would have fired", cell: s => <When t={s.at} /> },
      { name: "Entity", cell: s => <EntityLink entity={s.entity} trigger={trigger} /> },
      { name: "Cause", cell: s => causeOf(s.cause) },
      { name: "Events", cell: s => s.witness?.map(w => <div key={w.offset}><bdi>{w.event}</bdi> <When t={w.time} /></div>) ?? "–", wide: true },
    ]} /></Card>
    {r.not_fired.length > 0 && <Card title="Entities that did not fire, for example"><Table caption="Entities without a firing" rows={r.not_fired} keyOf={n => n.entity} columns={[
      { name: "Entity", cell: n => <EntityLink entity={n.entity} trigger={trigger} /> },
      { name: "True at the end", cell: n => n.true_now ? "yes" : "no" },
      { name: "Changes by time", cell: n => <When t={n.next} none="no" /> },
      { name: "Fired before the range", cell: n => <When t={n.last} none="no" />, wide: true },
    ]} /></Card>}
  </>;
}

/** EntityLink leads to an entity, with its state of the trigger if there is one. */
function EntityLink({ entity, trigger }: { entity: string; trigger?: string }) {
  return <><a href={to("entities", entity)}><bdi>{entity}</bdi></a>{trigger && <> <a href={to("triggers", trigger, "entities", entity)} aria-label={`Explain ${entity}`}>explain</a></>}</>;
}

const day = 86_400_000;

/** Days draws the firings of each day as bars, and has them as a table. */
export function Days({ of: r }: { of: Result }) {
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
