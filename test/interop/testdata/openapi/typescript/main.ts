import createClient from "openapi-fetch";
import type { components, paths } from "./seb.js";

declare const process: { env: Record<string, string | undefined>; exit(code: number): never };

const client = createClient<paths>({
  baseUrl: process.env["SEB_URL"] ?? "",
  headers: { Authorization: `Bearer ${process.env["SEB_API_KEY"]}` },
});

// A trigger has one member that must be given, and each of the others is optional.
const least: components["schemas"]["TriggerSpec"] = { expr: "signup THEN (NOT use WITHIN 7 days)" };
const more: components["schemas"]["TriggerSpec"] = { ...least, fire: "edge", deliver: null };

const topic = "typescript";
const written = await client.POST("/records", {
  params: { query: { "topic-name": topic } },
  body: { key: "k", value: `made by ${topic}`, headers: [{ key: "h", value: "v" }] },
  headers: { "Content-Type": "application/json" },
});
if (written.error !== undefined || !("count" in written.data) || written.data.count !== 1) {
  console.error(written.error ?? written.data);
  process.exit(1);
}
const read = await client.GET("/records", {
  params: { query: { "topic-name": topic, offset: "0" } },
  headers: { Accept: "application/json" },
});
if (read.error !== undefined || !Array.isArray(read.data)) {
  console.error(read.error ?? read.data);
  process.exit(1);
}
const event = await client.POST("/event", { body: { event: "signup", entity_id: "u1", data: { plan: "pro" } } });
if (event.error !== undefined) {
  console.error(event.error);
  process.exit(1);
}
for (const spec of [least, more]) {
  const put = await client.POST("/triggers/dry-run", { body: spec });
  if (put.error !== undefined) {
    console.error(put.error);
    process.exit(1);
  }
}
// Something that is not there is an error with a code.
const none = await client.GET("/topic", { params: { query: { "topic-name": "none" } } });
if (none.error?.code !== "unknown_topic") {
  console.error(none);
  process.exit(1);
}
console.log("read:", read.data[0]?.value);
