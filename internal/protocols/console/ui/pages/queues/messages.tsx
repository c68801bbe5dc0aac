// The messages of a queue: a list by state, and one of them beside it.

import { useEffect, useMemo, useRef } from "preact/hooks";
import { at, call } from "../../lib/api";
import { count } from "../../lib/format";
import { useGet, useLoad } from "../../lib/load";
import { ActButton, Ago, Button, Choice, Empty, Facts, Failure, Got, Loading, Table, When } from "../../lib/parts";
import { choose, route, to } from "../../lib/route";
import { may } from "../../lib/session";
import { ValueView } from "../../lib/value";
import { CopyValue, Headers, Key, valueOf } from "../records/detail";
import { Open, Preview } from "../records/records";
import { header, letters, states, triesOf, type Message, type Queue } from "./types";

interface Page { messages: Message[]; next?: string }

const inList = 400, shownMax = 1 << 20;

export function Messages({ q, reload }: { q: Queue; reload: () => void }) {
  const { state = "", before, open } = route.value.query, { path, query } = route.value;
  // Only the first page changes by itself.
  const list = useGet<Page>(at`/queues/${q.name}/messages`, { state, before, limit: 50, "max-value-bytes": inList }, before ? undefined : 5000);
  const close = () => { choose({ open: undefined, view: undefined }); document.getElementById("at-" + open)?.focus(); };
  const dead = !letters(q) && list.data?.messages.some(m => header(m, "seb-queue"));
  return <>
    <div class="row"><Choice label="State" value={state} onValue={v => choose({ state: v, before: undefined, open: undefined })} options={[["", "all that are not finished"], ...Object.entries(states).map(([s, about]) => [s, `${s}: ${about}`] as const)]} /></div>
    <div class={open ? "docked" : ""}>
      <section aria-label="Messages" class="records"><Got of={list}>{({ messages, next }) => <>
        <Table caption={`Messages of ${q.name}`} rows={messages} keyOf={m => m.id} selected={m => m.id === open} empty={next ? "None among the messages looked at so far; there are more." : "There are no such messages."} columns={[
          { name: "Message", cell: m => <Open at={m.id} current={m.id === open} /> },
          { name: "Sent", cell: m => <When t={m.sent} /> },
          ...dead ? [
            { name: "Came from", cell: (m: Message) => <span class="nowrap">{header(m, "seb-queue") ?? "–"}</span> },
            { name: "Reason", wide: true, cell: (m: Message) => header(m, "seb-reason") || "–" },
          ] : [
            { name: "State", cell: (m: Message) => <span class="nowrap">{m.state}</span> },
            { name: "Until", cell: (m: Message) => m.state === "ready" ? "" : <Ago t={m.until} none="" /> },
            { name: "Deliveries", num: true, cell: (m: Message) => count(m.deliveries) },
          ],
          { name: "Body", line: "value", cell: m => <Preview r={m} /> },
        ]} />
        <p class="actions paging">{before && <a href={to(...path, { ...query, before: undefined, open: undefined })}>Newest</a>}{next && <a href={to(...path, { ...query, before: next, open: undefined })}>Older</a>}</p>
      </>}</Got></section>
      {open && /^\d+-\d+$/.test(open) && <Detail q={q} id={open} key={open} onClose={close} onDone={() => { list.reload(); reload(); }} />}
    </div>
  </>;
}

/** messageOf loads a message: as one that is not finished, or as one that is. */
async function messageOf(queue: string, id: string, signal: AbortSignal): Promise<Message | undefined> {
  const [partition, offset] = id.split("-"), before = `${partition}-${BigInt(offset!) + 1n}`;
  for (const state of [undefined, "done"]) {
    const { messages: [m] } = await call<Page>("GET", at`/queues/${queue}/messages`, { signal, query: { state, before, limit: 1, "max-value-bytes": shownMax } });
    if (m?.id === id) return m;
  }
  return undefined;
}

/** Detail shows a message: where it stands, why it failed, and what is in it. */
function Detail({ q, id, onClose, onDone }: { q: Queue; id: string; onClose: () => void; onDone: () => void }) {
  const message = useLoad(signal => messageOf(q.name, id, signal), [id]), m = message.data, head = useRef<HTMLHeadingElement>(null);
  const value = useMemo(() => m && valueOf(m), [m]);
  useEffect(() => { head.current!.focus({ preventScroll: innerWidth > 900 }); }, [id]);
  const from = m && header(m, "seb-queue"), others = m?.headers?.filter(h => !h.key.startsWith("seb-")) ?? [];
  return <section class="card detail" aria-labelledby="detail" onKeyDown={e => { if (e.key === "Escape") onClose(); }}>
    <header><h2 id="detail" tabIndex={-1} ref={head}>Message {id}</h2><div class="actions"><Button kind="quiet" onClick={onClose}>Close</Button></div></header>
    <Failure error={message.error} />
    {message.loading && !m ? <Loading /> : !m ? !message.error && <p>There is no such message any more.</p> : <>
      <Facts facts={[
        ["State", `${m.state}: ${states[m.state]}`],
        ["Sent", <When t={m.sent} />],
        m.until && m.state !== "ready" && [m.state === "leased" ? "Worker has it until" : "Comes at", <When t={m.until} />],
        ["Deliveries", count(m.deliveries)],
        from && ["Came from", <><a href={to("queues", from)}>{from}</a>, as message {header(m, "seb-message")}, after {header(m, "seb-deliveries")} deliveries</>],
        from && ["Reason", <bdi>{header(m, "seb-reason") || "none was given"}</bdi>],
        ["Key", <Key r={m} />],
        others.length > 0 && ["Headers", <Headers r={{ headers: others }} />],
      ]} />
      {triesOf(m).length > 0 && <div><h3>Failed tries, and the token of their worker</h3>
        <ol class="stories">{triesOf(m).map((t, i) => <li key={i}><When t={t.time} />, {t.by ?? "no token"}: <bdi>{t.reason || "no reason was given"}</bdi></li>)}</ol></div>}
      <p class="actions">
        {value && <CopyValue value={value} cut={m.value_bytes !== undefined} />}
        {may("delete", "topic") && m.state !== "leased" && m.state !== "done" && <ActButton button="Cancel the message" title={`Cancel message ${id}?`} action="Cancel the message" act={() => call("DELETE", at`/queues/${q.name}/messages/${id}`)} said={`Message ${id} is cancelled`}
          onDone={() => { onClose(); onDone(); }}><p>No worker gets it any more. This cannot be undone.</p></ActButton>}
      </p>
      {value ? <ValueView value={value} view={route.value.query.view} onView={view => choose({ view })} /> : <Empty>The body is empty.</Empty>}
    </>}
  </section>;
}
