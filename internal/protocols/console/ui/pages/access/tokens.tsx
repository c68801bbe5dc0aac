// The list of tokens, and one of them.

import { useState } from "preact/hooks";
import { at, call, now } from "../../lib/api";
import { fromNow } from "../../lib/format";
import { List, useList, type Paged } from "../../lib/list";
import { useGet } from "../../lib/load";
import { Act, Ago, Button, Card, Chip, Choice, Copied, Facts, Got, Note, Page, Table, When } from "../../lib/parts";
import { go, to } from "../../lib/route";
import { may, session } from "../../lib/session";
import { mayChange } from "./index";
import { deed, ruleKey, summary, type Rule } from "./words";

/** Secret is one valid secret of a token (api.TokenSecret). */
interface Secret { kind: string; created_at: string; expires_at?: string; last_used_at?: string }

/** Token is a token or a user with a password (api.Token). */
export interface Token { id: string; issuer: string; created_at: string; expires_at?: string; last_used_at?: string; secrets: Secret[]; rules: Rule[] }

/** Created is the answer to a new or rotated token (api.TokenCreated). */
export interface Created extends Token { token: string; hint?: string }

/** soon is how long before the end of a token the page warns. */
const soon = 7 * 86400e3;

/** State says in words how long a token is valid. */
function State({ t }: { t: Token }) {
  const left = t.expires_at ? Date.parse(t.expires_at) - now() : Infinity;
  if (left <= 0) return <Chip kind="bad">expired {fromNow(t.expires_at!, now())}</Chip>;
  return <>
    <Chip kind={left < soon ? "warn" : "good"}>{left < Infinity ? `expires ${fromNow(t.expires_at!, now())}` : "valid"}</Chip>
    {t.secrets.filter(s => s.kind === "token").length > 1 && <> <Chip kind="warn">two secrets</Chip></>}
    {t.secrets.some(s => s.kind === "password") && <> <Chip>has a password</Chip></>}
  </>;
}

/** isOwn reports whether a token is that of this session. */
function isOwn(id: string): boolean { return id === session.value!.principal; }

/** Tokens lists the tokens that the session may see. */
export function Tokens() {
  const list = useList<Paged<"tokens", Token>>("/tokens", {}, 30_000);
  return <Card title="Tokens and users" actions={mayChange() && <a class="button" href={to("access", "new")}>Create a token</a>}>
    <List of={list} rows={list.data?.tokens} label="Name contains" noun="token" none={<NoTokens />}>{rows =>
      <Table caption="Tokens and users" rows={rows} keyOf={t => t.id} columns={[
        { name: "Name", wide: true, cell: t => <><a href={to("access", "tokens", t.id)}><bdi>{t.id}</bdi></a>{isOwn(t.id) && <> <Chip>this session</Chip></>}</> },
        { name: "May", wide: true, cell: t => <bdi>{summary(t.rules, session.value!.events_topic)}</bdi> },
        { name: "State", cell: t => <State t={t} /> },
        { name: "Last use", cell: t => <Ago t={t.last_used_at} none="never" /> },
        { name: "Created", cell: t => <><Ago t={t.created_at} /> by <bdi>{t.issuer === "seb" ? "the root key" : t.issuer}</bdi></> },
      ]} />}</List>
    {!may("describe", "cluster") && list.data && <p class="more">Other tokens are not shown: this session has no right to see them.</p>}
  </Card>;
}

function NoTokens() {
  return <>There are no tokens: every client has the root key. {mayChange() ? <><a href={to("access", "new")}>Create a token</a> for each service and person.</>
    : may("describe", "cluster") ? "" : "This session has the rights of a certificate."}</>;
}

/** Shown shows a secret. It is not kept anywhere. */
export function Shown({ made, children }: { made: Created; children?: preact.ComponentChildren }) {
  return <Card title={`Secret of ${made.id}`}>
    <Copied text={made.token} label="The secret" />
    <Note kind="warn">Store it now. The broker does not store it and cannot show it again.</Note>
    {made.hint && <Note>{made.hint}</Note>}
    {children}
  </Card>;
}

/** TokenPage is one token: its secrets, its rules, and what can be done with it. */
export function TokenPage({ id }: { id: string }) {
  const token = useGet<Token>(at`/tokens/${id}`), t = token.data;
  const [asked, ask] = useState<"" | "rotate" | "revoke">(""), [made, setMade] = useState<Created>();
  const password = t && !t.secrets.some(s => s.kind === "token");
  return <Page title={id} actions={t && <>
    {!password && (mayChange() || isOwn(id) && !session.value!.read_only) && <Button onClick={() => ask("rotate")}>Rotate</Button>}
    {mayChange() && <Button kind="danger" onClick={() => ask("revoke")}>Revoke</Button>}
  </>} lead={<><a href={to("access")}>All tokens</a>{isOwn(id) && " · This session uses this token."}</>}>
    <Got of={token}>{t => <>
      {made && <Shown made={made}><p>{made.secrets.length > 1 ? "The previous secret is valid until the time in the list. Give the new one to all instances of the client before." : "The previous secret has ended."}</p></Shown>}
      <Validity t={t} />
      <Card title={`${id} may`}>
        {t.rules.length ? <ul>{t.rules.map(r => <li key={ruleKey(r)}>{r.deny && <b>not </b>}<bdi>{deed(r)}</bdi></li>)}</ul> : <p>Nothing. Rules for everyone may give it rights.</p>}
        {may("describe", "cluster") && <p><a href={to("access", "rules", { principal: id, find: id })}>Its rules</a></p>}
      </Card>
      {asked === "rotate" && <Rotate id={id} onClose={() => ask("")} onMade={m => { ask(""); setMade(m); token.reload(); }} />}
      {asked === "revoke" && <Revoke t={t} onClose={() => ask("")} />}
    </>}</Got>
  </Page>;
}

function Validity({ t }: { t: Token }) {
  return <Card title="State">
    <Facts facts={[
      ["State", <State t={t} />],
      ["Created", <><When t={t.created_at} /> by <bdi>{t.issuer === "seb" ? "the root key" : t.issuer}</bdi></>],
      ["Expires", t.expires_at ? <><When t={t.expires_at} /> ({fromNow(t.expires_at, now())})</> : "never"],
    ]} />
    <Table caption="Secrets" rows={t.secrets} keyOf={s => s.kind + s.created_at} columns={[
      { name: "Secret", cell: s => s.kind },
      { name: "Created", cell: s => <When t={s.created_at} /> },
      { name: "Valid until", cell: s => s.expires_at ? <><When t={s.expires_at} /> ({fromNow(s.expires_at, now())})</> : "no end" },
      { name: "Last use", cell: s => <Ago t={s.last_used_at} none="never" /> },
    ]} />
  </Card>;
}

function Rotate({ id, onClose, onMade }: { id: string; onClose: () => void; onMade: (made: Created) => void }) {
  const [overlap, setOverlap] = useState("24h");
  return <Act title={`Rotate ${id}`} action="Rotate" act={async () => onMade(await call<Created>("POST", at`/tokens/${id}/rotate`, { query: { overlap } }))} said="There is a new secret" onClose={onClose}>
    <p>A second secret is made. Both are valid during the overlap, so that clients can change to the new one.</p>
    <Choice label="Overlap" value={overlap} onValue={setOverlap} options={[...(isOwn(id) ? [] : [["0s", "none: the present secret ends at once"] as const]), ["1h", "1 hour"], ["24h", "24 hours"], ["168h", "7 days"]]} />
    {isOwn(id) && <Note kind="warn">This session uses the present secret, and ends with it. Store the new one, and log in with it.</Note>}
  </Act>;
}

function Revoke({ t, onClose }: { t: Token; onClose: () => void }) {
  return <Act title={`Revoke ${t.id}`} action="Revoke" danger typed={t.id} act={() => call("DELETE", at`/tokens/${t.id}`)} said={`${t.id} is revoked`} onDone={() => go(to("access"))} onClose={onClose}>
    <p>The secrets, rules and quota of {t.id} are deleted, and its connections end at once. This cannot be undone. Last use: <Ago t={t.last_used_at} none="never" />.</p>
    {isOwn(t.id) && <Note kind="warn">This session uses the token. It ends, too.</Note>}
  </Act>;
}
