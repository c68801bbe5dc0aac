// What needs attention: sentences, each with the page that helps.

import { bytes, count, plural, seconds } from "../../lib/format";
import { Card } from "../../lib/parts";
import { to } from "../../lib/route";
import type { Group, Status, Trigger } from "../../lib/status";

/** Item is a sentence with the address and name of a page. */
interface Item { text: string; href: string; link: string }

/** A group without members that is farBehind records behind, and has not committed for silentMs, is reported. */
export const farBehind = 1000;
const silentMs = 10 * 60_000;

/** helper is the page that helps with a warning of the broker. */
function helper(warning: string): Pick<Item, "href" | "link"> {
  if (/^the transaction/.test(warning)) return { href: to("groups"), link: "Transactions" };
  return /trigger|deliver/i.test(warning) ? { href: to("triggers"), link: "Triggers" } : { href: to("broker"), link: "Broker" };
}

function ofStatus(s: Status): Item[] {
  const all = (s.warnings ?? []).map(text => ({ text: sentence(text), ...helper(text) }));
  if (!s.ready) all.unshift({ text: `The broker is not ready: ${s.reason ?? s.role}.`, href: to("broker"), link: "Broker" });
  const { state_bytes: used, state_max_bytes: most } = s.memory;
  if (used > 0.9 * most && used < most) { // beyond it the broker warns
    all.push({ text: `Topics, groups and triggers use ${bytes(used)} of the ${bytes(most)} that they may use; raise --memory-limit.`, href: to("broker"), link: "Broker" });
  }
  if (s.letters) all.push({ text: `Queue ${s.letters.queue} has ${plural(s.letters.messages, "message")} that failed too often.`, href: to("queues", s.letters.queue, "messages"), link: "Dead letters" });
  return all;
}

/** sentence makes a warning a sentence. */
function sentence(text: string): string { return text.charAt(0).toUpperCase() + text.slice(1) + (/[.!?]$/.test(text) ? "" : "."); }

function ofGroups(groups: readonly Group[], at: number): Item[] {
  return groups.filter(g => Number(g.lag) >= farBehind && !g.members?.length && g.offsets.every(o => at - Date.parse(o.committed_at) > silentMs)).map(g => {
    const last = Math.max(...g.offsets.map(o => Date.parse(o.committed_at)));
    return { text: `Group ${g.group} is ${plural(g.lag, "record")} behind and has no member. Its last commit was ${seconds((at - last) / 1000)} ago.`, href: to("groups", g.group), link: "Group" };
  });
}

/** dead is the number of firings whose delivery was given up. */
export function dead(triggers: readonly Trigger[]): number { return triggers.reduce((n, t) => n + (t.firings?.states.dead ?? 0), 0); }

function ofTriggers(triggers: readonly Trigger[]): Item[] {
  return triggers.flatMap(t => {
    const n = t.firings?.states.dead ?? 0;
    return [
      ...t.blocked ? [{ text: `Deliveries of trigger ${t.id} wait: ${t.blocked}.`, href: to("triggers", t.id), link: "Trigger" }] : [],
      ...n ? [{ text: `Trigger ${t.id}: ${plural(n, "delivery was", "deliveries were")} given up.`, href: to("firings", { trigger: t.id, state: "dead" }), link: "Firings" }] : [],
    ];
  });
}

/** shown bounds the sentences. */
const shown = 20;

export function Attention({ status, groups, triggers }: { status: Status; groups?: { groups: Group[]; at: number }; triggers?: Trigger[] }) {
  const all = [...ofStatus(status), ...ofTriggers(triggers ?? []), ...groups ? ofGroups(groups.groups, groups.at) : []];
  return <Card title="Needs attention">
    {!all.length ? <p>Nothing.</p> : <ul class="attention">{all.slice(0, shown).map(i => <li key={i.text}><bdi>{i.text}</bdi> <a href={i.href}>{i.link}</a></li>)}</ul>}
    {all.length > shown && <p>And {count(all.length - shown)} more.</p>}
  </Card>;
}
