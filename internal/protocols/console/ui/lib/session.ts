// The login of this page.

import { State } from "./state";
import { call, ended, hasSession, keepSession, Problem } from "./api";

/** Session is who the page acts for. `may` lists operations by the type of resource. */
export interface Session { principal: string; session?: string; expires?: string; may: Record<string, string[]>; events_topic: string; audit_topic?: string; read_only?: boolean }

/** session is the present one; null: the login is shown; undefined: not known yet. */
export const session = new State<Session | null | undefined>(undefined);

/** may reports whether the client may perform an operation on some resource of a type. A read-only broker changes nothing. */
export function may(operation: string, resource: string): boolean {
  if (session.value?.read_only && !/^(read|describe)/.test(operation)) return false;
  return session.value?.may[resource]?.includes(operation) ?? false;
}

/** manages reports whether the client can act on what only the operator of the broker can change, such as its flags. */
export function manages(): boolean { return may("alter", "cluster"); }

ended.onChange = why => { if (why && session.value) session.value = null; };

/** resume looks for a session that the browser has. It tries again while the broker does not answer. */
export async function resume() {
  if (!hasSession() && location.protocol === "http:") { // with TLS a certificate may be enough
    session.value = null;
    return;
  }
  for (;;) {
    try {
      session.value = await call<Session>("GET", "/console/session");
      return;
    } catch (e) {
      if (!(e instanceof Problem) || e.status !== 0) {
        ended.value = "";
        session.value = null;
        return;
      }
    }
    await new Promise(done => setTimeout(done, 2000));
  }
}

/** login exchanges a key for a session. Errors: Problem. */
export async function login(key: string) {
  const s = await call<Session>("POST", "/console/login", { headers: { Authorization: "Bearer " + key } });
  keepSession(s.session!);
  ended.value = "";
  session.value = s;
}

/** logout ends the session in this browser. */
export async function logout() {
  try { await call("POST", "/console/logout"); } catch { /* the page's half is forgotten in any case */ }
  keepSession("");
  ended.value = "";
  session.value = null;
}
