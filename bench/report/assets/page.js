"use strict";
// Draws every element with data-chart: the chart of that number.
function time(ns) {
  if (ns == null) return "";
  if (ns >= 1e9) return +(ns / 1e9).toPrecision(3) + " s";
  if (ns >= 1e6) return +(ns / 1e6).toPrecision(3) + " ms";
  return +(ns / 1e3).toPrecision(3) + " µs";
}
function count(v) { return v == null ? "" : v >= 1e6 ? +(v / 1e6).toPrecision(4) + " M" : v >= 1e4 ? +(v / 1e3).toPrecision(4) + " k" : "" + +v.toPrecision(4); }
function percentile(x) { return x == null ? "" : +(100 * (1 - Math.pow(10, -x))).toPrecision(8) + " %"; }

// table joins the traces' points into uPlot's columns: one x for all, null where a trace has none.
function table(chart) {
  const xs = [...new Set(chart.lines.flatMap(l => l.x))].sort((a, b) => a - b);
  const at = new Map(xs.map((x, i) => [x, i]));
  const column = (l, ys) => {
    const c = new Array(xs.length).fill(null);
    l.x.forEach((x, i) => { c[at.get(x)] = ys[i]; });
    return c;
  };
  const columns = [xs], series = [{ label: chart.xLabel, value: (u, v) => chart.x === "nines" ? percentile(v) : count(v) }], bands = [];
  const text = chart.yTime ? time : count;
  for (const l of chart.lines) {
    columns.push(column(l, l.y));
    series.push({ label: l.name, stroke: l.colour, width: 1.8, dash: l.dashed ? [5, 4] : undefined, spanGaps: true,
      value: (u, v) => text(v), points: { show: l.x.length < 20 } });
  }
  for (const l of chart.lines) {
    if (!l.low) continue;
    const n = columns.length;
    columns.push(column(l, l.high), column(l, l.low));
    const hidden = { stroke: "transparent", label: "", spanGaps: true, points: { show: false }, legend: false };
    series.push({ ...hidden }, { ...hidden });
    bands.push({ series: [n, n + 1], fill: l.colour + "1f" });
  }
  return { columns, series, bands };
}

function draw(place, chart) {
  const { columns, series, bands } = table(chart);
  const shown = 1 + chart.lines.length;
  let log = chart.y === "log", plot;
  const title = document.createElement("h3"), note = document.createElement("p"), button = document.createElement("button"), box = document.createElement("div");
  title.textContent = chart.title + ": " + chart.yLabel;
  note.textContent = chart.note || "";
  note.className = "note";
  place.append(title, button, note, box);
  function make() {
    if (plot) plot.destroy();
    button.textContent = log ? "linear axis" : "logarithmic axis";
    const scaleX = chart.x === "log" ? { time: false, distr: 3 } : { time: false };
    plot = new uPlot({
      width: Math.min(960, place.clientWidth || 960), height: 380, series, bands,
      legend: { markers: { dash: (u, i) => u.series[i].dash ? "dashed" : "solid" } },
      scales: { x: scaleX, y: log ? { distr: 3 } : {} },
      axes: [
        { label: chart.xLabel, splits: chart.x === "nines" ? (u, i, min, max) => [0, Math.log10(2), 1, 2, 3, 4, 5, 6, 7].filter(v => v >= min && v <= max) : undefined,
          values: (u, vs) => vs.map(v => chart.x === "nines" ? percentile(v) : count(v)) },
        { size: 70, values: (u, vs) => vs.map(v => v == null ? "" : chart.yTime ? time(v) : count(v)) },
      ],
    }, columns, box);
    // The edges of ranges are no lines of their own: they stand in no legend.
    box.querySelectorAll(".u-legend .u-series").forEach((row, i) => { if (i >= shown) row.style.display = "none"; });
  }
  button.onclick = () => { log = !log; make(); };
  make();
}
document.querySelectorAll("[data-chart]").forEach(place => draw(place, charts[+place.dataset.chart]));
