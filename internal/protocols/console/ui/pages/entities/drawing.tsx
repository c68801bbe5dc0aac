// The drawing of a time line. Its content is in the tables of the page, too.

import { localTime } from "../../lib/format";
import { Card } from "../../lib/parts";
import { layoutOf, type EntityEvent, type EntityTrigger, type Layout, type Row } from "./layout";
import type { Firing } from "../triggers/types";

const nameMax = 22, shorten = (s: string) => s.length > nameMax ? s.slice(0, nameMax - 1) + "…" : s;

export function Drawing({ events, triggers, firings }: { events: EntityEvent[]; triggers: EntityTrigger[]; firings: Firing[] }) {
  const l = layoutOf(events, triggers, firings);
  if (!l) return null;
  return <Card title="Time line" actions={<Legend />}>
    <div class="scroll" role="region" aria-label="Drawing of the time line" tabIndex={0}>
      <svg class="timeline" role="img" aria-label={l.summary} width={l.width} height={l.height} viewBox={`0 0 ${l.width} ${l.height}`}>
        {l.now !== undefined && <><rect class="future" x={l.now} y={0} width={l.width - l.now} height={l.height} /><line class="now" x1={l.now} x2={l.now} y1={0} y2={l.height} />
          <text class="small" x={l.now + 4} y={l.height - 6}>now, by log time</text></>}
        <Axis l={l} />
        {l.rows.map(r => <TriggerRow row={r} width={l.width} key={r.name} />)}
      </svg>
    </div>
  </Card>;
}

function Legend() { return <span class="dim legend">● event &nbsp; ◆ fired &nbsp; ◇ changes unless events come &nbsp; ∥ idle time, shortened</span>; }

function Axis({ l }: { l: Layout }) {
  return <>
    <line class="axis" x1={0} x2={l.width} y1={l.axis} y2={l.axis} />
    {l.marks.map(m => <g key={m.x}><rect class="gap" x={m.x - 5} y={l.axis - 7} width={10} height={14} /><path class="axis" d={`M${m.x - 4} ${l.axis + 7}l3 -14M${m.x + 1} ${l.axis + 7}l3 -14`} />
      <text class="small middle" x={m.x} y={l.axis - 12}>{m.text}</text></g>)}
    {l.dots.map(d => <g key={d.x + d.name}><circle class={d.erased ? "dot erased" : "dot"} cx={d.x} cy={l.axis} r={5} /><text transform={`translate(${d.x + 2} ${l.axis - 10}) rotate(-35)`}>{shorten(d.name)}</text></g>)}
    {l.times.map(t => <g key={t.x}><line class="axis" x1={t.x} x2={t.x} y1={l.axis + 6} y2={l.axis + 12} /><text class="small" x={t.x - 3} y={l.axis + 26}>{localTime(t.at).replace(/\.\d+$/, "")}</text></g>)}
  </>;
}

function TriggerRow({ row, width }: { row: Row; width: number }) {
  return <>
    <text class="strong" x={4} y={row.y + 14}>{row.name}</text>
    <line class="track" x1={4} x2={width - 4} y1={row.y + 34} y2={row.y + 34} />
    {row.bars.map(b => <g key={b.y}>
      <rect class={"bar " + b.role} x={b.x1} y={b.y} width={Math.max(4, b.x2 - b.x1)} height={16} rx={b.openLeft || b.openRight ? 0 : 4} />
      <text class="small" x={b.x1 + 6} y={b.y + 12}>{b.openLeft && "‹ "}{b.text}{b.openRight && " ›"}</text></g>)}
    {row.fired.map(x => <text class="fired middle" x={x} y={row.y + 40} key={x}>◆</text>)}
    {row.next && <><text class="fired middle" x={row.next.x} y={row.y + 40}>◇</text><text class="small" x={row.next.x + 10} y={row.y + 30}>{String(row.next.value)}</text></>}
  </>;
}
