// The broker's rules for names and numbers that a person types. A test compares them with the broker.

const bytesOf = (v: string) => new TextEncoder().encode(v).length;

/** topicName returns why a text is no name of a topic; undefined: it is one. All rules do so. */
export function topicName(v: string): string | undefined {
  return /^[A-Za-z0-9._-]{1,249}$/.test(v) && !/^\.\.?$/.test(v) ? undefined : `topic name "${v}": want 1 to 249 of A-Z a-z 0-9 . _ - and neither . nor .. alone`;
}

/** groupName is the rule for consumer groups. */
export function groupName(v: string): string | undefined { return v && bytesOf(v) <= 249 && !/\p{C}|(?! )\p{Z}/u.test(v) ? undefined : "want 1 to 249 bytes of printable characters"; }

/** principal is the rule for tokens, users and * for everyone. */
export function principal(v: string): string | undefined {
  return v === "*" || /^[!-~]{1,64}$/.test(v) && !/[*,=:"\\]/.test(v) && v !== "seb" ? undefined : 'want * or 1 to 64 printable ASCII characters without * , = : " \\ and not seb, the root key';
}

/** tokenName is the rule for new tokens. */
export function tokenName(v: string): string | undefined { return /^[a-z0-9.-]{1,64}$/.test(v) && v !== "seb" ? undefined : "want 1 to 64 of a-z 0-9 . - and not seb, the root key"; }

/** pattern is the rule for names of resources of a type; in it \* is an asterisk and \\ a backslash. */
export function pattern(v: string, resource: string): string | undefined {
  const [, text, prefix] = /^((?:[^*\\]|\\[*\\])*)(\*?)$/.exec(v) ?? [];
  if (text === undefined) return "want a name, a beginning of names and *, or only *";
  const name = text.replace(/\\(.)/g, "$1");
  if (v === "*" || (prefix ? /^\.\.?$/.test(name) : name === "*")) return undefined;
  if (resource === "topic" || resource === "group") return resource === "topic" ? topicName(name) : groupName(name);
  return name && bytesOf(name) <= 249 && !/[\0-\x1f\x7f]/.test(name) ? undefined : "want 1 to 249 bytes without control characters";
}

/** patterns is the rule for a list of them. */
export function patterns(v: string, resource: string): string | undefined { return v.split(/[\s,]+/).filter(Boolean).map(p => pattern(p, resource)).find(Boolean); }

/** address is the rule for the address of a client. */
export function address(v: string): string | undefined {
  const four = /^(\d{1,3}\.){3}\d{1,3}$/.test(v) && v.split(".").every(n => Number(n) < 256 && String(Number(n)) === n);
  const six = /^[0-9a-f:.]+$/i.test(v) && v.includes(":") && URL.canParse(`http://[${v}]/`);
  return v === "*" || four || six ? undefined : "want an IP address, such as 192.0.2.7";
}

/** whole is the rule for whole numbers in a range. They can exceed a JavaScript number. */
export function whole(v: string, least: bigint | number, most: bigint | number): string | undefined {
  return /^-?\d+$/.test(v) && BigInt(v) >= BigInt(least) && BigInt(v) <= BigInt(most) ? undefined : `want a whole number from ${least} to ${most}`;
}

/** atMost returns a rule for texts of a size in bytes. */
export const atMost = (most: number) => (v: string) => bytesOf(v) <= most ? undefined : `${bytesOf(v)} bytes, want at most ${most}.`;

/** base64 is the rule for bytes as text. */
export function base64(v: string): string | undefined { return /^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(v) ? undefined : "want base64, with its padding"; }

/** size is a number of bytes with a unit, such as 16MiB; undefined: it is none. */
export function size(v: string): bigint | undefined {
  const [, n, unit = "B"] = /^(\d{1,19})\s?(B|KiB|MiB|GiB|TiB)?$/.exec(v) ?? [], power = ["B", "KiB", "MiB", "GiB", "TiB"].indexOf(unit);
  return n === undefined ? undefined : BigInt(n) << BigInt(10 * power);
}

/** span is the rule for times of settings. */
export function span(v: string): string | undefined {
  return v && /^(\d+d)?(0|\+?((\d+\.?\d*|\.\d+)(ns|us|µs|ms|s|m|h))*)$/.test(v) && !/^\+?$/.test(v) ? undefined : `"${v}" is not a time span like 7d, 12h, 90s or 500ms`;
}
