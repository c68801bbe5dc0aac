// How long acknowledgements and PUTs take.

import { Chart, type Scale } from "../lib/chart";
import { count, seconds } from "../lib/format";
import { Card, Choice, Empty, Got, Note, Page, Table, When } from "../lib/parts";
import { choose, route } from "../lib/route";
import { useGet } from "../lib/load";
import { OverTime, quantiles, total } from "./overview/charts";

/** Curve is a distribution of durations (api.LatencyCurve). */
interface Curve { count: number; max: number; percentiles: { percentile: number; seconds: number; count: number }[] }

/** Distributions is the answer to GET /latency (api.Latency). */
interface Distributions { window: string; since?: string; reason?: string; acks: Curve; puts: Curve }

const shown = [50, 75, 90, 99, 99.9, 99.99, 99.999];

/** spread puts percentiles on a logarithmic scale: each step of 1 has a tenth of the values beyond it. */
function spread(p: number): number { return -Math.log10(1 - p / 100); }

const scale: Scale = {
  name: "Percentile", marks: [0, 1, 2, 3, 4, 5],
  text: x => { const p = 100 * (1 - 10 ** -x); return String(Number(p.toFixed(Math.max(1, Math.ceil(x)) + 1))); },
};

/** Latency shows percentiles of acknowledgements and PUTs, and how they were over time. */
export function Latency(_: { path: string[] }) {
  const window = route.value.query.of === "start" ? "start" : "1h";
  const found = useGet<Distributions>("/latency", { window }, 10_000);
  return <Page title="Latency" lead="How long an acknowledgement took, from the oldest append of each commit object, and how long the PUT of the object took.">
    <div class="row"><Choice label="Percentiles" value={window} onValue={of => choose({ of: of === "1h" ? undefined : of })} options={[["1h", "of the last hour"], ["start", "since the start of the broker"]]} /></div>
    <Got of={found}>{d => d.reason ? <Note>There are no percentiles: {d.reason}.</Note>
      : !d.puts.count ? <Card title="Percentiles"><Empty>Nothing was stored since <When t={d.since} />.</Empty></Card> : <Percentiles d={d} />}</Got>
    <OverTime title={() => "Over time"}>{s => [["Acknowledgements", "commit_"], ["PUTs", "put_"]].map(([title, name]) =>
      <Chart key={title} title={title!} times={s.times} format={seconds} note="estimated from the buckets of the metrics" lines={quantiles.map(([q, label]) => ({ name: label, values: total(s, name + q) }))} />)}</OverTime>
  </Page>;
}

function Percentiles({ d }: { d: Distributions }) {
  const x = (d.acks.count ? d.acks : d.puts).percentiles.map(p => spread(p.percentile));
  const line = (name: string, c: Curve) => ({ name, values: x.map((_, i) => c.percentiles[i]?.seconds ?? null) });
  const at = (c: Curve, p: number) => c.percentiles.find(o => o.percentile === p);
  return <>
    <Chart title="Time by percentile" times={x} scale={scale} format={seconds} lines={[line("acknowledgement", d.acks), line("PUT", d.puts)]} />
    <Card title="Percentiles" actions={<span class="at">since <When t={d.since} /></span>}>
      <Table caption="Percentiles" rows={[...shown, 100]} keyOf={String} columns={[
        { name: "Percentile", num: true, cell: p => p === 100 ? "largest" : p },
        ...([["Acknowledgement", d.acks], ["PUT", d.puts]] as const).flatMap(([name, c]) => [
          { name, num: true, cell: (p: number) => p === 100 ? seconds(c.count ? c.max : null) : seconds(at(c, p)?.seconds) },
          { name: `${name}s beyond`, num: true, cell: (p: number) => p === 100 ? `of ${count(c.count)}` : c.count ? count(c.count - at(c, p)!.count) : "–" },
        ]),
      ]} />
    </Card>
  </>;
}

