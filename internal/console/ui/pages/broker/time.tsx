// Log time: the time of commits, which never goes back.

import { useState } from "preact/hooks";
import { call } from "../../lib/api";
import { seconds } from "../../lib/format";
import { useAction, useLoad } from "../../lib/load";
import { announce, Button, Card, Confirm, Failure, Loading, Note, When } from "../../lib/parts";
import { may, session } from "../../lib/session";
import { Facts } from ".";

interface Time { last?: string; now: string; error?: string }

export function LogTime() {
  const time = useLoad(signal => call<Time>("GET", "/time", { signal }), [], 5000), t = time.data;
  return <Card title="Log time" actions={t?.error && may("alter", "cluster") && !session.value?.read_only && <Reset onDone={time.reload} />}>
    <Failure error={time.error} />
    {!t ? !time.error && <Loading /> : <>
      {t.error && <Note kind="warn">{t.error}</Note>}
      <Facts facts={[["Last commit", <When t={t.last} />], ["Next commit", <When t={t.now} />], ["This browser", <Clock now={t.now} />]]} />
    </>}
  </Card>;
}

/** Clock compares the clock of the browser with that of the broker. */
function Clock({ now }: { now: string }) {
  const off = (Date.now() - Date.parse(now)) / 1000;
  return Math.abs(off) < 5 ? <>has the same time</> : <>is {seconds(Math.abs(off))} {off > 0 ? "ahead" : "behind"}; the pages show the times of the log</>;
}

function Reset({ onDone }: { onDone: () => void }) {
  const [asked, ask] = useState(false), action = useAction();
  const reset = async () => {
    const done = await action.run(async () => { await call("POST", "/time/reset"); });
    if (!done) return;
    ask(false);
    announce("Log time is the machine's clock");
    onDone();
  };
  return <><Button onClick={() => ask(true)}>Reset</Button>
    {asked && <Confirm title="Reset log time?" action="Reset" danger busy={action.busy} error={action.error} onConfirm={reset} onClose={() => { ask(false); action.clear(); }}>
      <p>Sets log time back to the machine's clock. Do this after a wrong clock has put it into the future: triggers then see times again that they have seen.</p>
    </Confirm>}
  </>;
}
