// The fields of an event that a person sends.

import { atMost } from "./check";
import { Field, Text } from "./parts";

/** Event is what is typed. data: a JSON object, or nothing. */
export interface Event { name: string; entity: string; data: string }

/** bodyOf is the event as POST /event takes it. The data stays as it was typed, so that no number changes. */
export function bodyOf({ name, entity, data }: Event): string {
  return `{"event":${JSON.stringify(name)},"entity_id":${JSON.stringify(entity)}${data.trim() && `,"data":${data.trim()}`}}`;
}

/** faultOf is why text is not JSON; undefined: it is, or there is none. An event wants an object. */
export function faultOf(text: string, object?: boolean): string | undefined {
  try {
    const value = text.trim() && JSON.parse(text);
    return object && value !== "" && (typeof value !== "object" || value === null || Array.isArray(value)) ? "Want a JSON object." : undefined;
  } catch (e) {
    return "This is not JSON: " + (e as Error).message;
  }
}

/** EventFields edits an event. at returns the broker's error at a member of the request. */
export function EventFields({ event: e, onChange, at, short }: { event: Event; onChange: (c: Partial<Event>) => void; at?: (member: string) => string | undefined; short?: boolean }) {
  return <>
    <div class="row">
      <Text wide label="Event" hint="What happened" check={atMost(256)} required value={e.name} onValue={name => onChange({ name })} error={at?.("event")} />
      <Text wide label="Entity" hint="Who or what it happened to" check={atMost(1024)} required value={e.entity} onValue={entity => onChange({ entity })} error={at?.("entity_id")} />
    </div>
    <Field label="Data" hint="Optional: a JSON object" error={faultOf(e.data, true) ?? at?.("data")} render={a =>
      <textarea {...a} class={short ? "short" : ""} spellcheck={false} value={e.data} onInput={i => onChange({ data: i.currentTarget.value })} />} />
  </>;
}
