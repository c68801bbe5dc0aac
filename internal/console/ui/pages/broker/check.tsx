// The check of the bucket: every object that a record needs is read and compared with its checksum.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Int } from "../../lib/api";
import { bytes, count, dollars, plural, seconds } from "../../lib/format";
import { useAction, useGet, useLoad } from "../../lib/load";
import { announce, Button, Card, Chip, Dialog, Facts, Failure, Got, Loading, Note, Table, When } from "../../lib/parts";
import { may } from "../../lib/session";

interface Objects { objects: number; bytes: Int }

interface Finding { severity: string; kind: string; key?: string; text?: string; lost?: { topic: string; partition: number; from: Int; to: Int }[] }

/** State is the answer to GET /fsck: the check that runs, or the last one. */
interface State {
  state: "none" | "running" | "done" | "cancelled" | "failed"; started_at?: string; ended_at?: string; listed: Objects; checked: Objects;
  damages: number; kinds: Record<string, number>; findings: Finding[]; error?: string; estimate?: Objects;
  summary?: { verified: Objects; superseded: Objects; orphans: Objects; topics: number; partitions: number; records: Int };
}

export function Check() {
  const check = useGet<State>("/fsck", {}, 2000), s = check.data, before = useRef(s?.state);
  const [asked, ask] = useState(false), mayRun = may("alter", "cluster");
  useEffect(() => {
    if (before.current === "running" && s && s.state !== "running") announce(verdict(s));
    before.current = s?.state;
  }, [s?.state]);
  return <Card title="Check of the bucket" actions={s && s.state !== "running" && mayRun && <Button onClick={() => ask(true)}>{s.state === "none" ? "Check the bucket" : "Check again"}</Button>}>
    <Got of={check}>{s => s.state === "none"
      ? <p>Reads every object that a record needs, and compares it with its checksum. It changes nothing; <code>seb fsck</code> does the same.</p>
      : s.state === "running" ? <Running state={s} mayCancel={mayRun} onDone={check.reload} /> : <Result state={s} />}</Got>
    {asked && <Start onClose={() => ask(false)} onDone={() => { ask(false); check.reload(); }} />}
  </Card>;
}

/** Start tells what a check reads before it begins. */
function Start({ onClose, onDone }: { onClose: () => void; onDone: () => void }) {
  const estimate = useLoad(async signal => (await call<State>("GET", "/fsck", { query: { estimate: true }, signal })).estimate!, []);
  const price = useLoad(async signal => may("describe", "metrics") ? (await call<{ requests: { kind: string; per_million: number }[] }>("GET", "/cost", { signal })).requests.find(r => r.kind === "get")?.per_million : undefined, []);
  const action = useAction(), e = estimate.data;
  const start = async () => { if (await action.run(async () => { await call("POST", "/fsck"); })) { announce("The check runs"); onDone(); } };
  return <Dialog title="Check the bucket" onClose={onClose}>
    <Failure error={estimate.error ?? action.error} />
    {!e ? !estimate.error && <Loading what="Listing the bucket" /> : <p>The bucket has {plural(e.objects, "object")} of {bytes(e.bytes)}. The check reads at most these
      {price.data ? <>, for about {dollars(e.objects * price.data / 1e6)} of GET requests; traffic can cost more.</> : "."} The broker serves its clients meanwhile.</p>}
    <div class="actions"><Button kind="primary" busy={action.busy} disabled={!e} onClick={start}>Start</Button><Button onClick={onClose}>Cancel</Button></div>
  </Dialog>;
}

function Running({ state: s, mayCancel, onDone }: { state: State; mayCancel: boolean; onDone: () => void }) {
  const action = useAction();
  return <>
    <p>{count(s.checked.objects)} of {plural(s.listed.objects, "object")} read, {bytes(s.checked.bytes)} of {bytes(s.listed.bytes)}. Objects that no record needs are not read.</p>
    <progress aria-label="Progress of the check" max={Math.max(1, s.listed.objects)} value={s.checked.objects} />
    <Failure error={action.error} />
    {s.damages > 0 && <Note kind="warn">{plural(s.damages, "damage")} so far.</Note>}
    {mayCancel && <p><Button busy={action.busy} onClick={async () => { if (await action.run(async () => { await call("DELETE", "/fsck"); })) onDone(); }}>Cancel the check</Button></p>}
    <Findings state={s} />
  </>;
}

/** verdict is the result of a check in a sentence. */
function verdict(s: State): string {
  const damage = s.damages ? `found ${plural(s.damages, "damage")}` : "found no damage";
  return s.state === "failed" ? `The check failed: ${s.error}.` : s.state === "cancelled" ? `The check was cancelled; so far it ${damage}.` : `The check ${damage}.`;
}

function Result({ state: s }: { state: State }) {
  const took = s.started_at && s.ended_at ? (Date.parse(s.ended_at) - Date.parse(s.started_at)) / 1000 : undefined, sum = s.summary;
  return <>
    <p><Chip kind={s.damages || s.state === "failed" ? "bad" : s.state === "done" ? "good" : "warn"}>{s.damages ? "damage" : s.state === "done" ? "no damage" : s.state}</Chip> {verdict(s)}</p>
    <Facts facts={[
      ["Ended", <><When t={s.ended_at} />, after {seconds(took)}</>],
      ["Read", `${plural(s.checked.objects, "object")}, ${bytes(s.checked.bytes)}`],
      ["Records", sum && `${count(sum.records)} in ${plural(sum.partitions, "partition")} of ${plural(sum.topics, "topic")}`],
      ["Superseded", sum && sum.superseded.objects > 0 ? `${plural(sum.superseded.objects, "object")}, ${bytes(sum.superseded.bytes)}: the broker deletes them later` : undefined],
      ["Orphans", sum && sum.orphans.objects > 0 ? `${plural(sum.orphans.objects, "object")}, ${bytes(sum.orphans.bytes)}: no record needs them` : undefined],
    ]} />
    <Findings state={s} />
    {s.damages > 0 && <p class="hint">What to do is in the guide, under recovery. <code>seb fsck</code> prints all findings.</p>}
  </>;
}

function Findings({ state: { findings, kinds } }: { state: State }) {
  if (!findings.length) return null;
  const all = Object.values(kinds).reduce((a, b) => a + b, 0);
  return <details open={findings.some(f => f.severity === "damage")}><summary>{plural(all, "finding")}: {Object.entries(kinds).map(([kind, n]) => `${count(n)} ${kind}`).join(", ")}</summary>
    <Table caption="Findings" rows={findings} keyOf={f => f.severity + f.kind + f.key + f.text} columns={[
      { name: "Severity", cell: f => <Chip kind={f.severity === "damage" ? "bad" : ""}>{f.severity}</Chip> },
      { name: "Kind", cell: f => f.kind },
      { name: "Finding", wide: true, cell: f => <>{f.key && <><code>{f.key}</code> </>}{f.text}{f.lost?.map(l => <div key={`${l.topic}${l.partition}${l.from}`}>{l.topic} partition {l.partition}: offsets {String(l.from)} to before {String(l.to)} are lost</div>)}</> },
    ]} />
    {findings.length < all && <p class="more">The first {findings.length} of {count(all)}.</p>}
  </details>;
}
