// The dry run: what a trigger would have done with the events in the log.

import { useEffect, useRef, useState } from "preact/hooks";
import { at, call } from "../lib/api";
import { count, plural } from "../lib/format";
import { useAction, useLoad } from "../lib/load";
import { announce, Button, Card, Choice, Facts, Failure, Got, Note, Page, Text, Time, When } from "../lib/parts";
import { choose, route, to } from "../lib/route";
import { may, session } from "../lib/session";
import { TriggerTabs } from "./triggers";
import { fires } from "./triggers/builder/settings";
import { ExpressionField } from "./triggers/parts";
import { asked, Days, Doubts, dryRun, Running, Who, type Estimate, type Progress, type Result } from "./triggers/past";
import type { Trigger } from "./triggers/types";

/** Draft is the form; it is in the address once a run began. */
interface Draft { expr: string; topic: string; fire: string; cooldown: string; since: string; until: string; sample: string }

export function DryRun(_: { path: string[] }) {
  const { trigger, expr } = route.value.query;
  const from = useLoad(async signal => trigger && expr === undefined ? call<Trigger>("GET", at`/triggers/${trigger}`, { signal }) : {} as Partial<Trigger>, [trigger]);
  return <Page title="Dry run" lead="What a trigger would have done with the events that the log has. Nothing is stored or sent.">
    <TriggerTabs />
    <Got of={from}>{t => <Form of={t} />}</Got>
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
        show(await dryRun(asked(draft), draft, signal, step));
      } catch (e) {
        if (!signal.aborted) throw e;
        stop(true);
      }
    });
    announce(signal.aborted ? "Cancelled" : ok ? "The dry run has ended" : "");
  };
  return <>
    <form onSubmit={run}><Card title="What to try">
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
    {action.busy && <Running progress={progress} />}
    {stopped && <Note>Cancelled. The broker stopped reading, and there is no result.</Note>}
    <Failure error={action.error} />
    {result && <Outcome of={result} trigger={q.trigger} />}
    {result && may("write", "trigger") && !q.trigger && <p><a class="button" href={to("triggers", { edit: "yes", expr: draft.expr, topic: draft.topic, fire: draft.fire, cooldown: draft.cooldown })}>Make this trigger</a></p>}
  </>;
}

function Outcome({ of: r, trigger }: { of: Result; trigger?: string }) {
  const e = r.estimate, about = (x: Estimate) => `about ${count(x.value)} (${count(x.low)} to ${count(x.high)})`;
  return <>
    <Doubts of={r} />
    <Card title="Result">
      <p class="big">{e ? `About ${count(e.firings.value)} firings for about ${plural(e.fired.value, "entity", "entities")}` : `${plural(r.firings, "firing")} for ${plural(r.fired, "entity", "entities")}`}</p>
      <Facts facts={[
        e && ["Estimates for all", `firings ${about(e.firings)}, entities that fired ${about(e.fired)}, entities with such events ${about(e.entities)}`],
        e && ["In the sample", `${plural(r.firings, "firing")} for ${plural(r.fired, "entity", "entities")}`],
        ["Firings counted", <>{r.since ? <>from <When t={r.since} /></> : "from the beginning"} {r.until ? <>to before <When t={r.until} /></> : <>to <When t={r.as_of} /></>}</>],
        ["Entities", <>{count(r.entities)} with an event that matters{!e && `, of ${r.entities_seen > 8192 ? "about " : ""}${count(r.entities_seen)} with any event`}</>],
        ["Events", `${count(r.matched)} that matter, of ${count(r.events)} read`],
        ["True at the end", plural(r.true_now, "entity", "entities")],
        ["Change by time alone", <>{plural(r.waiting, "entity", "entities")}{r.next && <>, the first at <When t={r.next} /></>}</>],
      ]} />
    </Card>
    <Days of={r} />
    <Who of={r} trigger={trigger} />
  </>;
}
