// Rules of access in words.

/** Rule allows or denies a principal an operation (api.Rule). */
export interface Rule { principal: string; resource: string; pattern: string; operation: string; deny?: boolean; host?: string }

/** operationsOf lists the operations on each type of resource. */
export const operationsOf: Record<string, readonly string[]> = {
  topic: ["read", "write", "create", "delete", "alter", "describe", "describe-configs", "alter-configs", "all"],
  group: ["read", "describe", "delete", "describe-configs", "alter-configs", "all"],
  trigger: ["read", "write", "delete", "describe", "all"],
  cluster: ["describe", "alter", "describe-configs", "alter-configs", "create", "cluster-action", "idempotent-write", "all"],
  metrics: ["describe", "all"],
  "transactional-id": ["describe", "write", "all"],
};

/** only has the one name of a type of resource that has no others. */
export const only: Record<string, string> = { cluster: "kafka-cluster", metrics: "metrics" };

const verbs: Record<string, string> = {
  all: "do everything with", alter: "change", describe: "see", "describe-configs": "see the settings of", "alter-configs": "change the settings of",
  "cluster-action": "act as a broker of", "idempotent-write": "write idempotently in",
};

/** verb says an operation: describe is "see". */
export function verb(operation: string): string { return verbs[operation] ?? operation; }

/** thing says what a pattern stands for: topic orders-*, every group, the cluster. */
function thing(resource: string, pattern: string): string {
  if (only[resource]) return "the " + resource;
  return pattern === "*" ? "every " + resource : `${resource} ${pattern}`;
}

/** deed says what a rule is about: write topic orders-*. */
export function deed(r: Rule): string {
  return `${verb(r.operation)} ${thing(r.resource, r.pattern)}${r.host && r.host !== "*" ? ` from ${r.host}` : ""}`;
}

/** sentence says a rule: orders-app may write topic orders-*. */
export function sentence(r: Rule): string {
  return `${r.principal === "*" ? "everyone" : r.principal} ${r.deny ? "must not" : "may"} ${deed(r)}`;
}

/** ruleKey is a text that only equal rules share. */
export function ruleKey(r: Rule): string { return [r.principal, r.resource, r.pattern, r.operation, !!r.deny, r.host ?? ""].join("\n"); }

/** summary says the rules of a principal in a few words: the name of a preset, or the first two. */
export function summary(rules: readonly Rule[], events: string): string {
  const preset = presetOf(rules, events);
  if (preset) return preset;
  const deeds = [...new Set(rules.map(r => (r.deny ? "not " : "") + deed(r)))];
  if (!deeds.length) return "nothing";
  return deeds.slice(0, 2).join(", ") + (deeds.length > 2 ? `, and ${deeds.length - 2} more` : "");
}

/** presetOf returns Viewer or Operator if the rules are exactly those of the preset, else "". */
function presetOf(rules: readonly Rule[], events: string): string {
  const have = rules.map(r => r.deny || r.host ? "?" : `${r.operation} ${r.resource} ${r.pattern}`).sort().join();
  const read = (topic: string) => [`read topic ${topic}`, `describe-configs topic ${topic}`];
  const same = (...want: string[]) => have === [...new Set([...want, "describe metrics metrics"])].sort().join();
  if (same(...read("*"), ...read(events), ...read("firings"), "describe group *", "read trigger *")) return "Viewer";
  return same("all topic *", `all topic ${events}`, ...read("firings"), "all group *", "all trigger *") ? "Operator" : "";
}
