// The expression in words: its sentence, its warnings, and how two sentences differ.

import { Card } from "../../../lib/parts";
import { Warnings } from "../parts";
import type { Answer } from "./parse";

/** Sentence shows the sentence of an expression and its warnings. missing: why there is none. */
export function Sentence({ of: a, missing }: { of?: Answer; missing: string }) {
  return <Card title="In words">
    <div aria-live="polite">{a ? <>
      <p class="hint">Fires when this becomes true:</p>
      <p class="sentence"><bdi>{a.sentence}</bdi></p></> : <p>{missing}</p>}</div>
    {a && <Warnings of={a.warnings.map(w => w.message)} />}
  </Card>;
}

/** Differing shows two sentences in one, with the words that only one of them has. */
export function Differing({ before, after }: { before: string; after: string }) {
  const words = (s: string) => s.match(/\S+\s*/g) ?? [];
  return <p class="sentence">{differ(words(before), words(after)).map(([kind, text], i) =>
    kind < 0 ? <del key={i}><span class="unseen">removed: </span>{text}</del> : kind > 0 ? <ins key={i}><span class="unseen">added: </span>{text}</ins> : <span key={i}>{text}</span>)}</p>;
}

/** differ returns the words of a (-1), of b (1) and of both (0), by their longest common subsequence. */
export function differ(a: string[], b: string[]): [number, string][] {
  const width = b.length + 1, best = new Uint16Array((a.length + 1) * width), out: [number, string][] = [];
  for (let i = a.length - 1; i >= 0; i--) for (let j = b.length - 1; j >= 0; j--) {
    best[i * width + j] = a[i] === b[j] ? best[(i + 1) * width + j + 1]! + 1 : Math.max(best[(i + 1) * width + j]!, best[i * width + j + 1]!);
  }
  const add = (kind: number, text: string) => {
    const last = out.at(-1);
    if (last?.[0] === kind) last[1] += text;
    else out.push([kind, text]);
  };
  for (let i = 0, j = 0; i < a.length || j < b.length;) {
    if (i < a.length && a[i] === b[j]) { add(0, a[i++]!); j++; }
    else if (i < a.length && (j === b.length || best[(i + 1) * width + j]! >= best[i * width + j + 1]!)) add(-1, a[i++]!);
    else add(1, b[j++]!);
  }
  return out;
}
