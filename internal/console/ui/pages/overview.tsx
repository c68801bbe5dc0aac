// The overview: how the broker does, and what wants attention.

import { call } from "../lib/api";
import { Card, Chip, Failure, Loading, Page } from "../lib/parts";
import { seconds } from "../lib/format";
import { useLoad } from "../lib/load";

/** Status is the answer to GET /status. */
interface Status {
  version?: string; role: string; epoch: number; ready: boolean; reason?: string; topics: number; warnings?: string[];
  store: { name?: string; puts: number; put_median_ms: number; put_p99_ms: number };
}

export function Overview() {
  const status = useLoad(signal => call<Status>("GET", "/status", { signal }), [], 5000), s = status.data;
  return <Page title="Overview">
    <Failure error={status.error} />
    {!s ? !status.error && <Loading /> : <>
      <p class="chips">
        <Chip kind={s.ready ? "good" : "bad"}>{s.ready ? "ready" : s.reason ?? "not ready"}</Chip>
        <Chip>{s.role}, epoch {s.epoch}</Chip>
        <Chip>{s.store.name}, PUT p50 {seconds(s.store.put_median_ms / 1000)}, p99 {seconds(s.store.put_p99_ms / 1000)}</Chip>
      </p>
      <Card title="Needs attention">
        {s.warnings?.length ? <ul>{s.warnings.map(w => <li key={w}>{w}</li>)}</ul> : <p>Nothing.</p>}
      </Card>
    </>}
  </Page>;
}
