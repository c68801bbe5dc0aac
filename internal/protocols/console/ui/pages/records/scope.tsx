// What is read of a topic: from where, of which partition, and which records.

import { useEffect, useState } from "preact/hooks";
import type { Problem } from "../../lib/api";
import { Button, Choice, Text, Time } from "../../lib/parts";
import { hasKeys } from "../../lib/records";
import { choose, go, route, to } from "../../lib/route";
import type { Topic } from "../../lib/topics";

/** Scope is the form above the list. It changes the address. fault is an error of one of its fields. */
export function Scope({ topic, fault }: { topic: Topic; fault?: Problem }) {
  const q = route.value.query, indexed = hasKeys(topic);
  const here = { from: q.from || "newest", at: q.at ?? "", key: q.key ?? "", partition: q.partition ?? "", where: q.where ?? "", contains: q.contains ?? "" };
  const [draft, set] = useState(here);
  useEffect(() => set(here), [JSON.stringify(here)]); // a link or the browser's way back
  const [error, setError] = useState("");
  const at = (field: string) => fault?.members.field === field && draft.where.trim() === here.where && draft.contains === here.contains ? fault.message : undefined;
  const byKey = draft.from === "key", positioned = draft.from === "offset" || draft.from === "time";
  const apply = (d: typeof draft) => {
    if (d.from === "offset" && !/^\d{1,19}$/.test(d.at)) return setError("An offset is a whole number from 0 on.");
    if (d.from === "time" && Number.isNaN(Date.parse(d.at))) return setError("Choose a time.");
    const filter = d.from === "key" ? {} : { partition: d.partition, where: d.where.trim(), contains: d.contains };
    const address = to("topics", topic.name, "records", {
      from: d.from === "newest" ? "" : d.from, at: d.from === "offset" || d.from === "time" ? d.at : "", key: d.from === "key" ? d.key : "", ...filter });
    if (address === location.hash) choose({ again: q.again ? "" : "1" }); // read again
    else go(address);
  };
  const change = (c: Partial<typeof draft>, now?: boolean) => {
    const next = { ...draft, ...c };
    setError("");
    set(next);
    if (now) apply(next);
  };
  const from = [["newest", "Newest"], ["oldest", "Oldest"], ["offset", "An offset"], ["time", "A time"], ...(indexed || q.from === "key" ? [["key", "One key"] as const] : [])] as const;
  return <form class="card row scope" aria-label="What is read" onSubmit={() => apply(draft)}>
    <Choice label="From" value={draft.from} options={from} onValue={v => change({ from: v, at: "" }, v === "newest" || v === "oldest")} />
    {draft.from === "offset" && <Text label="Offset" value={draft.at} onValue={at => change({ at: at.trim() })} inputMode="numeric" error={error} maxLength={19} />}
    {draft.from === "time" && <Time label="Time (local)" hint="" error={error} value={draft.at} onValue={at => change({ at })} />}
    {byKey ? <Text label="Key" wide value={draft.key} onValue={key => change({ key })} hint={q.key64 ? "Its history is shown by the bytes of the key." : undefined} /> : <>
      {topic.partitions.length > 1 && <Choice label="Partition" value={draft.partition} onValue={partition => change({ partition }, !positioned || !!draft.at)}
        options={[["", `all (${topic.partitions.length})`], ...topic.partitions.map(p => [String(p.partition), String(p.partition)] as const)]} />}
      <Text label="Where" wide value={draft.where} onValue={where => change({ where })} placeholder='event = "purchase" AND amount > 100' error={at("where")} />
      <Text label="Contains" wide value={draft.contains} onValue={contains => change({ contains })} placeholder="text in the key or value" error={at("contains")} />
    </>}
    <Button type="submit" kind="primary">Read</Button>
  </form>;
}
