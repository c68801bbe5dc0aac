// Latency: percentiles as a chart and as text, and charts over time.

export const name = "latency";

export async function run(t) {
  const { page } = t;
  for (let i = 0; i < 20; i++) await t.api("POST", "/records?topic-name=latency", `v${i}`, { "Content-Type": "text/plain" });
  await t.open("#/latency");
  await page.getByRole("img", { name: /^Chart of Time by percentile. Largest: acknowledgement .+, PUT / }).waitFor();
  await page.getByRole("combobox", { name: "Percentiles" }).selectOption("start");
  t.equal(new URL(page.url()).hash, "#/latency?of=start", "the choice is in the address");

  const table = page.getByRole("table", { name: "Percentiles", exact: true });
  const cells = async row => (await table.getByRole("row", { name: row }).getByRole("cell").allInnerTexts());
  await t.until(async () => {
    const api = (await t.api("GET", "/latency?window=start")).json, largest = await cells(/^largest/);
    return largest[2] === `of ${api.acks.count}` && largest[4] === `of ${api.puts.count}` && largest[1] === duration(api.acks.max);
  }, "the table shows what the API says");
  const api = (await t.api("GET", "/latency?window=start")).json, at = p => api.puts.percentiles.find(o => o.percentile === p);
  const half = await cells(/^50 /);
  t.equal(half.slice(3), [duration(at(50).seconds), String(api.puts.count - at(50).count)], "the median of PUTs, and how many took longer");

  await page.getByRole("button", { name: "Table of Time by percentile" }).focus();
  await page.keyboard.press("Enter");
  const all = page.getByRole("table", { name: "Time by percentile" });
  await all.waitFor();
  t.equal(await all.getByRole("row").count(), api.puts.percentiles.length + 1, "rows of all percentiles");
  t.ok((await all.innerText()).includes("99.99\t"), "percentiles are readable numbers");
  await t.axe("latency with tables");
  await page.getByRole("button", { name: "Table of Time by percentile" }).click();
  await page.getByRole("img", { name: /^Chart of PUTs. Newest: p50 / }).waitFor();
  await t.picture("latency");
}

/** duration formats seconds as the page does, below 2 minutes. */
function duration(s) {
  const three = n => new Intl.NumberFormat("en-US", { maximumSignificantDigits: 3 }).format(n);
  return s < 0.001 ? `${three(s * 1e6)} µs` : s < 1 ? `${three(s * 1e3)} ms` : `${three(s)} s`;
}
