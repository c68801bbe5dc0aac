// The format level of the bucket.

import { call } from "../../lib/api";
import { useGet } from "../../lib/load";
import { ActButton, Card, Facts, Got, When } from "../../lib/parts";
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

function Raise({ level: { highest_level: level }, onDone }: { level: Level; onDone: () => void }) {
  return <ActButton button={`Raise to ${level}`} title={`Raise the bucket to level ${level}?`} action="Raise" danger act={() => call("POST", "/upgrade")} said={`The bucket has format level ${level}`} onDone={onDone}>
    <p>Versions of Seb that do not know level {level} then refuse the bucket. This cannot be undone.</p>
  </ActButton>;
}
