// The builder: a page that makes or changes a trigger, as boxes or as text.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { at, call, type Problem } from "../../../lib/api";
import { useGet, useLoad } from "../../../lib/load";
import { Button, Card, Failure, Got, Note, Page } from "../../../lib/parts";
import { choose, route, to } from "../../../lib/route";
import { may } from "../../../lib/session";
import { ExpressionField } from "../parts";
import { asked } from "../past";
import type { Trigger } from "../types";
import { reasonsOf } from "./checks";
import { DeliveryCard, placeholderOf, wordsOf } from "./delivery";
import { Flow, type EventName } from "./flow";
import { openWords } from "./parse";
import { PreviewCard, usePreview } from "./preview";
import { Ask, Conflict, hasSent, Saved } from "./save";
import { Sentence } from "./sentence";
import { fires, named, SettingsCard, specOf } from "./settings";
import { useBuilder, type How, type State } from "./state";
import { Stories } from "./stories";
import { Templates } from "./templates";

/** Edit changes a trigger, or without an ID makes one. The query can fill a new one: expr, topic, fire and cooldown. */
export function Edit({ id }: { id?: string }) {
  const stored = useLoad(async signal => {
    const loaded = id === undefined ? undefined : await call<Trigger>("GET", at`/triggers/${id}`, { signal });
    return { loaded, draft: loaded?.status === "paused" && !await hasSent(loaded, signal) };
  }, []);
  return <Page title={id === undefined ? "New trigger" : `Edit ${id}`} lead={<a href={id === undefined ? to("triggers") : to("triggers", id)}>{id === undefined ? "All triggers" : "The trigger"}</a>}>
    <Got of={stored}>{found => <Builder id={id} {...found} />}</Got>
  </Page>;
}

/** Names are those of the events of a topic. */
interface Names { names: EventName[]; records: number }

function Builder({ id, loaded, draft }: { id?: string; loaded?: Trigger; draft: boolean }) {
  const b = useBuilder(id, loaded, draft), { settings: s, answer, base } = b, write = may("write", "trigger");
  const [topic, setTopic] = useState(s.topic); // of the field when it is left
  const known = useGet<Names>(may("read", "topic") && "/events/names", { "topic-name": topic }).data;
  const preview = usePreview(answer && { ...asked({ ...s, expr: "" }), expr: answer.expr }, known?.records ?? 0);
  const spec = () => { try { return specOf(s); } catch { return undefined; } }; // settings that are not JSON
  const news = useRef<HTMLDivElement>(null); // takes the focus, since the buttons that save are far below it
  useEffect(() => news.current?.focus(), [b.saved, b.conflict]);
  if (!b.begun) return <Templates onChoose={b.start} onText={() => { choose({ text: "yes" }); b.start(); }} />;
  return <>
    {!write && <Note>Your key has no right to change triggers.</Note>}
    {b.restored && <Note>You have changes here that are not saved. <Button onClick={b.discard}>Discard them</Button></Note>}
    {b.mine && <Note>This is what is stored. Yours is kept on this page. <Button onClick={b.takeMine}>Back to mine</Button></Note>}
    {(b.saved || b.conflict) && <div ref={news} tabIndex={-1}>
      {b.saved && <Saved {...b.saved} />}
      {b.conflict && <Conflict id={id!} stored={b.conflict.trigger} spec={spec()} answer={answer} busy={b.action.busy} onMine={b.overwrite} onStored={b.takeStored} />}
    </div>}
    <When of={b} known={known} />
    <Sentence of={b.last} missing={b.open ? openWords(b.open) : b.fault ? "The expression has an error." : "…"} />
    {b.last && <Stories of={b.last.expr} />}
    {write && <PreviewCard of={preview} fire={s.fire} trigger={id} ready={!!answer} />}
    <Rest of={b} write={write} names={known?.names ?? []} onTopic={() => setTopic(s.topic)} />
    {b.asking && answer && <Ask how={b.asking} restart={b.isDraft || !id} old={base.trigger} settings={s} specOf={c => specOf({ ...s, ...c })} answer={answer} preview={preview} busy={b.action.busy} error={b.action.error}
      onSave={b.save} onClose={() => { b.ask(undefined); b.action.clear(); }} />}
  </>;
}

/** messages returns the text of a problem by its JSON Pointer. */
function messages(p?: Problem): Record<string, string> { return typeof p?.members.pointer === "string" ? { [p.members.pointer]: p.message } : {}; }

/** When has the expression: as boxes, and as text. */
function When({ of: b, known }: { of: State; known?: Names }) {
  const { h, typedFault, settings: s } = b, error = b.action.error, text = useRef<HTMLDetailsElement>(null), { title, detail } = wordsOf(s.target, b.base.trigger?.deliver);
  useEffect(() => { if (b.first) text.current!.closest("section")!.querySelector<HTMLElement>(b.first)?.focus(); }, []);
  const focus = (name: string) => document.querySelector<HTMLElement>(`#builder-${name} select`)?.focus();
  const inText = error?.members.line ? error : typedFault, faults = messages(b.fault), shown = !!(route.value.query.text || inText);
  const warnings = Object.fromEntries((b.answer?.warnings ?? []).filter(w => w.pointer !== undefined).map(w => [w.pointer, w.message]));
  return <Card title="When" actions={<><Button onClick={b.undo} disabled={!h.canUndo && b.typed === undefined}>Undo</Button><Button onClick={h.redo} disabled={!h.canRedo}>Redo</Button></>}>
    {typedFault && <Note kind="warn">The text has an error, so the boxes show the last text without one. An edit of them replaces it. <Button onClick={() => text.current!.querySelector("textarea")!.focus()}>Go to the text</Button></Note>}
    <Flow tree={h.tree} selected={b.path} onSelect={b.select} onEdit={b.edit} faults={faults} warnings={warnings} names={known?.names ?? []} entity="entity" end={[
      { title: "Fires", detail: named(fires, s.fire).toLowerCase(), onOpen: () => focus("often") },
      { title, detail, onOpen: () => focus("delivery") },
    ]} />
    {!Object.keys(faults).length && <Failure error={b.fault} />}
    <details ref={text} open={shown}><summary onClick={e => { e.preventDefault(); choose({ text: shown ? undefined : "yes" }); }}>As text</summary>
      {b.open > 0 && b.typed === undefined && <p class="hint">Boxes that are not finished have no text. What you type replaces them.</p>}
      <ExpressionField value={b.typed ?? h.text} onValue={b.type} error={inText} live={inText !== error} />
    </details>
  </Card>;
}

const hows: Record<How, string> = { draft: "Save as draft", start: "Start", save: "Save" };

/** toField moves the focus to a field, or to the kind of delivery if the field is not shown. */
function toField(name: string) { (document.getElementsByName(name)[0] ?? document.querySelector<HTMLElement>(name === "expr" ? "[data-at]" : "#builder-delivery select"))?.focus(); }

/** Rest has the settings, the delivery and the buttons that save. */
function Rest({ of: b, write, names, onTopic }: { of: State; write: boolean; names: EventName[]; onTopic: () => void }) {
  const { settings: s, action, id, checked: { faults, sure } } = b, why = useId(), reasons = reasonsOf(faults, s), boxes = b.typedFault || b.fault ? "The expression has an error." : b.open ? openWords(b.open) : "", old = b.base.trigger, paused = old?.status === "paused";
  const ways: How[] = !old || b.isDraft ? ["draft", "start"] : paused ? ["save", "start"] : ["save"];
  return <form onSubmit={e => b.submit(((e as SubmitEvent).submitter as HTMLButtonElement | null)?.value as How || ways[0]!)}>
    <div id="builder-often"><SettingsCard of={s} fixed={id !== undefined} draft={b.isDraft} faults={faults} onTopic={onTopic} onChange={b.change} /></div>
    <div id="builder-delivery"><DeliveryCard of={s.target} old={old?.deliver} faults={faults} placeholder={placeholderOf(b.answer?.expr, names)} onChange={c => b.change({ target: { ...s.target, ...c } })} /></div>
    {!b.asking && <Failure error={action.error} />}
    {write && (boxes || reasons.length > 0) && <Note><div id={why}>It cannot be saved yet:<ul>{boxes && <li>{boxes}</li>}{reasons.map(r => <li key={r.field}><button type="button" class="quiet" onClick={() => toField(r.field)}>{r.label}</button>: {r.text}</li>)}</ul></div></Note>}
    {write && <div class="actions">{ways.map((how, i) => <Button key={how} type="submit" value={how} kind={i === ways.length - 1 ? "primary" : undefined} busy={action.busy} disabled={!!boxes || sure && reasons.length > 0} aria-describedby={boxes || reasons.length ? why : undefined}>{how === "start" && !b.isDraft && old ? "Save and resume" : hows[how]}</Button>)}</div>}
  </form>;
}
