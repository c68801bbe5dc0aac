// The fields of a rule.

import { address, pattern } from "../../lib/check";
import { Choice, Text } from "../../lib/parts";
import { only, operationsOf, type Rule, verb } from "./words";

/** RuleFields edits what a rule is about, without its principal. */
export function RuleFields({ rule, onRule, required }: { rule: Rule; onRule: (r: Rule) => void; required?: boolean }) {
  const change = (c: Partial<Rule>) => onRule({ ...rule, ...c });
  const resource = (r: string) => change({ resource: r, pattern: only[r] ?? (only[rule.resource] ? "" : rule.pattern), operation: operationsOf[r]!.includes(rule.operation) ? rule.operation : operationsOf[r]![0] });
  return <>
    <Choice label="Effect" value={rule.deny ? "deny" : ""} onValue={v => change({ deny: !!v })} options={[["", "may"], ["deny", "must not"]]} />
    <Choice label="Operation" value={rule.operation} onValue={operation => change({ operation })} options={operationsOf[rule.resource]!.map(o => [o, verb(o) === o ? o : `${o}: ${verb(o)}`])} />
    <Choice label="Resource" value={rule.resource} onValue={resource} options={Object.keys(operationsOf).map(r => [r, r])} />
    {!only[rule.resource] && <Text label="Pattern" hint="A name; its beginning and *; or * for all." value={rule.pattern} onValue={pattern => change({ pattern })} check={v => pattern(v, rule.resource)} required={required} />}
    <Text label="Only from" hint="An IP address; empty: all." value={rule.host ?? ""} onValue={host => change({ host: host || undefined })} check={address} />
  </>;
}
