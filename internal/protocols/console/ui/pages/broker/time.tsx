// Log time: the time of commits, which never goes back.

import { call } from "../../lib/api";
import { seconds } from "../../lib/format";
import { useGet } from "../../lib/load";
import { ActButton, Card, Facts, Got, Note, When } from "../../lib/parts";
import { may } from "../../lib/session";

interface Time { last?: string; now: string; error?: string }

export function LogTime() {
  const time = useGet<Time>("/time", {}, 5000), t = time.data;
  return <Card title="Log time" actions={t?.error && may("alter", "cluster") && <Reset onDone={time.reload} />}>
    <Got of={time}>{t => <>
      {t.error && <Note kind="warn">{t.error}</Note>}
      <Facts facts={[["Last commit", <When t={t.last} />], ["Next commit", <When t={t.now} />], ["This browser", <Clock now={t.now} />]]} />
    </>}</Got>
  </Card>;
}

/** Clock compares the clock of the browser with that of the broker. */
function Clock({ now }: { now: string }) {
  const off = (Date.now() - Date.parse(now)) / 1000;
  return Math.abs(off) < 5 ? <>has the same time</> : <>is {seconds(Math.abs(off))} {off > 0 ? "ahead" : "behind"}; the pages show the times of the log</>;
}

function Reset({ onDone }: { onDone: () => void }) {
  return <ActButton button="Reset" title="Reset log time?" action="Reset" danger act={() => call("POST", "/time/reset")} said="Log time is the machine's clock" onDone={onDone}>
    <p>Sets log time back to the machine's clock. Do this after a wrong clock has put it into the future: triggers then see times again that they have seen.</p>
  </ActButton>;
}
