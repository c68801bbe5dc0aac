// The pages that the browser loads when one of them is opened first. There is one such module: with a
// second one the bundle would have several chunks of shared code, and their names would collide.

export { Access } from "./access";
export { Broker } from "./broker";
export { DryRun } from "./dryrun";
export { Entities } from "./entities";
export { Evaluate } from "./evaluate";
export { Firings } from "./firings";
export { Groups } from "./groups";
export { Latency } from "./latency";
export { Queues } from "./queues";
export { Topics } from "./topics";
export { Triggers } from "./triggers";
