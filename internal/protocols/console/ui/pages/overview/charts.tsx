// The charts of the overview.

import type { ComponentChildren } from "preact";
import { Chart } from "../../lib/chart";
import { bytes, figure, seconds } from "../../lib/format";
import { useLoad } from "../../lib/load";
import { Got, Note } from "../../lib/parts";
import { choose, route } from "../../lib/route";
import { getStats, type Stats, type Status } from "../../lib/status";

const windows = [["1h", "1 hour"], ["6h", "6 hours"], ["24h", "24 hours"]] as const;

/** total adds series; a time without any value stays a gap. */
export function total(s: Stats, ...names: string[]): (number | null)[] {
  const all = names.map(n => s.series[n]?.values ?? []);
  return s.times.map((_, i) => all.reduce<number | null>((sum, v) => v[i] == null ? sum : (sum ?? 0) + v[i]!, null));
}

/** shortest is the number of times that a chart has at least. */
const shortest = 60;

/** sinceStart leaves out the time before the broker's start, so that a young broker has readable charts. */
function sinceStart(s: Stats): Stats {
  const first = (s.series.memory ?? s.series.ready)?.values.findIndex(v => v !== null) ?? 0, from = first < 0 ? 0 : Math.min(first, Math.max(0, s.times.length - shortest));
  if (!from) return s;
  const series = Object.fromEntries(Object.entries(s.series).map(([name, of]) => [name, { ...of, values: of.values.slice(from) }]));
  return { ...s, times: s.times.slice(from), series };
}

/** quantiles are those of the series of a latency. */
export const quantiles = [["p50", "p50"], ["p99", "p99"], ["p999", "p99.9"]] as const;

/** Window chooses the time span of charts. */
function Window({ value }: { value: string }) {
  return <fieldset class="segments"><legend class="unseen">Time span of the charts</legend>
    {windows.map(([w, name]) => <label key={w}><input type="radio" name="window" value={w} checked={w === value} onChange={() => choose({ window: w === "1h" ? undefined : w })} />{name}</label>)}
  </fieldset>;
}

/** OverTime has charts of the time span that a person chooses, of the broker's figures or those of another path. */
export function OverTime({ title, path, children }: { title: (window: string) => ComponentChildren; path?: string; children: (s: Stats) => ComponentChildren }) {
  const asked = route.value.query.window ?? "1h", window = windows.some(([w]) => w === asked) ? asked : "1h";
  const stats = useLoad(async signal => sinceStart(await getStats(window, signal, path)), [window, path], window === "1h" ? 10_000 : 60_000);
  return <>
    <div class="title"><h2>{title(window)}</h2><Window value={window} /></div>
    <Got of={stats} what="Loading the charts">{s => s.reason ? <Note>There are no charts: {s.reason}.</Note> : <div class="grid">{children(s)}</div>}</Got>
  </>;
}

export function Charts({ status }: { status: Status }) {
  return <OverTime title={window => <>Charts of the last <span class="unseen">{window}</span></>}>{s => <>
      <Chart title="Records per second" times={s.times} format={figure} lines={[
        { name: "written over HTTP", values: total(s, "http_records_in") }, { name: "written over Kafka", values: total(s, "kafka_records_in") },
        { name: "read over HTTP", values: total(s, "http_records_out") }]} />
      <Chart title="Bytes per second" times={s.times} format={bytes} binary lines={[
        { name: "written", values: total(s, "http_bytes_in", "kafka_bytes_in") }, { name: "read", values: total(s, "http_bytes_out", "kafka_bytes_out") }]} />
      <Chart title="Write latency" times={s.times} format={seconds} lines={quantiles.map(([q, name]) => ({ name, values: total(s, "commit_" + q) }))} />
      <Chart title="Store PUT latency" times={s.times} format={seconds} lines={quantiles.map(([q, name]) => ({ name, values: total(s, "put_" + q) }))} />
      <Chart title="Records not read yet" times={s.times} format={figure} lines={[
        { name: "by groups", values: total(s, "group_lag_records") }, { name: "by triggers", values: total(s, "trigger_lag_records") }]} />
      <Chart title="Memory" times={s.times} format={bytes} binary note={`limit ${bytes(status.memory.limit_bytes)}`} lines={[{ name: "reserved, and the state", values: total(s, "memory") }]} />
  </>}</OverTime>;
}
