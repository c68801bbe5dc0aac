// The rules of access.

import { useState } from "preact/hooks";
import { call } from "../../lib/api";
import { principal as principalName } from "../../lib/check";
import { List, useList, type Paged } from "../../lib/list";
import { useAction } from "../../lib/load";
import { Act, announce, Button, Card, Chip, Choice, Failure, Note, Table, Text } from "../../lib/parts";
import { choose, route } from "../../lib/route";
import { mayChange } from "./index";
import { RuleFields } from "./fields";
import { operationsOf, ruleKey, type Rule, sentence } from "./words";

/** Rules lists rules, and adds and removes them. */
export function Rules() {
  const [gone, setGone] = useState<Rule>();
  const { resource = "", effect = "" } = route.value.query;
  const list = useList<Paged<"rules", Rule>>("/acls", { resource, deny: effect && effect === "deny" }, 30_000);
  return <>
    {mayChange() && <AddRule onAdded={list.reload} />}
    <Card title="Rules">
      <List of={list} rows={list.data?.rules} label="Principal or pattern contains" noun="rule" choices={<>
        <Choice label="Resource" value={resource} onValue={v => choose({ resource: v, after: undefined })} options={[["", "all"], ...Object.keys(operationsOf).map(r => [r, r] as const)]} />
        <Choice label="Effect" value={effect} onValue={v => choose({ effect: v, after: undefined })} options={[["", "all"], ["allow", "may"], ["deny", "must not"]]} />
      </>} none={resource || effect ? "No rule matches the filters." : "There are no rules: only the root key has rights."}>{rows => <>
        <p class="more">A denial overrides every permission.</p>
        <Table caption="Rules" rows={rows} keyOf={ruleKey} columns={[
          { name: "Rule", wide: true, cell: r => <>{r.deny && <><Chip kind="bad">denial</Chip> </>}<bdi>{sentence(r)}</bdi></> },
          { name: "Resource", cell: r => r.resource },
          { name: "Operation", cell: r => r.operation },
          ...(mayChange() ? [{ name: "Action", cell: (r: Rule) => <Button kind="quiet" onClick={() => setGone(r)}>Remove<span class="unseen"> the rule: {sentence(r)}</span></Button> }] : []),
        ]} />
      </>}</List>
    </Card>
    {gone && <RemoveRule rule={gone} onClose={() => setGone(undefined)} onRemoved={list.reload} />}
  </>;
}

function AddRule({ onAdded }: { onAdded: () => void }) {
  const [rule, setRule] = useState<Rule>({ principal: route.value.query.principal ?? "", resource: "topic", pattern: "", operation: "read" }), action = useAction();
  const add = () => action.run(async () => {
    await call("POST", "/acls", { body: { rules: [rule] } });
    announce(`Added: ${sentence(rule)}`);
    setRule({ ...rule, pattern: "" });
    onAdded();
  });
  return <Card title="Add a rule">
    <form onSubmit={add}>
      <div class="row">
        <Text label="Principal" hint="A token or user; * for everyone." value={rule.principal} onValue={principal => setRule({ ...rule, principal })} check={principalName} required />
        <RuleFields rule={rule} onRule={setRule} required />
        <div class="actions"><Button kind="primary" type="submit" busy={action.busy}>Add</Button></div>
      </div>
      {rule.principal && rule.pattern && <p class="more"><bdi>{sentence(rule)}</bdi></p>}
      <Failure error={action.error} />
    </form>
  </Card>;
}

function RemoveRule({ rule: r, onClose, onRemoved }: { rule: Rule; onClose: () => void; onRemoved: () => void }) {
  const remove = () => call("DELETE", "/acls", { query: { principal: r.principal, resource: r.resource, pattern: r.pattern, operation: r.operation, deny: !!r.deny, host: r.host ?? "*" } });
  return <Act title="Remove a rule" action="Remove" danger act={remove} said={`Removed: ${sentence(r)}`} onDone={onRemoved} onClose={onClose}>
    <p><bdi>{sentence(r)}</bdi></p>
    {r.deny ? <Note kind="warn">Without the denial, permissions that it overrides have effect.</Note> : <p>The change acts at once, also on open connections.</p>}
  </Act>;
}
