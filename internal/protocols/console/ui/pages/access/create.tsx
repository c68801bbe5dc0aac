// A new token.

import { useState } from "preact/hooks";
import { call, now } from "../../lib/api";
import { pattern, patterns, tokenName } from "../../lib/check";
import { useAction } from "../../lib/load";
import { announce, Button, Card, Choice, Failure, Field, Page, Text } from "../../lib/parts";
import { to } from "../../lib/route";
import { mayChange } from "./index";
import { RuleFields } from "./fields";
import { type Created, Shown } from "./tokens";
import { deed, ruleKey, type Rule } from "./words";

/** scopes are the common sets of rights: their names, and what their patterns match. */
const scopes = [
  ["read", "Read topics", "topics"], ["write", "Write topics", "topics"], ["admin", "Create, change, trim and delete topics", "topics"],
  ["groups", "Use and delete consumer groups", "groups"], ["triggers", "Manage triggers", "triggers"],
  ["metrics", "See metrics and status", ""], ["cluster", "Manage tokens, rules and quotas", ""],
] as const;

const presets = [
  ["viewer", "Viewer: sees everything, changes nothing"], ["operator", "Operator: also writes, resets groups, manages triggers and topics"], ["", "Chosen rights"],
] as const;

const about: Record<string, string> = {
  viewer: "For a person who looks: topics, groups, triggers, firings and metrics. No tokens, rules and quotas.",
  operator: "For a person who runs what is on the broker. No tokens, rules and quotas.",
  "": "For a service: what it needs and no more.",
};

const ends = [["", "never"], ["7", "in 7 days"], ["30", "in 30 days"], ["90", "in 90 days"], ["365", "in a year"], ["at", "at a time"]] as const;

/** Create is the form of a new token. Its secret is shown once. */
export function Create() {
  const [made, setMade] = useState<Created>();
  return <Page title="Create a token" lead={<a href={to("access")}>All tokens</a>}>
    {made ? <Shown made={made}><p><a href={to("access", "tokens", made.id)}>Go to {made.id}</a></p></Shown>
      : mayChange() ? <Form onMade={setMade} /> : <p>This session has no right to create tokens.</p>}
  </Page>;
}

function Form({ onMade }: { onMade: (made: Created) => void }) {
  const [id, setId] = useState(""), [preset, setPreset] = useState(""), [end, setEnd] = useState(""), [time, setTime] = useState("");
  const [chosen, setChosen] = useState<Record<string, string | undefined>>({}), [rules, setRules] = useState<Rule[]>([]);
  const action = useAction();
  const create = () => action.run(async () => {
    const body: Record<string, unknown> = { id: id || undefined, preset: preset || undefined };
    if (end) body.expires_at = end === "at" ? new Date(time).toISOString() : new Date(now() + Number(end) * 86400e3).toISOString();
    if (!preset) {
      for (const [scope, , what] of scopes) {
        const patterns = chosen[scope];
        if (patterns !== undefined) body[scope] = what ? patterns.split(/[\s,]+/).filter(Boolean) : true;
      }
      if (rules.length) body.rules = rules.map(({ principal, ...r }) => r);
    }
    const token = await call<Created>("POST", "/tokens", { body });
    announce(`${token.id} is created`);
    onMade(token);
  });
  return <form onSubmit={create}>
    <Card title="Token">
      <div class="row">
        <Text label="Name" hint="a-z, digits, dot and hyphen; empty: the broker makes one." value={id} onValue={setId} check={tokenName} />
        <Choice label="Expires" value={end} onValue={setEnd} options={ends} />
        {end === "at" && <Field label="Time" render={a => <input type="datetime-local" required {...a} value={time} onInput={e => setTime(e.currentTarget.value)} />} />}
      </div>
    </Card>
    <Card title="Rights">
      <Choice label="Rights" hint={about[preset]} value={preset} onValue={setPreset} options={presets} />
      {!preset && <Scopes chosen={chosen} onChosen={setChosen} />}
      {!preset && <MoreRules rules={rules} onRules={setRules} />}
    </Card>
    <Failure error={action.error} />
    <div class="actions"><Button kind="primary" type="submit" busy={action.busy}>Create the token</Button><a href={to("access")}>Cancel</a></div>
  </form>;
}

function Scopes({ chosen, onChosen }: { chosen: Record<string, string | undefined>; onChosen: (c: Record<string, string | undefined>) => void }) {
  return <fieldset class="scopes"><legend>Scopes</legend>
    {scopes.map(([scope, label, what]) => <div class="row" key={scope}>
      <label><input type="checkbox" checked={chosen[scope] !== undefined} onChange={e => onChosen({ ...chosen, [scope]: e.currentTarget.checked ? "*" : undefined })} /> {label}</label>
      {what && chosen[scope] !== undefined && <Text label={`Patterns of ${what} (${scope})`} value={chosen[scope]!} check={v => patterns(v, what.slice(0, -1))} required onValue={v => onChosen({ ...chosen, [scope]: v })} />}
    </div>)}
    <small>A pattern is a name, the beginning of names and *, or * for all. Topics of Seb itself, such as firings, need their exact name.</small>
  </fieldset>;
}

function MoreRules({ rules, onRules }: { rules: Rule[]; onRules: (r: Rule[]) => void }) {
  const [rule, setRule] = useState<Rule>({ principal: "", resource: "topic", pattern: "", operation: "read" });
  return <details><summary>Rules in addition{rules.length > 0 && ` (${rules.length})`}</summary>
    {rules.length > 0 && <ul>{rules.map(r => <li key={ruleKey(r)}>{r.deny ? "must not" : "may"} <bdi>{deed(r)}</bdi>{" "}
      <Button kind="quiet" onClick={() => onRules(rules.filter(o => o !== r))}>Remove<span class="unseen"> {deed(r)}</span></Button></li>)}</ul>}
    <div class="row"><RuleFields rule={rule} onRule={setRule} />
      <div class="actions"><Button disabled={!rule.pattern || !!pattern(rule.pattern, rule.resource)} onClick={() => { onRules([...rules.filter(r => ruleKey(r) !== ruleKey(rule)), rule]); setRule({ ...rule, pattern: "" }); }}>Add this rule</Button></div></div>
  </details>;
}
