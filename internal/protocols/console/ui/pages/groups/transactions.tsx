// Transactions that are open, for which the readers of their partitions wait.

import { useState } from "preact/hooks";
import { call, type Int } from "../../lib/api";
import { count, seconds } from "../../lib/format";
import { everything } from "../../lib/list";
import { useLoad } from "../../lib/load";
import { Act, Button, Card, Failure, Listed, Table } from "../../lib/parts";
import { to } from "../../lib/route";
import { manages } from "../../lib/session";

/** Transaction is a transactional ID with its open transaction (api.Transaction). */
interface Transaction { transactional_id: string; timeout_seconds: number; age_seconds?: number; partitions: { topic: string; partition: number; last_stable_offset: Int }[] }

export function Transactions() {
  const list = useLoad(signal => everything<Transaction>("/transactions", "transactions", { open: true }, signal), [], 5000), [ended, end] = useState<string>();
  return <>
    <Failure error={list.error} />
    {!!list.data?.length && <Card title="Open transactions">
      <p>Consumers, triggers, webhooks and ordered queues wait for them. The broker aborts each after its timeout.</p>
      <Table caption="Open transactions" rows={list.data} keyOf={t => t.transactional_id} columns={[
        { name: "Transactional ID", cell: t => <bdi>{t.transactional_id}</bdi> },
        { name: "Age", cell: t => seconds(t.age_seconds), num: true },
        { name: "Timeout", cell: t => seconds(t.timeout_seconds), num: true },
        { name: "Readers wait at", cell: t => <Listed of={t.partitions.map(p => <><a href={to("topics", p.topic)}>{p.topic}</a>/{p.partition} offset {count(p.last_stable_offset)}</>)} />, wide: true },
        ...(manages() ? [{ name: "Action", cell: (t: Transaction) => <Button onClick={() => end(t.transactional_id)}>Abort<span class="unseen"> {t.transactional_id}</span></Button> }] : []),
      ]} />
    </Card>}
    {ended !== undefined && <Act title="Abort a transaction" action="Abort" danger act={() => call("POST", "/transactions/abort", { query: { "transactional-id": ended } })} said="Transaction aborted" onDone={list.reload} onClose={() => end(undefined)}>
      <p>Readers never see the records of <bdi>{ended}</bdi>, and continue behind them. Its program gets an error and has to start again.</p>
    </Act>}
  </>;
}
