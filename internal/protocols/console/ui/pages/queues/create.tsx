// The dialog that makes a queue.

import { useState } from "preact/hooks";
import { at, call } from "../../lib/api";
import { topicName, whole } from "../../lib/check";
import { useAction, useLoad } from "../../lib/load";
import { announce, Confirm, Failure, Text } from "../../lib/parts";
import { go, to } from "../../lib/route";
import { fault } from "../topics/create";
import { CreateFields, faultOf, getSettings, type Values } from "../topics/settings";

/** usual are the settings that most queues need. */
export const usual = ["visibility", "max-deliveries", "backoff", "key-mode"];

export function Create({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState(""), [priorities, setPriorities] = useState("1"), [values, set] = useState<Values>({});
  const table = useLoad(signal => getSettings(signal, "queues"), []), action = useAction(), error = action.error;
  const given = Object.fromEntries(Object.entries(values).filter(([, v]) => v));
  const create = async () => {
    if (!await action.run(() => call("PUT", at`/queues/${name}`, { headers: { "If-None-Match": "*" }, body: { priorities: Number(priorities), settings: given } }))) return;
    onClose();
    announce(`Queue ${name} created`);
    go(to("queues", name));
  };
  const atField = fault(error, "queue") ?? fault(error, "priorities") ?? Object.keys(given).find(n => faultOf(error, n));
  return <Confirm title="Create a queue" action="Create" busy={action.busy} error={atField ? undefined : error} onConfirm={create} onClose={onClose}>
    <Text label="Name" required check={topicName} value={name} onValue={v => { action.clear(); setName(v); }} error={fault(error, "queue")}
      hint={`Such as mails. A second queue, ${name || "mails"}.dead, gets the messages that fail too often.`} />
    <Text label="Priorities" required check={v => whole(v, 1, 10)} inputMode="numeric" value={priorities} onValue={v => { action.clear(); setPriorities(v.replace(/\D/g, "")); }} error={fault(error, "priorities")}
      hint="1 to 10. With 2, urgent messages (0) overtake the others (1). This cannot change later." />
    <Failure error={table.error} />
    {table.data && <CreateFields settings={table.data} usual={usual} values={values} error={error} onValue={(n, v) => { action.clear(); set({ ...values, [n]: v }); }} />}
  </Confirm>;
}
