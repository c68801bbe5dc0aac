// What the bucket costs.

import { type Int } from "../../lib/api";
import { bytes, count, dollars, plural, seconds } from "../../lib/format";
import { useGet } from "../../lib/load";
import { Card, Got, Table, When } from "../../lib/parts";

/** Request has the requests of one kind in this month, and in a month at the present pace. */
interface Request { kind: string; count: Int; since: string; per_million: number; dollars: number; month_count: Int; month_dollars: number }

interface Cost {
  month: string; prices: string; requests: Request[]; dollars: number; pace_seconds: number; month_dollars: number;
  storage: { bytes: Int; per_gb_month: number; month_dollars: number };
  put_budget?: Budget;
}

/** Budget is --put-budget in this month. */
interface Budget { budget: string; puts: Int; used_puts: Int; interval_millis: Int; exceeded: number }

export function Costs() {
  const cost = useGet<Cost>("/cost", {}, 60_000);
  return <Card title="Cost of the bucket">
    <Got of={cost}>{c => c.prices === "free" ? <Free cost={c} /> : <Priced cost={c} />}</Got>
  </Card>;
}

function Free({ cost: c }: { cost: Cost }) {
  const commits = c.requests.find(r => r.kind === "commit")?.count ?? 0;
  return <p>Requests are free (<code>--prices free</code>). This month has {plural(commits, "commit object")}, and {bytes(c.storage.bytes)} are stored.</p>;
}

interface Row { kind: string; count: string; price: string; dollars: string; month: string; monthDollars: string }

function rowsOf(c: Cost): Row[] {
  const paced = c.pace_seconds > 0;
  return [...c.requests.map(r => ({
    kind: r.kind, count: count(r.count), price: `${dollars(r.per_million)} per million`, dollars: dollars(r.dollars),
    month: paced ? count(r.month_count) : "–", monthDollars: paced ? dollars(r.month_dollars) : "–",
  })), { kind: "storage", count: "", price: `${dollars(c.storage.per_gb_month)} per GB`, dollars: "", month: bytes(c.storage.bytes), monthDollars: dollars(c.storage.month_dollars) }];
}

function Priced({ cost: c }: { cost: Cost }) {
  const late = c.requests.filter(r => r.since.slice(0, 10) !== c.month + "-01" || !r.since.endsWith("T00:00:00Z"));
  return <>
    <p><span class="big">{dollars(c.dollars)}</span> for requests in {c.month} so far.</p>
    <p>{c.pace_seconds > 0 ? <><span class="big">{dollars(c.month_dollars)}</span> a month at the pace of the last {seconds(c.pace_seconds)}, with storage.</> : "The pace is known a minute after the start."}</p>
    {c.put_budget && <BudgetLine budget={c.put_budget} />}
    <details><summary>By kind of request</summary>
      <Table caption="Cost by kind of request" rows={rowsOf(c)} keyOf={r => r.kind} columns={[
        { name: "Kind", cell: r => r.kind }, { name: c.month, num: true, cell: r => r.count }, { name: "Price", num: true, cell: r => r.price },
        { name: "Dollars", num: true, cell: r => r.dollars }, { name: "A month", num: true, cell: r => r.month }, { name: "Dollars a month", num: true, cell: r => r.monthDollars },
      ]} />
      <p class="hint">Prices: {c.prices}. Commit objects are counted in the log, other requests by this broker. Traffic is not included.
        {late.length > 0 && <> {late.map(r => r.kind).join(", ")}: counted since <When t={late[0]!.since} />.</>}</p>
    </details>
  </>;
}

function BudgetLine({ budget: b }: { budget: Budget }) {
  const used = Math.round(100 * Number(b.used_puts) / Number(b.puts)), wait = Number(b.interval_millis);
  return <p>Budget {b.budget}: {used} % used. {wait === 0 ? "Objects leave at once." : `Objects collect records for ${seconds(wait / 1000)}.`}
    {b.exceeded > 0.001 && <> Exceeded by {(100 * b.exceeded).toFixed(1)} %: records arrive faster than it allows.</>}</p>;
}
