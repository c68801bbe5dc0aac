// Access: tokens, rules and quotas.

import { Page, Tabs } from "../../lib/parts";
import { to } from "../../lib/route";
import { may, session } from "../../lib/session";
import { Create } from "./create";
import { Quotas } from "./quotas";
import { Rules } from "./rules";
import { TokenPage, Tokens } from "./tokens";

/** mayChange reports whether this session may change tokens and rules, or with another operation quotas. */
export function mayChange(operation = "alter"): boolean { return may(operation, "cluster") && !session.value!.read_only; }

/** Access shows the part of the page that an address names: tokens by default. */
export function Access({ path: [part = "", id] }: { path: string[] }) {
  if (part === "tokens" && id) return <TokenPage id={id} key={id} />;
  if (part === "new") return <Create />;
  const audit = session.value!.audit_topic;
  return <Page title="Access" lead={<>A token is the key of one client, with the rights that its rules give it. The root key is not listed: it may do everything.{" "}
    {audit ? <>Changes and refused requests are recorded in topic <a href={to("topics", audit, "records")}><bdi>{audit}</bdi></a>.</>
      : may("describe", "cluster") && <>To record changes and refused requests, start the broker with <code>--audit-topic audit</code>.</>}</>}>
    <Tabs label="Parts of access" tabs={[[to("access"), "Tokens"],
      ...(may("describe", "cluster") ? [[to("access", "rules"), "Rules"] as const] : []),
      ...(may("describe-configs", "cluster") ? [[to("access", "quotas"), "Quotas"] as const] : [])]} />
    {part === "rules" ? <Rules /> : part === "quotas" ? <Quotas /> : <Tokens />}
  </Page>;
}
