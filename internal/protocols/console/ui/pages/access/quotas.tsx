// Quotas: what a principal may use per second.

import { useState } from "preact/hooks";
import { at, call, type Int } from "../../lib/api";
import { principal, whole } from "../../lib/check";
import { bytes, count } from "../../lib/format";
import { List, useList, type Paged } from "../../lib/list";
import { useAction } from "../../lib/load";
import { Act, announce, Button, Card, Failure, Table, Text } from "../../lib/parts";
import { mayChange } from "./index";

/** Quota is the limits of a principal per second (api.Quota). */
interface Quota { principal: string; produce_bytes?: Int; fetch_bytes?: Int; requests?: Int }

const limits = [["produce_bytes", "Sent to the broker"], ["fetch_bytes", "Read from the broker"], ["requests", "Requests"]] as const;

type Limits = Record<(typeof limits)[number][0], string>;
const none: Limits = { produce_bytes: "", fetch_bytes: "", requests: "" };

/** amount reads a number with a unit of bytes, such as 10MiB. NaN: it is none. */
function amount(text: string): number {
  const [, n, unit = ""] = /^\s*(\d+(?:\.\d+)?)\s*(|B|[KMG]iB|[kMG]B)\s*$/.exec(text) ?? [];
  const size = ({ "": 1, B: 1, KiB: 1 << 10, MiB: 1 << 20, GiB: 1 << 30, kB: 1e3, MB: 1e6, GB: 1e9 } as Record<string, number>)[unit]!;
  return n ? Math.round(Number(n) * size) : NaN;
}

/** Quotas lists quotas, and sets and removes them. */
export function Quotas() {
  const list = useList<Paged<"quotas", Quota>>("/quotas", {}, 30_000);
  const [edited, edit] = useState<Quota>(), [gone, setGone] = useState<string>(), change = mayChange("alter-configs");
  return <>
    {change && <SetQuota key={edited?.principal ?? ""} quota={edited} onSet={() => { edit(undefined); list.reload(); }} />}
    <Card title="Quotas">
      <List of={list} rows={list.data?.quotas} label="Name contains" noun="quota" none="There are no quotas: each client may use what the broker has.">{rows =>
        <Table caption="Quotas" rows={rows} keyOf={q => q.principal} columns={[
          { name: "Principal", cell: q => q.principal === "*" ? "everyone without a quota of their own" : <bdi>{q.principal}</bdi> },
          { name: "Sent to the broker", num: true, cell: q => q.produce_bytes ? bytes(q.produce_bytes) + "/s" : "no limit" },
          { name: "Read from the broker", num: true, cell: q => q.fetch_bytes ? bytes(q.fetch_bytes) + "/s" : "no limit" },
          { name: "Requests", num: true, cell: q => q.requests ? count(q.requests) + "/s" : "no limit" },
          ...(change ? [{ name: "Action", cell: (q: Quota) => <>
            <Button kind="quiet" onClick={() => { edit(q); scrollTo(0, 0); }}>Change<span class="unseen"> the quota of {q.principal}</span></Button>
            <Button kind="quiet" onClick={() => setGone(q.principal)}>Remove<span class="unseen"> the quota of {q.principal}</span></Button></> }] : []),
        ]} />}</List>
    </Card>
    {gone && <RemoveQuota id={gone} onClose={() => setGone(undefined)} onRemoved={list.reload} />}
  </>;
}

function SetQuota({ quota, onSet }: { quota?: Quota; onSet: () => void }) {
  const [id, setId] = useState(quota?.principal ?? ""), action = useAction();
  const [text, setText] = useState<Limits>(quota ? { produce_bytes: String(quota.produce_bytes ?? ""), fetch_bytes: String(quota.fetch_bytes ?? ""), requests: String(quota.requests ?? "") } : none);
  const wrong = (v: string) => Number.isNaN(amount(v)) ? `"${v}": want a number such as 500 or 10MiB` : whole(String(amount(v)), 1, 2 ** 40);
  const limited = limits.some(([name]) => text[name]);
  const set = async () => {
    const done = await action.run(async () => {
      await call("PUT", at`/quotas/${id}`, { body: Object.fromEntries(limits.filter(([name]) => text[name]).map(([name]) => [name, amount(text[name])])) });
      announce(`The quota of ${id} is set`);
    });
    if (done) { setId(""); setText(none); onSet(); }
  };
  return <Card title={quota ? "Change a quota" : "Set a quota"}>
    <form onSubmit={set}>
      <div class="row">
        <Text label="Principal" hint="A token or user; * for each without a quota." value={id} onValue={setId} check={principal} required />
        {limits.map(([name, label]) => <Text key={name} label={label} hint={name === "requests" ? "Per second; empty: no limit." : "Per second, e.g. 1MiB; empty: no limit."} check={wrong}
          value={text[name]} onValue={v => setText({ ...text, [name]: v })} />)}
        <div class="actions"><Button kind="primary" type="submit" busy={action.busy} disabled={!limited}>Set</Button>{!limited && <small>Type at least one limit.</small>}</div>
      </div>
      <Failure error={action.error} />
    </form>
  </Card>;
}

function RemoveQuota({ id, onClose, onRemoved }: { id: string; onClose: () => void; onRemoved: () => void }) {
  return <Act title="Remove a quota" action="Remove" danger act={() => call("DELETE", at`/quotas/${id}`)} said={`The quota of ${id} is removed`} onDone={onRemoved} onClose={onClose}>
    <p>{id === "*" ? "Principals without a quota of their own then have no limits." : <><bdi>{id}</bdi> then has the limits of everyone, if there are any.</>}</p>
  </Act>;
}
