// Why a trigger fired for an entity, or did not, from the events of the entity in the log.

import { useEffect, useRef } from "preact/hooks";
import { at } from "../../lib/api";
import { count, plural } from "../../lib/format";
import { useGet, type Loaded } from "../../lib/load";
import { announce, Listed } from "../../lib/parts";
import { to } from "../../lib/route";
import { may } from "../../lib/session";
import { Steps } from "./parts";
import type { Explanation } from "./types";

/** useExplanation asks once, not again and again: the broker reads up to 10,000 events for the answer. Without a trigger it asks nothing. */
export function useExplanation(id: string | undefined, entity: string): Loaded<Explanation> { return useGet(!!id && at`/triggers/${id}/entities/${entity}`); }

/** NeedsIndex says how the events of an entity of the topic can be found. */
export function NeedsIndex({ topic }: { topic: string }) {
  return <p>{!may("alter-configs", "topic") ? "A person who may change the settings of the topic can switch the index on." : <><a href={to("topics", topic, "keys")}>Keys of <bdi>{topic}</bdi></a> has a switch for the index.</>}</p>;
}

/** Why shows the sentence and the steps of an explanation. topic has the events. */
export function Why({ of, topic = "" }: { of: Explanation; topic?: string }) {
  const h = of.history, ref = useRef<HTMLDivElement>(null);
  useEffect(() => {
    announce(of.why);
    ref.current!.scrollIntoView({ block: "nearest" });
  }, [of.why]);
  return <div ref={ref}>
    <p class="sentence"><bdi>{of.why}</bdi></p>
    {h.unread === "key_index_off" && <NeedsIndex topic={topic} />}
    {h.more > 0 && <p class="more">{plural(h.more, "older step")} not shown.</p>}
    {h.steps.length > 0 && <Steps caption="What each event did" rows={h.steps.map(s => ({
      ...s, name: s.event && <a href={to("topics", topic, "records", { open: `${h.partition}:${s.offset}` })}><bdi>{s.event}</bdi></a>,
    }))} />}
    {h.others.length > 0 && <p class="more">Events that the expression does not mention: <Listed of={h.others.map(o => <><bdi>{o.event}</bdi> ({count(o.count)})</>)} /></p>}
    {h.elsewhere && <p class="more">Its events in another partition count by themselves.</p>}
  </div>;
}
