// What the broker would refuse of a trigger, while a person types it.

import { useEffect, useState } from "preact/hooks";
import { call, stringify } from "../../../lib/api";
import { Fault, type Target } from "./delivery";
import { typingPause } from "./parse";
import { specOf, type Settings } from "./settings";

/** Faults are the broker's words by the name of a field, such as id or deliver.url. */
export type Faults = Record<string, string>;

/** examine asks for the faults of a definition. expr: undefined if it has none yet. fresh: the ID must be new. Errors: Problem, AbortError. */
export async function examine(id: string, s: Settings, expr: string | undefined, fresh: boolean, signal?: AbortSignal): Promise<Faults> {
  const faults: Faults = {};
  let spec = specOf({ ...s, target: { ...s.target, kind: s.target.kind === "keep" ? "keep" : "" } });
  try {
    spec = specOf(s);
  } catch (e) {
    if (!(e instanceof Fault)) throw e;
    faults[e.field] = e.message;
  }
  const found = await call<{ faults: { field: string; detail: string }[] }>("POST", "/triggers/check", { query: { id }, body: { ...spec, expr }, headers: fresh ? { "If-None-Match": "*" } : {}, signal });
  for (const { field, detail } of found.faults) {
    const [, part, rest] = /^(from|to|zone|per): (.*)$/s.exec(detail) ?? [], name = part ? `${field}.${part}` : field;
    if (field !== "expr" || expr !== undefined) faults[name] = [faults[name], rest ?? detail].filter(Boolean).join("; ");
  }
  return faults;
}

/** useFaults examines each edit. The faults are those of the last answer, which is about the present definition if `sure`. A broker that does not answer has none: it still refuses what is wrong when it is stored. */
export function useFaults(id: string, s: Settings, expr: string | undefined, fresh: boolean, on: boolean) {
  const key = stringify([id, s, expr]), [{ of, faults }, set] = useState<{ of: string; faults: Faults }>({ of: "", faults: {} });
  useEffect(() => {
    if (!on) return;
    const abort = new AbortController();
    const timer = setTimeout(() => examine(id, s, expr, fresh, abort.signal).catch(() => ({})).then(faults => { if (!abort.signal.aborted) set({ of: key, faults }); }), typingPause);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [on, key]);
  return { faults, sure: of === key, found: (faults: Faults) => set({ of: key, faults }) };
}

const labels: Record<string, string> = {
  id: "ID", expr: "Expression", topic: "Topic of the events", cooldown: "Cooldown", keep_deliver: "Send to", deliver: "More settings, as JSON", "deliver.url": "URL", "deliver.topic": "Topic of the messages", "deliver.queue": "Queue", "deliver.delay": "Delay",
  "deliver.secrets": "Secrets", "deliver.template": "Template of the message", "deliver.headers": "Headers", "deliver.content_type": "Content type", "deliver.retries": "Waits between attempts", "deliver.concurrency": "Messages in flight",
  "deliver.frequency_cap": "Messages", "deliver.frequency_cap.per": "In", "deliver.quiet_hours": "Quiet hours", "deliver.quiet_hours.from": "Quiet hours, from", "deliver.quiet_hours.to": "Quiet hours, until", "deliver.quiet_hours.zone": "Time zone",
};

/** reasonsOf lists faults with the names of their fields, for the button that waits for them. */
export function reasonsOf(faults: Faults, s: Settings): { field: string; label: string; text: string }[] {
  const t: Target = s.target, required: Record<string, string> = { id: s.id, "deliver.url": t.url, "deliver.topic": t.to, "deliver.queue": t.queue, "deliver.secrets": t.secrets };
  return Object.entries(faults).map(([field, detail]) => ({ field, label: labels[field] ?? field, text: required[field] === "" ? "missing" : detail }));
}
