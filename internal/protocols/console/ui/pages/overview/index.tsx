// The overview: how the broker does, and what needs attention.

import { useEffect, useState } from "preact/hooks";
import { bytes, count, plural, seconds } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Button, Chip, Empty, Got, Note, Page } from "../../lib/parts";
import { to } from "../../lib/route";
import { may } from "../../lib/session";
import { getGroups, getStatus, getTriggers, type Status, type Trigger } from "../../lib/status";
import { Attention, dead, farBehind } from "./attention";
import { Charts } from "./charts";
import { Costs } from "./cost";
import { First } from "./first";

export function Overview() {
  if (may("describe", "metrics")) return <State />;
  return <Page title="Overview">
    <Note>This key may not read the state of the broker (<code>describe metrics</code>). The other pages show what it may use.</Note>
    <Empty><a href={to("topics")}>Go to the topics</a></Empty>
  </Page>;
}

function State() {
  const status = useLoad(getStatus, [], 5000), s = status.data;
  // Groups are loaded only if one is behind.
  const late = may("describe", "group") && Number(s?.lag.group?.records ?? 0) >= farBehind;
  const groups = useLoad(async signal => late ? getGroups({ order: "lag", limit: 100 }, signal) : undefined, [late], 30_000);
  const triggers = useLoad(async signal => may("read", "trigger") ? getTriggers(signal) : undefined, [], 30_000);
  // The start of an empty broker stays until another page is opened, also after its first record.
  const [start, showStart] = useState<boolean>();
  const empty = s?.topics === 0 && may("write", "topic"), first = start ?? empty;
  useEffect(() => { if (s && start === undefined) showStart(empty); }, [s]);
  return <Page title={first ? "Send the first event" : "Overview"} actions={first && s!.topics > 0 && <Button onClick={() => showStart(false)}>Show the overview</Button>}>
    <Got of={status}>{s => <>
      <Chips status={s} triggers={triggers.data} />
      {first && <First status={s} />}
      {first ? (!s.ready || s.warnings) && <Attention status={s} groups={groups.data} triggers={triggers.data} />
        : <div class="split"><Attention status={s} groups={groups.data} triggers={triggers.data} /><Costs /></div>}
      {!first && <Charts status={s} />}
    </>}</Got>
  </Page>;
}

function Chips({ status: s, triggers }: { status: Status; triggers?: readonly Trigger[] }) {
  const n = triggers && dead(triggers), behind = s.lag.trigger_records;
  return <p class="chips">
    <Chip kind={s.ready ? "good" : "bad"}>{s.ready ? "ready" : "not ready"}</Chip>
    <Chip>{s.role}, epoch {s.epoch}</Chip>
    <Chip>{s.store.puts ? <>store PUT p50 {seconds(s.store.put_median_ms / 1000)}, p99 {seconds(s.store.put_p99_ms / 1000)}</> : "no PUT to the store yet"}</Chip>
    <Chip>{bytes(s.memory.reserved_bytes)} of {bytes(s.memory.limit_bytes)} memory</Chip>
    {triggers && triggers.length > 0 && <Chip kind={s.lag.trigger_seconds > 60 ? "warn" : ""}>triggers {Number(behind) ? `${count(behind)} behind` : "up to date"}</Chip>}
    {n ? <Chip kind="bad"><a href={to("firings", { state: "dead" })}>{plural(n, "dead delivery", "dead deliveries")}</a></Chip> : null}
  </p>;
}
