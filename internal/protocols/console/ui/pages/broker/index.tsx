// The broker: facts, memory, log time and the format of its bucket.

import { bytes, count, seconds, word } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Card, Chip, Copied, Facts, Got, Note, Page, When } from "../../lib/parts";
import { may } from "../../lib/session";
import { getStatus, type Status } from "../../lib/status";
import { LogTime } from "./time";
import { Upgrade } from "./upgrade";

export function Broker(_: { path: string[] }) {
  return <Page title="Broker">
    {may("describe", "metrics") ? <State /> : <Note>This key may not read the state of the broker (<code>describe metrics</code>).</Note>}
    {may("describe", "cluster") && <div class="grid"><LogTime /><Upgrade /></div>}
    <Card title="About"><p>The console contains code of others: <a href={new URL("licenses.txt", import.meta.url).href} target="_blank">their licences</a>.
      The broker describes its API at <a href="../openapi.json" target="_blank">openapi.json</a>.</p></Card>
  </Page>;
}

function State() {
  const status = useLoad(getStatus, [], 5000);
  return <Got of={status}>{s => <>
    {s.warnings?.map(w => <Note kind="warn" key={w}>{w}</Note>)}
    <div class="grid">
      <Card title="This broker">
        <Facts facts={[
          ["State", <Chip kind={s.ready ? "good" : "bad"}>{s.ready ? "ready" : `not ready: ${s.reason ?? s.role}`}</Chip>],
          ["Role", `${s.role}, epoch ${s.epoch}`],
          ["Version", s.version], ["Started", s.started && <When t={s.started} />],
          ["Kafka", s.kafka ? `${s.kafka.address}${s.kafka.tls ? " (TLS)" : ""}` : "no listener"],
          ["Topics", count(s.topics)],
          ["Triggers", Number(s.lag.trigger_records) ? `${count(s.lag.trigger_records)} records behind, ${seconds(s.lag.trigger_seconds)}` : "up to date"],
        ]} />
      </Card>
      <Store status={s} />
      <Memory status={s} />
    </div>
  </>}</Got>;
}

function Store({ status: { store } }: { status: Status }) {
  return <Card title="Store">
    <Facts facts={[
      ["Bucket", <code>{store.name}</code>],
      ["PUT p50", store.puts ? seconds(store.put_median_ms / 1000) : "–"], ["PUT p99", store.puts ? seconds(store.put_p99_ms / 1000) : "–"],
      ["Measured", store.puts ? `the last ${store.puts} commit objects` : "no commit object yet"],
    ]} />
    {store.name && !store.name.startsWith("mem") && <>
      <p class="hint">This command reads every object that records need, compares it with its checksum, and changes nothing. The broker may run meanwhile.</p>
      <Copied label="The check of the bucket" text={`seb fsck --bucket ${word(store.name)}`} />
    </>}
  </Card>;
}

function Memory({ status: { memory: m } }: { status: Status }) {
  return <Card title="Memory">
    <Facts facts={[
      ["Reserved", <Share part={m.reserved_bytes} whole={m.limit_bytes} name="reserved memory" />],
      ["State", <Share part={m.state_bytes} whole={m.state_max_bytes} name="memory of the state" />],
    ]} />
    <p class="hint">The limit is <code>--memory-limit</code>. The state is topics, groups, triggers and tokens; when its part is full, no more can be created.</p>
  </Card>;
}

/** Share is a part of a whole, as text and as a bar. */
function Share({ part, whole, name }: { part: number; whole: number; name: string }) {
  return <>{bytes(part)} of {bytes(whole)}<meter aria-label={name} min={0} max={whole} high={whole * 0.9} value={part} /></>;
}
