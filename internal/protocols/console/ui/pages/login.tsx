// The login: a key in, a session out.

import { useEffect, useState } from "preact/hooks";
import { Button, Failure, Field, Note } from "../lib/parts";
import { useAction } from "../lib/load";
import { login } from "../lib/session";

/** readable is whether others on the network can read what this page sends. */
function readable(): boolean {
  return location.protocol === "http:" && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(location.hostname);
}

/** Login asks for a key. why is the reason why the session before it ended, or "". */
export function Login({ why }: { why: string }) {
  const [key, setKey] = useState(""), action = useAction();
  useEffect(() => { document.title = "Log in · Seb"; }, []);
  const port = location.port || "80";
  return <main class="login">
    <h1>Seb</h1>
    {why && !action.error && <Note kind="warn">{why}</Note>}
    <form onSubmit={() => action.run(() => login(key.trim()))}>
      <input type="text" name="username" autocomplete="username" value="seb" hidden readOnly />
      <Field label="API key or token" hint={<>The root key is in the data folder: <code>cat seb-data/api-key</code>. A token comes from <code>seb token create</code>.</>}
        render={a => <input type="password" autocomplete="current-password" required autofocus {...a} value={key} onInput={e => setKey(e.currentTarget.value)} />} />
      {readable() && <Note kind="warn">This page came without TLS: the key crosses the network readable. Others between you and {location.hostname} can read and use it.
        Log in through <code>{`ssh -L ${port}:127.0.0.1:${port} ${location.hostname}`}</code>, or start the broker with <code>--tls-cert</code>.</Note>}
      <Failure error={action.error} />
      <Button type="submit" kind="primary" busy={action.busy} disabled={!key}>Log in</Button>
    </form>
    <p class="lead">The session lasts 12 hours in this browser. It ends at once if the token is revoked.</p>
  </main>;
}
