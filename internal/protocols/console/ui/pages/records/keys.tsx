// The keys of a topic with a key index.

import { useState } from "preact/hooks";
import { call, Problem } from "../../lib/api";
import { useAction, useLoad, type Loaded } from "../../lib/load";
import { announce, Button, Card, Failure, Loading, Table, Text, When } from "../../lib/parts";
import { hasKeys, keyQuery, keysOf, place } from "../../lib/records";
import { choose, go, route, to } from "../../lib/route";
import { may } from "../../lib/session";
import type { Topic } from "../../lib/topics";
import { Detail, Key, useReveal } from "./detail";
import { Open } from "./records";

/** Keys is the tab of a topic with its keys. */
export function Keys({ topic, info }: { topic: string; info: Loaded<Topic> }) {
  if (!info.data) return info.error ? null : <Loading />;
  return hasKeys(info.data) ? <List topic={topic} /> : <SwitchOn topic={topic} info={info} />;
}

/** begun waits until the index of a topic exists: it follows the change of the setting a moment later. */
async function begun(topic: string) {
  for (let tries = 0; ; tries++) {
    try {
      await call("GET", "/keys", { query: { "topic-name": topic, limit: 1 } });
      return;
    } catch (e) {
      if (!(e instanceof Problem) || e.status !== 409 || tries >= 40) throw e;
    }
    await new Promise(done => setTimeout(done, 250));
  }
}

/** SwitchOn says what a key index is and costs, and makes one. */
function SwitchOn({ topic, info }: { topic: string; info: Loaded<Topic> }) {
  const action = useAction();
  const on = () => action.run(async () => {
    await call("PUT", "/topic", { query: { "topic-name": topic }, body: { settings: { "key-index": "true" } } });
    await begun(topic);
    announce("The topic gets a key index");
    info.reload();
  });
  return <Card title="This topic has no key index">
    <p>With an index the broker lists the keys of a topic, and finds the newest value and the history of each. It reads the topic once from its start, and follows it from then on.</p>
    <p>It costs up to about 29 bytes on the broker's disk and 2 µs of processor time for each record. The bucket gets nothing. The setting is <code>key-index</code>, and can be switched off again.</p>
    <Failure error={action.error} />
    {may("alter", "topic") ? <Button kind="primary" busy={action.busy} onClick={on}>Switch the key index on</Button> : <p>Your key has no right to change topics.</p>}
  </Card>;
}

function List({ topic }: { topic: string }) {
  const q = route.value.query, [prefix, setPrefix] = useState(q.prefix ?? "");
  const page = useLoad(signal => keysOf(topic, q, signal), [topic, q.prefix, q.after, q.after64]);
  const { hidden, note } = useReveal(topic), p = page.data;
  const close = () => { const at = q.open; choose({ open: undefined, view: undefined }); document.getElementById("at-" + at)?.focus(); };
  return <>
    <form class="card row scope" aria-label="Keys" onSubmit={() => go(to("topics", topic, "keys", { prefix }))}>
      <Text wide label="Keys that begin with" value={prefix} onValue={setPrefix} /><Button type="submit" kind="primary">List</Button>
    </form>
    {note}
    <Failure error={page.error} />
    <div class={q.open ? "docked" : ""}>
      <section aria-label="Keys" class="records">
        {page.loading && !p && <Loading />}
        {p && <Table caption={`Keys of ${topic}`} rows={p.keys} empty={q.prefix ? "No key begins with this." : "No record has a key."} keyOf={k => k.key_base64 ?? "=" + k.key} selected={k => place(k) === q.open} columns={[
          { name: "Key", line: "value", cell: k => <Key r={k} /> },
          { name: "Newest record", cell: k => <Open at={place(k)} current={place(k) === q.open} /> },
          { name: "Its time", cell: k => <When t={Number(k.timestamp)} /> },
          { name: "All records", cell: k => <a href={to("topics", topic, "records", { from: "key", ...keyQuery(k) })}>History<span class="unseen"> of {k.key ?? k.key_base64}</span></a> },
        ]} />}
        {p && (p.next !== undefined || p.next_base64 !== undefined) && <p class="actions paging"><a href={to("topics", topic, "keys", { prefix: q.prefix, after: p.next, after64: p.next_base64 })}>More keys</a></p>}
      </section>
      {q.open && /^\d+:\d+$/.test(q.open) && <Detail topic={topic} at={q.open} keys hidden={hidden} onClose={close} />}
    </div>
  </>;
}
