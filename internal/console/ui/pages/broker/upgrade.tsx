// The format level of the bucket.

import { useState } from "preact/hooks";
import { call } from "../../lib/api";
import { useAction, useGet } from "../../lib/load";
import { announce, Button, Card, Confirm, Facts, Got, When } from "../../lib/parts";
import { may } from "../../lib/session";

interface Level { level: number; highest_level: number; raise_at?: string }

export function Upgrade() {
  const level = useGet<Level>("/upgrade", {}, 30_000), l = level.data;
  const older = l && l.level < l.highest_level;
  return <Card title="Format of the bucket" actions={older && may("alter", "cluster") && <Raise level={l} onDone={level.reload} />}>
    <Got of={level}>{l => <>
      <Facts facts={[["Level", `${l.level} of ${l.highest_level}`], ["Raised", older ? l.raise_at ? <>by the first write after <When t={l.raise_at} /></> : "not by itself" : undefined]]} />
      <p class="hint">{older ? "Until then an older version of Seb can lead this bucket again." : "This is the highest level that this version knows. Older versions that do not know it refuse the bucket."}</p>
    </>}</Got>
  </Card>;
}

function Raise({ level, onDone }: { level: Level; onDone: () => void }) {
  const [asked, ask] = useState(false), action = useAction();
  const raise = async () => {
    const done = await action.run(async () => { await call("POST", "/upgrade"); });
    if (!done) return;
    ask(false);
    announce(`The bucket has format level ${level.highest_level}`);
    onDone();
  };
  return <><Button onClick={() => ask(true)}>Raise to {level.highest_level}</Button>
    {asked && <Confirm title={`Raise the bucket to level ${level.highest_level}?`} action="Raise" danger busy={action.busy} error={action.error} onConfirm={raise} onClose={() => { ask(false); action.clear(); }}>
      <p>Versions of Seb that do not know level {level.highest_level} then refuse the bucket. This cannot be undone.</p>
    </Confirm>}
  </>;
}
