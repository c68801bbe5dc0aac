// The dialog that makes a topic.

import { useState } from "preact/hooks";
import { call } from "../../lib/api";
import { topicName, whole } from "../../lib/check";
import { useAction, useLoad } from "../../lib/load";
import { announce, Confirm, Failure, Text } from "../../lib/parts";
import { go, to } from "../../lib/route";
import { CreateFields, faultOf, getSettings, type Values } from "./settings";

/** fault is the broker's sentence if it is about a member of the request. */
export function fault(error: { message: string; members: Record<string, unknown> } | undefined, field: string): string | undefined {
  return error?.members.field === field ? error.message : undefined;
}

export function Create({ onClose }: { onClose: () => void }) {
  const [name, setName] = useState(""), [partitions, setPartitions] = useState("1"), [values, set] = useState<Values>({});
  const settings = useLoad(signal => getSettings(signal), []), action = useAction(), error = action.error;
  const given = Object.fromEntries(Object.entries(values).filter(([, v]) => v));
  const create = async () => {
    const done = await action.run(async () => {
      await call("PUT", "/topic", { query: { "topic-name": name }, headers: { "If-None-Match": "*" }, body: { partitions: Number(partitions) || 1, settings: given } });
    });
    if (!done) return;
    onClose();
    announce(`Topic ${name} created`);
    go(to("topics", name));
  };
  const atField = fault(error, "topic-name") ?? fault(error, "partitions") ?? Object.keys(given).find(n => faultOf(error, n));
  return <Confirm title="Create a topic" action="Create" busy={action.busy} error={atField ? undefined : error} onConfirm={create} onClose={onClose}>
    <Text label="Name" required check={topicName} value={name} onValue={v => { action.clear(); setName(v); }} hint="1 to 249 of A-Z a-z 0-9 . _ -" error={fault(error, "topic-name")} />
    <Text label="Partitions" required check={v => whole(v, 1, 10_000)} inputMode="numeric" value={partitions} onValue={v => { action.clear(); setPartitions(v.replace(/\D/g, "")); }}
      hint="Records with one key go to one partition, in order. Consumers of a group share the partitions." error={fault(error, "partitions")} />
    <Failure error={settings.error} />
    {settings.data && <CreateFields settings={settings.data} values={values} error={error} onValue={(n, v) => { action.clear(); set({ ...values, [n]: v }); }} />}
  </Confirm>;
}
