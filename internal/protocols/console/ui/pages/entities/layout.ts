// Where things are in the drawing of a time line. Idle time is compressed: a gap gets a width by the
// logarithm of its length, and a long one gets a mark with its length.

import { seconds } from "../../lib/format";
import type { Awaited, Firing } from "../triggers/types";

/** EntityEvent is an event of an entity. place is its partition and offset. */
export interface EntityEvent { at: number; place: string; event?: string; value?: string; erased?: boolean }

/** EntityTrigger is the state of a trigger for an entity, of GET /entities/{entity}. */
export interface EntityTrigger {
  trigger: string; version: number; topic: string; known: boolean; value: boolean; as_of?: string; next: string | null; over: boolean; fired: boolean; waits: string;
  awaited: Awaited[]; degraded: boolean; firings: number; last: string | null;
}

export interface Bar { x1: number; x2: number; y: number; role: string; text: string; openLeft: boolean; openRight: boolean }
export interface Row { name: string; y: number; bars: Bar[]; fired: number[]; next?: { x: number; value: boolean } }
export interface Layout {
  width: number; height: number; axis: number; now?: number; dots: { x: number; name: string; erased: boolean }[]; marks: { x: number; text: string }[];
  times: { x: number; at: number }[]; rows: Row[]; summary: string;
}

const left = 20, right = 170, axis = 96, rowTop = 142, barHeight = 22, narrow = 18, wide = 120, fullWidth = 900, track = 34;
const eventsDrawn = 40, barsDrawn = 4, rowsDrawn = 20;

/** layoutOf places events, waits and firings. */
export function layoutOf(newest: EntityEvent[], triggers: EntityTrigger[], firings: Firing[]): Layout | undefined {
  const events = newest.slice(0, eventsDrawn).reverse(), first = events[0]?.at ?? -Infinity, rows = triggers.slice(0, rowsDrawn);
  const fired = firings.filter(f => Date.parse(f.at) >= first && rows.some(t => t.trigger === f.trigger));
  const ms = (t: string | null | undefined) => t ? Date.parse(t) : undefined;
  const now = rows.reduce<number | undefined>((n, t) => Math.max(n ?? -Infinity, ms(t.as_of) ?? -Infinity), undefined);
  const bounds = rows.flatMap(t => [ms(t.next), ...t.awaited.slice(0, barsDrawn).flatMap(a => [ms(a.from), ms(a.until)])]);
  const times = [...new Set([...events.map(e => e.at), ...fired.map(f => Date.parse(f.at)), ...bounds, now].filter((t): t is number => t !== undefined && Number.isFinite(t)))].sort((a, b) => a - b);
  if (!times.length) return undefined;
  const gaps = times.slice(1).map((t, i) => t - times[i]!).sort((a, b) => a - b), usual = Math.max(1, gaps[gaps.length >> 1] ?? 1);
  const xs = new Map<number, number>(), marks: Layout["marks"] = [], labels: Layout["times"] = [];
  const widthOf = (gap: number) => Math.min(wide, narrow + 22 * Math.log2(1 + gap / usual));
  const all = times.slice(1).reduce((sum, t, i) => sum + widthOf(t - times[i]!), 0), stretch = Math.min(2.5, Math.max(1, fullWidth / (all || 1)));
  let x = left, labelled = -Infinity;
  times.forEach((t, i) => {
    const gap = i ? t - times[i - 1]! : 0, width = i ? widthOf(gap) * stretch : 0;
    if (i && widthOf(gap) === wide) marks.push({ x: x + width / 2, text: seconds(gap / 1000) });
    x += width;
    xs.set(t, x);
    if (x - labelled >= 130) { labels.push({ x, at: t }); labelled = x; }
  });
  const width = x + right, at = (t: number) => xs.get(t)!;
  let y = rowTop;
  const drawn = rows.map((t): Row => {
    const top = y, bars = t.awaited.slice(0, barsDrawn).map((a, i): Bar => ({
      x1: a.from ? at(ms(a.from)!) : left, x2: a.until ? at(ms(a.until)!) : width - 10, y: top + track + 12 + i * barHeight, role: a.role, openLeft: !a.from, openRight: !a.until,
      text: `${a.expr} ${a.role === "must_not_come" ? "must not come" : a.role === "starts" ? "starts it" : "must come"}${a.need > 1 || a.have ? ` (${a.have} of ${a.need})` : ""}`,
    }));
    y += track + 12 + bars.length * barHeight + 12;
    return { name: `${t.trigger}: ${t.value}${t.over ? ", over" : ""}`, y: top, bars, fired: fired.filter(f => f.trigger === t.trigger).map(f => at(Date.parse(f.at))),
      next: t.next ? { x: at(ms(t.next)!), value: !t.value } : undefined };
  });
  const dots = events.map(e => ({ x: at(e.at), name: e.event ?? (e.erased ? "erased" : "?"), erased: !!e.erased }));
  return { width, height: y + 6, axis, now: now !== undefined && Number.isFinite(now) ? at(now) : undefined, dots, marks, times: labels, rows: drawn,
    summary: `Time line with ${events.length} events, ${rows.length} triggers and ${fired.length} firings. The tables below have the same.` };
}
