// Charts of figures over time. uPlot draws them; the browser loads it with the first chart.

import type uPlot from "uplot";
import { State } from "./state";
import { useEffect, useRef, useState } from "preact/hooks";
import { Button, Card, Table } from "./parts";
import { localTime } from "./format";
import { theme } from "./theme";

/** Line is a line of a chart: a value for each time, null for a gap. */
export interface Line { name: string; values: readonly (number | null)[] }

// The colours that the system asks for.
const systemDark = matchMedia("(prefers-color-scheme: dark)"), system = new State(systemDark.matches);
systemDark.addEventListener("change", () => { system.value = systemDark.matches; });

let library: Promise<typeof uPlot> | undefined;

function load(): Promise<typeof uPlot> { return library ??= import("./charts.js" as string).then(m => m.default); }

const clock = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", hour12: false });

const height = 160;

const second = new Intl.DateTimeFormat(undefined, { hour: "2-digit", minute: "2-digit", second: "2-digit", hour12: false });

/** dashes tell lines apart without colours. */
const dashes = [[], [7, 4], [2, 3]];

function colour(name: string): string { return getComputedStyle(document.documentElement).getPropertyValue(name).trim(); }

/** Scale is a horizontal scale other than time: its name, values with a mark, and the text of a value. */
export interface Scale { name: string; marks: number[]; text: (x: number) => string }

/** alone returns the values between two gaps: a line has no length there, so they are points. */
function alone(u: uPlot, series: number): number[] {
  const values = u.data[series]!;
  return Array.from(values.keys()).filter(i => values[i] != null && values[i - 1] == null && values[i + 1] == null);
}

interface Shape { lines: readonly Line[]; format: (v: number) => string; binary?: boolean; scale?: Scale; onHover: (at: number | null) => void }

function optionsOf({ lines, format, binary, scale, onHover }: Shape, width: number): uPlot.Options {
  const axis = { stroke: () => colour("--dim"), grid: { stroke: () => colour("--line"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
  return {
    width, height, legend: { show: false },
    padding: [10, scale ? 24 : 18, 0, 0],
    cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 }, ...(scale ? {} : { sync: { key: "time" } }) },
    scales: { x: { time: !scale }, y: { range: (_u, _min, max) => [0, max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, size: 26, ...(scale ? { splits: () => scale.marks, values: (_u: uPlot, at: number[]) => at.map(scale.text) } : { space: 60, values: (_u: uPlot, at: number[]) => at.map(t => clock.format(t * 1000)) }) },
      { ...axis, size: 74, space: 32, values: (_u, at) => at.map(format), ...(binary ? { incrs: Array.from({ length: 50 }, (_, i) => 2 ** i) } : {}) },
    ],
    series: [{}, ...lines.map((_, i) => ({ stroke: () => colour(`--c${i + 1}`), width: 1.5, dash: dashes[i % 3], points: { show: true, size: 5, filter: alone, fill: () => colour(`--c${i + 1}`) } }))],
    hooks: { setCursor: [u => onHover(u.cursor.idx ?? null)] },
  };
}

/** Canvas draws the lines. It has no text; Chart adds that. */
function Canvas({ times, ...shape }: Shape & { times: readonly number[] }) {
  const host = useRef<HTMLDivElement>(null), plot = useRef<uPlot | undefined>(undefined), [failed, fail] = useState(false);
  const data = [times, ...shape.lines.map(l => l.values)] as unknown as uPlot.AlignedData;
  const current = useRef(data);
  current.current = data;
  useEffect(() => {
    let gone = false;
    const size = new ResizeObserver(() => host.current && plot.current?.setSize({ width: host.current.clientWidth, height }));
    load().then(library => {
      if (gone || !host.current) return; // the page was left meanwhile
      plot.current = new library(optionsOf(shape, host.current.clientWidth), current.current, host.current);
      size.observe(host.current);
    }, () => { library = undefined; fail(true); });
    return () => { gone = true; size.disconnect(); plot.current?.destroy(); plot.current = undefined; };
  }, [shape.lines.map(l => l.name).join()]);
  useEffect(() => { plot.current?.setData(data); }, [times]);
  useEffect(() => { plot.current?.redraw(false, true); }, [theme.value, system.value]);
  return failed ? <p class="empty">The chart cannot be drawn: its file did not load. The table below has the values.</p> : <div class="plot" ref={host} />;
}

/** newest is the last value of a line that is not a gap. */
function newest(l: Line): number | null { return l.values.findLast(v => v !== null) ?? null; }

/**
 * Chart is a card with lines over time. A line without any value is left out. The names and newest
 * values are text, and a table has all values. binary: the axis has steps of powers of 2.
 */
export function Chart({ title, times, lines, format, binary, scale, note }: {
  title: string; times: readonly number[]; lines: readonly Line[]; format: (v: number) => string; binary?: boolean; scale?: Scale; note?: string;
}) {
  const [at, hover] = useState<number | null>(null), [table, show] = useState(false);
  const drawn = lines.filter(l => newest(l) !== null);
  const value = (l: Line, i: number | null) => { const v = i === null ? newest(l) : l.values[i]; return v === null || v === undefined ? "–" : format(v); };
  const time = at === null ? undefined : times[at];
  return <Card title={title} actions={drawn.length > 0 && <><span class="at">{time === undefined ? note : scale ? `${scale.name} ${scale.text(time)}` : second.format(time * 1000)}</span><Button kind="quiet" aria-expanded={table} aria-label={"Table of " + title} onClick={() => show(!table)}>Table</Button></>}>
    {!drawn.length ? <p class="empty">No figures yet.</p> : <>
      <ul class="legend">
        {drawn.map((l, i) => <li key={l.name}><i class={"c" + (i + 1)} aria-hidden="true" />{l.name} <b>{value(l, at)}</b></li>)}
      </ul>
      <div role="img" aria-label={`Chart of ${title}. ${scale ? "Largest" : "Newest"}: ${drawn.map(l => `${l.name} ${value(l, null)}`).join(", ")}`}>
        <Canvas times={times} lines={drawn} format={format} binary={binary} scale={scale} onHover={hover} />
      </div>
      {table && <Rows title={title} times={times} lines={drawn} format={format} scale={scale} />}
    </>}
  </Card>;
}

function Rows({ title, times, lines, format, scale }: { title: string; times: readonly number[]; lines: readonly Line[]; format: (v: number) => string; scale?: Scale }) {
  const rows = times.map((_, i) => i).filter(i => lines.some(l => l.values[i] !== null)).reverse();
  return <div class="figures"><Table caption={title + (scale ? "" : ", newest first")} rows={rows} keyOf={String} columns={[
    scale ? { name: scale.name, num: true, cell: i => scale.text(times[i]!) } : { name: "Time", cell: i => <time>{localTime(times[i]! * 1000).replace(/[.,]\d{3}$/, "")}</time> },
    ...lines.map(l => ({ name: l.name, num: true, cell: (i: number) => l.values[i] === null ? "–" : format(l.values[i]!) })),
  ]} /></div>;
}
