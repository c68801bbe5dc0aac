// Evaluate: an expression on events that a person writes, with the value after each of them.

import { useState } from "preact/hooks";
import { call, parse } from "../lib/api";
import { useAction } from "../lib/load";
import { announce, Button, Card, Facts, Failure, Field, Listed, Note, Page, Time, When } from "../lib/parts";
import { choose, route, to } from "../lib/route";
import { may } from "../lib/session";
import { TriggerTabs } from "./triggers";
import { ExpressionField, exprOf, Steps, Value } from "./triggers/parts";

interface Step { at: string; event: number | null; value: string; text: string }
interface Answer { value: boolean; pending: boolean; next: string | null; why: string; witness: number[]; steps?: Step[]; truncated?: boolean }

const example = {
  expr: "signup THEN (NOT first_project WITHIN 7 days)", at: "2026-03-09T00:00:00Z",
  events: `{"at": "2026-03-01T12:00:00Z", "event": "signup", "data": {"plan": "pro"}}\n{"at": "2026-03-02T08:30:00Z", "event": "login"}`,
};

/** longest is the size of events that are kept in the address. */
const longest = 4000;

/** eventsOf reads a JSON object from each line. Errors: Error. */
function eventsOf(lines: string): unknown[] {
  return lines.split("\n").flatMap((line, i) => {
    if (!line.trim()) return [];
    try {
      return [parse(line)];
    } catch (e) {
      throw new Error(`Events, line ${i + 1}: not JSON: ${(e as Error).message}`);
    }
  });
}

export function Evaluate(_: { path: string[] }) {
  const q = route.value.query, [draft, set] = useState({ expr: q.expr ?? example.expr, events: q.events ?? example.events, at: q.at ?? (q.events ? "" : example.at) });
  const [answer, show] = useState<{ of: Answer; events: { event?: string }[] }>(), action = useAction();
  const run = async () => {
    choose({ expr: draft.expr, at: draft.at, events: draft.events.length <= longest ? draft.events : undefined });
    show(undefined);
    const ok = await action.run(async () => {
      const events = eventsOf(draft.events) as { event?: string }[];
      show({ of: await call<Answer>("POST", "/evaluate", { body: { expr: exprOf(draft.expr), events, at: draft.at || new Date().toISOString(), trace: true } }), events });
    });
    if (ok) announce("Evaluated");
  };
  return <Page title="Evaluate" lead="An expression on events that you write, of one entity. The broker reads and stores nothing.">
    <TriggerTabs />
    <form onSubmit={run}><Card title="What to try">
      <ExpressionField value={draft.expr} onValue={expr => set({ ...draft, expr })} error={action.error} />
      <Field label="Events, a JSON object in each line, in the order of the log" wide render={a => <textarea {...a} rows={7} spellcheck={false} value={draft.events} onInput={e => set({ ...draft, events: e.currentTarget.value })} />} />
      <div class="row"><Time label="Evaluate at" value={draft.at} onValue={at => set({ ...draft, at })} hint="In your time zone; empty: now" /><Button kind="primary" type="submit" busy={action.busy}>Evaluate</Button></div>
    </Card></form>
    <Failure error={action.error} />
    {answer && <Shown {...answer} />}
    {answer && <p class="actions">{may("write", "trigger") && <><a class="button" href={to("dry-run", { expr: draft.expr })}>Try on past events</a>
      <a class="button" href={to("triggers", { edit: "yes", expr: draft.expr })}>Make this trigger</a></>}</p>}
  </Page>;
}

function Shown({ of: a, events }: { of: Answer; events: { event?: string }[] }) {
  const named = (i: number) => <><bdi>{events[i]?.event}</bdi> (event {i})</>;
  return <>
    <Card title="Answer"><Facts facts={[
      ["Expression is", <Value of={a.value ? "true" : a.pending ? "pending" : "false"} />],
      ["Why", a.why],
      ["Changes by time", <When t={a.next} none="no" />],
      a.witness.length > 0 && ["Matched events", <Listed of={a.witness.map(named)} />],
    ]} /></Card>
    {a.steps && <Card title="Step by step">
      {a.truncated && <Note kind="warn">There are more steps than shown.</Note>}
      <Steps caption="The value at each event and deadline" rows={a.steps.map(s => ({ ...s, name: s.event !== null && named(s.event) }))} />
    </Card>}
  </>;
}
