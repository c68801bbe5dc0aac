// Parts of pages.

import type { ComponentChildren, JSX } from "preact";
import { State } from "./state";
import { useEffect, useId, useLayoutEffect, useRef, useState } from "preact/hooks";
import { now, type Problem } from "./api";
import { useAction, type Loaded } from "./load";
import { fromNow, localTime, utcTime } from "./format";
import { route, to } from "./route";

type Children = { children?: ComponentChildren };

/** announced is read out by screen readers. */
export const announced = new State("");

/** announce tells a person who cannot see the page what happened. */
export function announce(text: string) { announced.value = text; }

/** Page is the frame of a page: its title is the document's and the first heading. */
export function Page({ title, actions, lead, children }: Children & { title: string; actions?: ComponentChildren; lead?: ComponentChildren }) {
  useEffect(() => { document.title = `${title} · Seb`; }, [title]);
  return <>
    <header class="title"><h1><bdi>{title}</bdi></h1><div class="actions">{actions}</div></header>
    {lead && <p class="lead">{lead}</p>}
    {children}
  </>;
}

/** Card is a part of a page with a heading. */
export function Card({ title, actions, children, id }: Children & { title: string; actions?: ComponentChildren; id?: string }) {
  const own = useId();
  return <section class="card" aria-labelledby={id ?? own}>
    <header><h2 id={id ?? own}>{title}</h2><div class="actions">{actions}</div></header>
    {children}
  </section>;
}

/** Failure shows an error in the broker's words. */
export function Failure({ error, children }: Children & { error?: Problem }) {
  if (!error) return null;
  return <div class="failure" role="alert"><p>{error.message}</p>{children}</div>;
}

/** Note is a hint or warning inside a page. */
export function Note({ kind = "info", children }: Children & { kind?: "info" | "warn" | "good" }) { return <div class={"note " + kind}>{children}</div>; }

/** Empty says that there is nothing, and what to do. */
export function Empty({ children }: Children) { return <div class="empty">{children}</div>; }

/** Loading is shown while there is nothing else to show. */
export function Loading({ what = "Loading" }: { what?: string }) { return <p class="loading" role="status">{what} …</p>; }

/** Facts is a list of terms with their values. One that is undefined is left out. */
export function Facts({ facts }: { facts: readonly (readonly [term: string, value: ComponentChildren] | undefined | null | false | "" | 0)[] }) {
  return <dl class="facts">{facts.map(fact => !!fact && fact[1] !== undefined && <><dt>{fact[0]}</dt><dd>{fact[1]}</dd></>)}</dl>;
}

/** Listed joins parts of a sentence with commas. */
export function Listed({ of }: { of: readonly ComponentChildren[] }) { return <>{of.map((one, i) => <>{i > 0 && ", "}{one}</>)}</>; }

/** Got shows what was loaded: its error, and its data, which stays while it is loaded again. Before, it says what loads. */
export function Got<T>({ of, what, children }: { of: Loaded<T>; what?: string; children: (data: T) => ComponentChildren }) {
  return <><Failure error={of.error} />{of.data ? children(of.data) : !of.error && <Loading what={what} />}</>;
}

type ButtonProps = JSX.IntrinsicElements["button"] & { kind?: "primary" | "danger" | "quiet"; busy?: boolean };

/** Button is a button that can be busy. */
export function Button({ kind, busy, children, disabled, ...rest }: ButtonProps) {
  return <button type="button" class={kind ?? ""} disabled={disabled || busy} aria-busy={busy || undefined} {...rest}>{children}{busy && " …"}</button>;
}

/** Field is a labelled input. render gets the id and the description of the control. */
export function Field({ label, hint, error, render, wide }: {
  label: string; hint?: ComponentChildren; error?: string; wide?: boolean;
  render: (a: { id: string; "aria-describedby"?: string; "aria-invalid"?: true }) => ComponentChildren;
}) {
  const id = useId(), about = hint || error ? id + "-about" : undefined;
  return <div class={"field" + (wide ? " wide" : "")}>
    <label for={id}>{label}</label>
    {render({ id, "aria-describedby": about, ...(error ? { "aria-invalid": true as const } : {}) })}
    {about && <small id={about}>{error ? <span class="bad">{error}</span> : hint}</small>}
  </div>;
}

/** Text is a Field with a text input. check says what is wrong with a value as it is typed; until that is repaired, a form with the field cannot be sent. */
export function Text({ label, hint, error, value, onValue, wide, check, ...rest }: {
  label: string; hint?: ComponentChildren; error?: string; value: string; onValue: (v: string) => void; wide?: boolean; check?: (v: string) => string | undefined; name?: string;
  placeholder?: string; list?: string; required?: boolean; inputMode?: "numeric" | "decimal" | "text"; maxLength?: number; onKeyDown?: (e: KeyboardEvent) => void; onBlur?: () => void;
}) {
  const ref = useRef<HTMLInputElement>(null), fault = value ? check?.(value) : undefined;
  useLayoutEffect(() => ref.current!.setCustomValidity(fault ?? ""), [fault]);
  return <Field label={label} hint={hint} error={fault ?? error} wide={wide}
    render={a => <input type="text" ref={ref} autocomplete="off" spellcheck={false} {...a} {...rest} value={value} onInput={e => onValue(e.currentTarget.value)} />} />;
}

/** Choice is a Field with a select. options are values with their names. */
export function Choice({ label, hint, value, onValue, options }: {
  label: string; hint?: ComponentChildren; value: string; onValue: (v: string) => void; options: readonly (readonly [string, string])[];
}) {
  return <Field label={label} hint={hint} render={a =>
    <select {...a} value={value} onChange={e => onValue(e.currentTarget.value)}>{options.map(([v, name]) => <option value={v} key={v}>{name}</option>)}</select>} />;
}

/** local is a time as the value of a datetime-local input. */
function local(t: string): string {
  const d = new Date(t);
  return Number.isNaN(d.getTime()) ? "" : new Date(d.getTime() - d.getTimezoneOffset() * 60000).toISOString().slice(0, 19).replace(/:00$/, "");
}

/** Time is a Field with a time, entered in the person's time zone. The value is in RFC 3339, or "". */
export function Time({ label, hint = "In your time zone", error, value, onValue }: { label: string; hint?: ComponentChildren; error?: string; value: string; onValue: (v: string) => void }) {
  return <Field label={label} hint={hint} error={error} render={a => <input type="datetime-local" step="1" {...a} value={local(value)}
    onInput={e => onValue(e.currentTarget.value && new Date(e.currentTarget.value).toISOString())} />} />;
}

/** Column of a Table. num aligns numbers; a cell of `line` is one line, cut to the width of this class. */
export interface Column<T> { name: string; cell: (row: T) => ComponentChildren; num?: boolean; wide?: boolean; line?: string }

/** Table shows rows; of long lists the `first`, and more on demand. Without rows it is what `empty` says, if that is given. */
export function Table<T>({ caption, rows, columns, keyOf, selected, empty, first = 200 }: {
  caption: string; rows: readonly T[]; columns: readonly Column<T>[]; keyOf: (row: T) => string; selected?: (row: T) => boolean; empty?: ComponentChildren; first?: number;
}) {
  const [shown, show] = useState(first);
  if (!rows.length && empty) return <Empty>{empty}</Empty>;
  return <div class="scroll" role="region" aria-label={`Table: ${caption}`} tabIndex={0}>
    <table>
      <caption class="unseen">{caption}</caption>
      <thead><tr>{columns.map(c => <th scope="col" class={c.num ? "num" : ""} key={c.name}>{c.name}</th>)}</tr></thead>
      <tbody>{rows.slice(0, shown).map(row => <tr key={keyOf(row)} class={selected?.(row) ? "selected" : ""}>
        {columns.map(c => <td class={(c.num ? "num" : "") + (c.wide ? " wide" : "") + (c.line ? " line " + c.line : "")} key={c.name}>{c.cell(row)}</td>)}
      </tr>)}</tbody>
    </table>
    {rows.length > shown && <p class="more">{shown} of {rows.length} shown. <Button onClick={() => show(shown + 1000)}>Show more</Button></p>}
  </div>;
}

/** When shows a time of the log: local, with UTC as the tooltip. */
export function When({ t, none = "–" }: { t?: string | number | null; none?: string }) {
  return t || t === 0 ? <time dateTime={utcTime(t)} title={utcTime(t) + " (UTC)"}>{localTime(t)}</time> : <>{none}</>;
}

/** Ago shows how long ago a time was or will be, with the time as the tooltip. */
export function Ago({ t, none = "–" }: { t?: string | null; none?: string }) {
  return t ? <time dateTime={t} title={`${localTime(t)} (${utcTime(t)})`}>{fromNow(t, now())}</time> : <>{none}</>;
}

/** copy puts text into the clipboard. Browsers have no clipboard API over plain HTTP under a name. */
async function copy(text: string) {
  if (navigator.clipboard) return navigator.clipboard.writeText(text);
  const area = document.createElement("textarea"), before = document.activeElement as HTMLElement | null;
  area.value = text;
  document.body.append(area);
  area.select();
  document.execCommand("copy");
  area.remove();
  before?.focus();
}

/** CopyButton copies text. */
export function CopyButton({ text, children }: Children & { text: () => string }) {
  const [done, set] = useState(false);
  return <Button kind="quiet" onClick={async () => { await copy(text()); set(true); announce("Copied"); setTimeout(() => set(false), 2000); }}>{done ? "Copied" : children}</Button>;
}

/** Copied is a block of text for a terminal, with a button that copies it. */
export function Copied({ text, label }: { text: string; label: string }) {
  return <div class="copied"><pre tabIndex={0} role="region" aria-label={label}><code>{text}</code></pre>
    <CopyButton text={() => text}>Copy</CopyButton>
  </div>;
}

/** Chip is a short state in words. */
export function Chip({ kind = "", children }: Children & { kind?: "" | "good" | "warn" | "bad" }) { return <span class={"chip " + kind}>{children}</span>; }

/** Tabs are links to parts of a page. here is the present part, if its address is another than the page's. */
export function Tabs({ label, tabs, here = to(...route.value.path) }: { label: string; tabs: readonly (readonly [href: string, name: string])[]; here?: string }) {
  return <nav class="tabs" aria-label={label}>{tabs.map(([href, name]) =>
    <a href={href} key={href} aria-current={href.split("?")[0] === here ? "page" : undefined}>{name}</a>)}</nav>;
}

/**
 * Dialog is a modal window: the focus stays inside and returns to where it was; Escape closes it. back
 * selects what gets the focus if none had it, such as a button that was busy.
 */
export function Dialog({ title, onClose, back, children }: Children & { title: string; onClose: () => void; back?: string }) {
  const ref = useRef<HTMLDialogElement>(null), id = useId();
  useLayoutEffect(() => {
    const before = document.activeElement as HTMLElement | null;
    const dialog = ref.current!;
    dialog.showModal();
    return () => {
      dialog.close(); // the rest of the page takes no focus before
      (before === document.body && back ? document.querySelector<HTMLElement>(back) : before)?.focus();
    };
  }, []);
  // The dialog ends in one way, and a layout effect ends at once: it never is closed without the focus being back.
  return <dialog ref={ref} aria-labelledby={id} onCancel={e => { e.preventDefault(); onClose(); }}>
    <h2 id={id}>{title}</h2>{children}
  </dialog>;
}

/** Confirm asks before something is done that cannot be undone. With `typed` a person must type that text. */
export function Confirm({ title, action, danger, typed, busy, error, onConfirm, onClose, back, children }: Children & {
  title: string; action: string; back?: string; danger?: boolean; typed?: string; busy?: boolean; error?: Problem; onConfirm: () => void; onClose: () => void;
}) {
  const [text, set] = useState("");
  return <Dialog title={title} onClose={onClose} back={back}>
    <form onSubmit={onConfirm}>
      {children}
      {typed !== undefined && <Text label={`Type ${typed} to confirm`} value={text} onValue={set} />}
      <Failure error={error} />
      <div class="actions"><Button kind={danger ? "danger" : "primary"} type="submit" busy={busy} disabled={typed !== undefined && text !== typed}>{action}</Button>
        <Button onClick={onClose}>Cancel</Button></div>
    </form>
  </Dialog>;
}

type ActProps = Children & {
  title: string; action: string; danger?: boolean; typed?: string; act: () => Promise<unknown>; said: string; onDone?: () => void;
};

/** Act is a Confirm that acts itself. Then it closes, announces what is `said`, and calls onDone. */
export function Act({ act, said, onDone, onClose, ...dialog }: ActProps & { onClose: () => void }) {
  const { run, busy, error } = useAction();
  const confirm = async () => {
    if (!await run(act)) return;
    onClose();
    announce(said);
    onDone?.();
  };
  return <Confirm {...dialog} busy={busy} error={error} onConfirm={confirm} onClose={onClose} />;
}

/** ActButton is a button that opens an Act. */
export function ActButton({ button, ...act }: ActProps & { button: string }) {
  const [asked, ask] = useState(false);
  return <><Button kind={act.typed !== undefined ? "danger" : undefined} onClick={() => ask(true)}>{button}</Button>
    {asked && <Act {...act} onClose={() => ask(false)} />}</>;
}
