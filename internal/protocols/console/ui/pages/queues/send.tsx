// The form that sends a message.

import { useState } from "preact/hooks";
import { at, call, Problem } from "../../lib/api";
import { atMost, span } from "../../lib/check";
import { quote, word } from "../../lib/format";
import { useAction } from "../../lib/load";
import { announce, Button, Choice, Copied, Failure, Field, Note, Text } from "../../lib/parts";
import { to } from "../../lib/route";
import type { Queue } from "./types";

interface Result { id: string; duplicate?: boolean; code?: string; field?: string; detail?: string }

const empty = { value: "", key: "", delay: "", dedup: "", priority: "0" };

export function Send({ q, reload }: { q: Queue; reload: () => void }) {
  const [form, set] = useState(empty), [sent, show] = useState<Result>(), action = useAction();
  const field = action.error?.members.field ?? "", mine = (name: string) => field.endsWith(name) ? action.error!.message : undefined;
  const change = (c: Partial<typeof empty>) => { action.clear(); show(undefined); set({ ...form, ...c }); };
  const text = (name: "key" | "delay" | "dedup") => ({ value: form[name], error: mine(name), onValue: (v: string) => change({ [name]: v }) });
  const send = async () => {
    show(undefined);
    const { value, priority, ...rest } = form, given = Object.fromEntries(Object.entries(rest).filter(([, v]) => v));
    const done = await action.run(async () => {
      const { messages: [m] } = await call<{ messages: Result[] }>("POST", at`/queues/${q.name}/messages`, { body: { messages: [{ value, ...given, priority: Number(priority) }] } });
      if (m!.code) throw new Problem(400, m!.code, m!.detail ?? m!.code, { field: m!.field });
      show(m);
    });
    announce(done ? "Sent" : "");
    reload();
  };
  const flags = [form.key && ` --key ${word(form.key)}`, form.delay && ` --delay ${word(form.delay)}`, form.dedup && ` --dedup ${word(form.dedup)}`, Number(form.priority) && ` --priority ${form.priority}`].filter(Boolean).join("");
  return <form class="card produce" aria-label="Send a message" onSubmit={send} onKeyDown={e => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); e.currentTarget.requestSubmit(); } }}>
    <Field label="Body" hint="What the worker gets: text or JSON" error={mine("value")} render={a => <textarea {...a} spellcheck={false} dir="auto" value={form.value} onInput={e => change({ value: e.currentTarget.value })} />} />
    <div class="row">
      <Text label="Delay" {...text("delay")} check={span} placeholder="none" hint="No worker gets it before, such as 90s, 2h or 1d" />
      {q.priorities > 1 && <Choice label="Priority" value={form.priority} onValue={priority => change({ priority })} options={Array.from({ length: q.priorities }, (_, i) => [String(i), i ? String(i) : "0: first"] as const)} />}
      <Text label="Key" {...text("key")} hint={q.effective_settings["key-mode"] === "order" ? "Messages of a key come one after the other" : "Whom or what it is about; optional"} />
      <Text label="Dedup ID" {...text("dedup")} check={atMost(256)} hint={`A second message with it is not stored for ${q.effective_settings["dedup-window"]}; optional`} />
    </div>
    <Failure error={field && ["value", "key", "delay", "dedup"].some(mine) ? undefined : action.error} />
    <div class="actions"><Button type="submit" kind="primary" busy={action.busy}>Send</Button> <span class="dim">or Ctrl+Enter</span></div>
    {sent && <Note kind="good">{sent.duplicate ? "Nothing was stored: a message with this dedup ID is" : "Stored as"} <a href={to("queues", q.name, "messages", { open: sent.id })}>message {sent.id}</a>.</Note>}
    <p class="hint">The same from a terminal:</p>
    <Copied label="Command that sends the message" text={`seb queue send ${word(q.name)}${flags} ${quote(form.value || "{}")}`} />
  </form>;
}
