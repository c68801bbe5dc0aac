// Numbers, sizes and times for people.

import type { Int } from "./api";

const whole = new Intl.NumberFormat("en-US"), short = new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 });

/** count formats a whole number: 85,238. */
export function count(n: Int | undefined): string { return n === undefined ? "–" : whole.format(n); }

/** figure formats a measured number with three digits: 0.0417, 12.3, 1,240. */
export function figure(n: number | null | undefined): string {
  if (n === null || n === undefined || Number.isNaN(n)) return "–";
  return Math.abs(n) >= 1000 ? whole.format(Math.round(n)) : short.format(n);
}

/** bytes formats a size: 1.2 MiB. */
export function bytes(n: Int | null | undefined): string {
  if (n === null || n === undefined) return "–";
  let v = Number(n), unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (Math.abs(v) >= 1024 && unit < units.length - 1) { v /= 1024; unit++; }
  return `${figure(v)} ${units[unit]}`;
}

/** seconds formats a duration in seconds: 180 ms, 4.2 s, 3 min, 7 d. */
export function seconds(s: number | null | undefined): string {
  if (s === null || s === undefined) return "–";
  if (s === 0) return "0 s";
  if (s < 0.001) return `${figure(s * 1e6)} µs`;
  if (s < 1) return `${figure(s * 1e3)} ms`;
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]] as const) if (s >= size * 2) return `${figure(s / size)} ${unit}`;
  return `${figure(s)} s`;
}

const relative = new Intl.RelativeTimeFormat("en");

/** fromNow says when a time is, seen from another in ms, which may be seconds off: 3 days ago, in 2 hours. */
export function fromNow(t: string | number | Date, now: number): string {
  const s = (new Date(t).getTime() - now) / 1000;
  for (const [unit, size] of [["year", 365 * 86400], ["day", 86400], ["hour", 3600], ["minute", 60]] as const) {
    if (Math.abs(s) >= size * .95) return relative.format(Math.round(s / size), unit);
  }
  return s > 3 ? "in less than a minute" : "just now";
}

/** dollars formats a price: $0.0042, $12.94. */
export function dollars(n: number | null | undefined): string {
  if (n === null || n === undefined) return "–";
  return n !== 0 && Math.abs(n) < 0.1 ? `$${short.format(n)}` : `$${n.toLocaleString("en-US", { minimumFractionDigits: 2, maximumFractionDigits: 2 })}`;
}

const local = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "2-digit", day: "2-digit", hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3, hour12: false });

/** localTime formats a time of the log in the person's time zone, to the millisecond. */
export function localTime(t: string | number | Date): string {
  const d = new Date(t);
  return Number.isNaN(d.getTime()) ? String(t) : local.format(d);
}

/** utcTime formats a time in UTC, for a tooltip. */
export function utcTime(t: string | number | Date): string {
  const d = new Date(t);
  return Number.isNaN(d.getTime()) ? String(t) : d.toISOString();
}

/** plural returns "1 record" or "3 records". */
export function plural(n: Int, one: string, many = one + "s"): string { return `${count(n)} ${Number(n) === 1 ? one : many}`; }

/** quote makes text one word of a shell. */
export function quote(text: string): string { return `'${text.replaceAll("'", "'\\''")}'`; }

/** word is text as a word of a shell, quoted only if it must be. */
export function word(text: string): string { return /^[\w.:/][\w.:/-]*$/.test(text) ? text : quote(text); }
