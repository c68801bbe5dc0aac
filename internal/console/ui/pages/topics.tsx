// The topics: #/topics lists them, #/topics/NAME is one.

import { Failure, Loading, Page, Table } from "../lib/parts";
import { call } from "../lib/api";
import { bytes, count } from "../lib/format";
import { useLoad } from "../lib/load";
import { to } from "../lib/route";
import { sum, type Topic as Info } from "../lib/topics";
import { Topic } from "./topic";

export function Topics({ path }: { path: string[] }) {
  return path[0] === undefined ? <List /> : <Topic path={path} />;
}

function List() {
  const all = useLoad(signal => call<{ topics: Info[] }>("GET", "/topics", { signal }), []);
  return <Page title="Topics">
    <Failure error={all.error} />
    {!all.data ? !all.error && <Loading /> : <Table caption="Topics" rows={all.data.topics} keyOf={t => t.name} columns={[
      { name: "Name", wide: true, cell: t => <a href={to("topics", t.name)}><bdi>{t.name}</bdi></a> },
      { name: "Partitions", num: true, cell: t => count(t.partitions.length) },
      { name: "Records", num: true, cell: t => count(sum(t.partitions.map(p => p.records))) },
      { name: "Size", num: true, cell: t => bytes(sum(t.partitions.map(p => p.bytes))) },
    ]} />}
  </Page>;
}
