// The start on an empty broker: a form that sends the first event, and the commands that do the same.

import { useState } from "preact/hooks";
import { call, type Int } from "../../lib/api";
import { quote, seconds, word } from "../../lib/format";
import { useAction } from "../../lib/load";
import { announce, Button, Card, Copied, Failure, Note } from "../../lib/parts";
import { to } from "../../lib/route";
import { manages, may, session } from "../../lib/session";
import { bodyOf, EventFields, faultOf, type Event } from "../../lib/event";
import type { Status } from "../../lib/status";

interface Stored { entity: string; topic: string; partition: number; offset: Int; ms: number }

export function First({ status }: { status: Status }) {
  const [event, set] = useState<Event>({ name: "user_created", entity: "u1", data: '{"name": "Ada", "plan": "free"}' });
  return <>
    <p class="lead">{status.topics ? "The broker has its first records." : "The broker runs and has no records yet."} Send it an event: something that happened to one of your users, devices or orders.</p>
    <div class="halves">
      <Form event={event} onEvent={set} status={status} />
      <Commands event={event} status={status} />
    </div>
  </>;
}

function Form({ event, onEvent, status }: { event: Event; onEvent: (e: Event) => void; status: Status }) {
  const action = useAction(), [stored, set] = useState<Stored>(), wrong = faultOf(event.data, true);
  const change = (part: Partial<Event>) => { action.clear(); onEvent({ ...event, ...part }); };
  const send = () => action.run(async () => {
    const began = performance.now();
    const answer = await call<Omit<Stored, "ms" | "entity">>("POST", "/event", { body: bodyOf(event), headers: { "Content-Type": "application/json" } });
    const done = { ...answer, entity: event.entity, ms: performance.now() - began };
    set(done);
    announce(sentence(done));
  });
  return <Card title="Send an event">
    <form onSubmit={() => { if (!wrong) send(); }}>
      <EventFields short event={event} onChange={change} />
      <Failure error={action.error} />
      <Button type="submit" kind="primary" busy={action.busy} disabled={!!wrong}>{stored ? "Send again" : "Send"}</Button>
    </form>
    {stored ? <Next stored={stored} store={status.store.name ?? ""} /> : <Course store={status.store.name ?? ""} />}
  </Card>;
}

function sentence(s: Stored): string { return `Stored at offset ${s.offset} after ${seconds(Math.max(1, Math.round(s.ms)) / 1000)}.`; }

/** Where names the bucket: store is file:PATH, mem: or the address of a bucket. */
function Where({ store }: { store: string }) {
  return store.startsWith("file:") ? <>the folder <code>{store.slice(5)}</code></> : store.startsWith("mem") ? <>memory</> : <>the bucket <code>{store}</code></>;
}

function Course({ store }: { store: string }) {
  return <div class="next">
    <p>What happens then:</p>
    <ol>
      <li>The broker collects the records of all clients for a moment.</li>
      <li>It writes them as one object to <Where store={store} />.</li>
      <li>When that is stored, it answers with the offset of the event. Consumers and triggers now see it.</li>
    </ol>
  </div>;
}

function Next({ stored, store }: { stored: Stored; store: string }) {
  return <div class="next">
    <Note kind="good"><b>{sentence(stored)}</b> It is in <Where store={store} />{!store.startsWith("mem") && ", and any broker that starts on it finds it there"}.</Note>
    <p>Next:</p>
    <ul>
      <li><a href={to("topics", stored.topic, "records")}>See it in the topic <bdi>{stored.topic}</bdi></a></li>
      <li><a href={to("entities", stored.entity)}>Follow <bdi>{stored.entity}</bdi></a>: its events and triggers on a time line</li>
      <li><a href={to("topics", stored.topic, "live")}>Watch the topic live</a>, and send again from a terminal</li>
      {may("write", "trigger") && <li><a href={to("triggers")}>Write a trigger</a>, which calls a webhook when events match an expression</li>}
      <li><a href={to("topics")}>Make a topic</a> for records of your own</li>
    </ul>
  </div>;
}

/** kafkaAddress is the address for Kafka clients. guessed: the broker does not tell. */
function kafkaAddress(s: Status): { address: string; tls: boolean; guessed: boolean } {
  const host = location.hostname;
  if (!s.kafka) return { address: host + ":9092", tls: false, guessed: true };
  return { address: s.kafka.address.replace(/^(0\.0\.0\.0|\[::\])(?=:\d+$)/, host), tls: !!s.kafka.tls, guessed: false };
}

function Commands({ event, status }: { event: Event; status: Status }) {
  const base = new URL("..", document.baseURI).href.replace(/\/$/, ""), text = bodyOf(event).replace(/\s*\n\s*/g, " "), data = event.data.trim().replace(/\s*\n\s*/g, " ");
  const { address, tls, guessed } = kafkaAddress(status), { principal, events_topic: topic } = session.value!;
  return <Card title="Or from a terminal">
    <p class="hint"><code>KEY</code> is {principal === "seb" ? <>the key that you logged in with, by default in <code>seb-data/api-key</code>: <code>KEY=$(cat seb-data/api-key)</code></> : "the token that you logged in with"}.</p>
    <h3>curl</h3>
    <Copied label="The event with curl" text={`curl ${word(base + "/event")} \\\n  -H "Authorization: Bearer $KEY" \\\n  -H 'Content-Type: application/json' \\\n  -d ${quote(text)}`} />
    <h3>seb</h3>
    <Copied label="The event with seb" text={`seb event ${word(event.name)} ${word(event.entity)}${data && ` --data ${quote(data)}`}`} />
    <p class="hint">In the folder of the broker the command finds it by itself. Elsewhere add <code>--address {base}</code> and set <code>SEB_API_KEY</code>.</p>
    {(!guessed || manages()) && <><h3>Kafka</h3>
    <Copied label="The event with kcat" text={`echo ${quote(text)} |\n  kcat -P -b ${word(address)} -t ${word(topic)} -k ${word(event.entity)} \\\n  -X security.protocol=SASL_${tls ? "SSL" : "PLAINTEXT"} -X sasl.mechanisms=SCRAM-SHA-512 \\\n  -X sasl.username=${word(principal)} -X sasl.password="$KEY"`} /></>}
    {guessed && manages() && <p class="hint">This broker has no Kafka listener now (<code>--kafka-listen</code>). {address} is where it is by default.</p>}
  </Card>;
}
