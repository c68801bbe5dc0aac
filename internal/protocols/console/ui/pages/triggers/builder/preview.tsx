// What the trigger would have done with the events in the log, while a person edits it.

import { useEffect, useState } from "preact/hooks";
import { count, plural } from "../../../lib/format";
import { asProblem } from "../../../lib/load";
import { now, stringify, type Problem } from "../../../lib/api";
import { Button, Card, Choice, Failure, When } from "../../../lib/parts";
import { choose, route } from "../../../lib/route";
import { Days, Doubts, dryRun, Running, Who, type Progress, type Result } from "../past";
import type { Spec } from "../types";

/** wholeMax is how many records are read whole after each edit. Of more events one of 16 entities is evaluated. */
const wholeMax = 250_000, part = "16";

/** pause is the time after the last edit. */
const pause = 400;

const ranges = [["7", "the last week"], ["30", "the last month"], ["90", "the last 3 months"], ["all", "all events"]] as const;

/** Preview is a dry run that follows the edits while it is on. result is of the question `of`; fresh: of the present one. */
export interface Preview { on: boolean; start: () => void; stop: () => void; whole: () => void; fresh: boolean; busy: boolean; result?: Result; progress?: Progress; error?: Problem }

/** usePreview asks about a definition; undefined: it is not finished. records is the size of the topic, if it is known. */
export function usePreview(spec: Spec | undefined, records: number): Preview {
  const [on, turn] = useState(false), [large, grow] = useState(false), [all, setAll] = useState("");
  const [state, set] = useState<{ of: string; result?: Result; error?: Problem; progress?: Progress }>({ of: "" });
  const range = route.value.query.range ?? "30", base = stringify([spec, range]), sampled = (large || records > wholeMax) && all !== base, key = spec ? base + sampled : "";
  useEffect(() => {
    if (!on || !spec || state.of === key && state.result) return;
    const abort = new AbortController(), { signal } = abort;
    const timer = setTimeout(async () => {
      set(s => ({ ...s, error: undefined, progress: undefined }));
      try {
        const since = range === "all" ? undefined : new Date(now() - Number(range) * 86_400_000).toISOString();
        const result = await dryRun(spec, { since, sample: sampled ? part : undefined }, signal, progress => {
          if (signal.aborted) return;
          if (progress.total > wholeMax && !sampled && all !== base) grow(true); // the effect begins again
          else set(s => ({ ...s, progress }));
        });
        if (!signal.aborted) set({ of: key, result });
      } catch (e) {
        if (!signal.aborted) set({ of: key, error: asProblem(e) });
      }
    }, state.of ? pause : 0);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [on, key]);
  const done = state.of === key && key !== "";
  return {
    on, start: () => { set({ of: "" }); turn(true); }, stop: () => turn(false), whole: () => setAll(base), fresh: done && !!state.result, busy: on && key !== "" && !done, result: state.result, progress: state.progress, error: done ? state.error : undefined,
  };
}

/** PreviewCard shows it. */
export function PreviewCard({ of: p, fire, trigger, ready }: { of: Preview; fire: string; trigger?: string; ready: boolean }) {
  const r = p.result, range = route.value.query.range ?? "30";
  return <Card title="What it would have done" actions={p.on && <Button onClick={p.stop}>{p.busy ? "Cancel" : "Stop trying"}</Button>}>
    <div class="row"><Choice label="Firings in" value={range} onValue={v => choose({ range: v })} options={ranges} />
      {!p.on && <Button onClick={p.start} disabled={!ready}>Try on past events</Button>}</div>
    <p class="hint">{!p.on ? "Reads the events in the log. It stores and sends nothing." : ready ? "Follows each edit until you stop it." : "Waits until the boxes are finished."}</p>
    <div aria-live="polite" aria-busy={p.busy}>
      {p.busy && <Running progress={p.progress} />}
      <Failure error={p.error} />
      {r && !p.error && <div class={p.fresh ? "" : "stale"}>
        {!p.fresh && <p>Of the expression before the last edit:</p>}
        <p class="big">{headline(r, fire)}</p>
        <p>{plural(r.waiting, "entity waits", "entities wait")} for a time{r.next && <>, the first until <When t={r.next} /></>}. It is true now for {plural(r.true_now, "entity", "entities")}{r.sample > 1 && " of the sample"}.</p>
        {r.sample > 1 && p.fresh && <p><Button onClick={p.whole}>Evaluate all entities</Button></p>}
      </div>}
    </div>
    {r && !p.error && <><Doubts of={{ ...r, warnings: [] }} />
      {r.firings > 0 && <Days of={r} />}
      <details open><summary>For example</summary><Who of={r} trigger={trigger} /></details></>}
  </Card>;
}

/** headline says how many would have got it. */
function headline(r: Result, fire: string): string {
  const e = r.estimate, range = (x: { low: number; high: number }) => `${count(x.low)} to ${count(x.high)}`;
  const whom = e ? `About ${count(e.fired.value)} of about ${plural(e.entities.value, "entity", "entities")}` : `${count(r.fired)} of ${plural(r.entities, "entity", "entities")}`;
  return `${whom} would have got it${fire === "once" ? "" : `, ${e ? `about ${count(e.firings.value)}` : count(r.firings)} times`}${e ? ` (${range(e.fired)})` : ""}`;
}
