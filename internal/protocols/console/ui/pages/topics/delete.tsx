// The button that deletes a topic.

import { useState } from "preact/hooks";
import { call } from "../../lib/api";
import { useAction } from "../../lib/load";
import { announce, Button, Confirm } from "../../lib/parts";
import { go, to } from "../../lib/route";

export function DeleteTopic({ topic }: { topic: string }) {
  const [asked, ask] = useState(false), [force, setForce] = useState(false), action = useAction();
  const used = action.error?.code === "topic_in_use";
  const remove = async () => {
    const done = await action.run(async () => { await call("DELETE", "/topic", { query: { "topic-name": topic, force: force || undefined } }); });
    if (!done) return;
    ask(false);
    announce(`Topic ${topic} deleted`);
    go(to("topics"));
  };
  return <><Button kind="danger" onClick={() => ask(true)}>Delete</Button>
    {asked && <Confirm title={`Delete the topic ${topic}?`} action="Delete the topic" danger typed={topic} busy={action.busy} error={action.error} onConfirm={remove}
      onClose={() => { ask(false); setForce(false); action.clear(); }}>
      <p>Deletes the topic with all its records and the offsets of groups in it, permanently.</p>
      {(used || force) && <label><input type="checkbox" checked={force} onChange={e => setForce(e.currentTarget.checked)} /> Delete it although triggers use it</label>}
    </Confirm>}
  </>;
}
