// What a new trigger can start from.

import { Card } from "../../../lib/parts";
import { hole as a, type Tree } from "./tree";

/** templates are expressions with events that are still to be chosen, and how they fire. */
const templates: readonly { name: string; like: string; tree: Tree; fire: string }[] = [
  { name: "Someone did A but not B in time", like: "signed up, and no project in 7 days", fire: "once", tree: { then: [a, { not: { within: a, for: "7d" } }] } },
  { name: "Someone did A, then B", like: "put something into the cart, then paid within a day", fire: "once", tree: { then: [a, { within: a, for: "1d" }] } },
  { name: "Someone did A several times", like: "3 failed payments", fire: "once", tree: { count: a, is: ">=", n: 3 } },
  { name: "Something came back", like: "no login for 30 days, and then a login", fire: "reset", tree: { then: [a, { not: { within: a, for: "30d" } }, a] } },
  { name: "Each time A happens", like: "each order", fire: "reset", tree: a },
  { name: "Empty", like: "one box", fire: "once", tree: a },
];

/** Templates lets a person choose one of them, or the text. */
export function Templates({ onChoose, onText }: { onChoose: (tree: Tree, fire: string) => void; onText: () => void }) {
  return <Card title="Start from">
    <ul class="templates">{templates.map(t => <li key={t.name}><button type="button" onClick={() => onChoose(t.tree, t.fire)}><b>{t.name}</b><span>{t.like}</span></button></li>)}</ul>
    <p>Or <button type="button" class="quiet" onClick={onText}>write it as text</button></p>
  </Card>;
}
