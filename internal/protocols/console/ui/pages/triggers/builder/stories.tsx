// Stories: short histories that show what the expression means.

import { useRef } from "preact/hooks";
import { call, stringify } from "../../../lib/api";
import { useLoad } from "../../../lib/load";
import { Card, Chip, Failure } from "../../../lib/parts";
import type { Tree } from "./tree";

interface Story { outcome: "fires" | "does_not_fire" | "pending"; text: string; differs_from?: number; difference?: string }
interface Found { stories: Story[]; note?: string; truncated?: boolean }

const outcomes = { fires: ["good", "fires"], does_not_fire: ["", "does not fire"], pending: ["warn", "not yet"] } as const;

/** shown is how many stories are shown at first. */
const shown = 6;

/** Stories shows those of an expression. */
export function Stories({ of }: { of: Tree }) {
  const found = useLoad(signal => call<Found>("POST", "/drip/stories", { body: { expr: of }, signal }), [stringify(of)]), last = useRef<Found | undefined>(undefined);
  last.current = found.data ?? last.current; // until those of an edit are there
  const { stories: all, note, truncated } = last.current ?? { stories: [] };
  return <Card title="For example, one entity">
    <Failure error={found.error} />
    <List all={all.slice(0, shown)} from={1} />
    {all.length > shown && <details><summary>{all.length - shown} more</summary><List all={all.slice(shown)} from={shown + 1} /></details>}
    {note && <p>{note}</p>}
    {truncated && <p class="hint">There may be more.</p>}
  </Card>;
}

function List({ all, from }: { all: Story[]; from: number }) {
  return <ol class="stories" start={from}>{all.map(s => <li key={s.text}><Chip kind={outcomes[s.outcome][0]}>{outcomes[s.outcome][1]}</Chip> <bdi>{s.text}</bdi>
    {s.difference && <small> Compared with {s.differs_from! + 1}: <bdi>{s.difference}</bdi></small>}</li>)}</ol>;
}
