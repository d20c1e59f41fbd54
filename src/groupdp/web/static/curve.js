// epsilon against group size. The axis is chosen by the tight curves alone, so that late baselines do not move it.

import { Chart, niceAxis, show } from "./chart.js";
import { byId, h, number, s, table } from "./dom.js";

const BASELINES = {
  linear: "k × one example (not a guarantee)",
  vadhan: "Vadhan's lemma, exact arithmetic",
  "old-tool": "TensorFlow Privacy's arithmetic",
};

export class CurveView {
  constructor(pick) {
    this.chart = new Chart(byId("curve"), 340);
    this.pick = pick;
    this.curves = [null, null]; // answers, run by run
    this.baselines = {}; // of the first run: name to points, null while they are computed
    this.waiting = new Set();
    this.scale = "log";
    this.size = 1;
    this.names = ["this analysis (certified)"];
  }

  draw(asked) {
    const curves = this.curves.filter(Boolean);
    if (curves.length === 0) return;
    const tight = curves.flatMap((curve) => curve.points.filter((point) => point.epsilon).map((point) => number(point.epsilon.upper)));
    const finite = tight.filter((value) => Number.isFinite(value) && value > 0);
    const low = finite.length ? Math.min(...finite) : 0.1;
    const high = finite.length ? Math.max(...finite) : 10;
    const sizes = curves[0].points.map((point) => point.group_size);
    const last = sizes.at(-1);
    const long = last > 64;
    const y = this.scale === "log" ? niceAxis(low, high * 8, true, "ε") : niceAxis(0, high * 1.25, false, "ε");
    const ticks = long ? niceAxis(1, last, true, "").ticks : sizes.filter((size) => size === 1 || size % (this.chart.width < 500 ? 8 : 4) === 0);
    const x = { low: 1, high: long ? niceAxis(1, last, true, "").high : last, log: long, label: "examples per person, k", ticks, show: long ? show : String };
    this.chart.draw({ label: this.#label(), x, y, series: this.#series(), cursor: this.size, pick: this.pick });
    this.#legend();
    this.#table();
    if (asked) this.chart.root.setAttribute("data-answered", JSON.stringify(asked.phases));
  }

  #series() {
    const series = [];
    const first = this.curves[0];
    if (first) {
      const linear = first.points.filter((point) => point.linear !== undefined).map((point) => [point.group_size, number(point.linear)]);
      series.push({ kind: "linear", points: linear });
      for (const name of ["vadhan", "old-tool"]) {
        const points = (this.baselines[name] ?? []).map((point) => [point.group_size, number(point.lower), number(point.upper)]);
        if (points.length) series.push({ kind: name, points: points.map(([size, , upper]) => [size, upper]) });
        // Where only an interval is known, a bar shows it.
        for (const [size, lower, upper] of points) if (upper - lower > 0.01 * upper) series.push({ kind: name, points: [[size, lower], [size, upper]] });
      }
    }
    this.curves.forEach((curve, index) => {
      if (curve) series.push({ kind: `run${index}`, dots: true, points: curve.points.filter((point) => point.epsilon).map((point) => [point.group_size, number(point.epsilon.upper)]) });
    });
    return series;
  }

  #label() {
    const told = this.curves.flatMap((curve, index) => {
      const point = curve?.points.find((one) => one.group_size === this.size);
      return point?.epsilon ? [`${this.names[index]}: at most ${point.epsilon.upper_text}`] : [];
    });
    return `Epsilon against examples per person. At ${this.size}: ${told.join("; ") || "not drawn"}. The table below has every value.`;
  }

  #legend() {
    const entries = [];
    this.names.forEach((name, index) => entries.push([`run${index}`, name, ""]));
    for (const [kind, name] of Object.entries(BASELINES)) {
      const late = kind !== "linear" && !this.baselines[kind];
      entries.push([kind, name, late ? (this.waiting.has(kind) ? "computing" : "not available") : ""]);
    }
    const text = JSON.stringify(entries);
    if (text === this.legendText) return;
    this.legendText = text;
    byId("curve-legend").replaceChildren(
      ...entries.map(([kind, name, status]) =>
        h("span", { class: status ? "late" : "" }, s("svg", { width: 26, height: 10, "aria-hidden": "true" }, s("path", { class: `line ${kind}`, d: "M1 5H25" })), h("span", {}, name), status ? h("em", {}, ` ${status}`) : null),
      ),
    );
  }

  #table() {
    const details = byId("curve-table").closest("details");
    if (!details.open) {
      details.ontoggle = () => this.#table();
      return;
    }
    const rows = this.rows().map((row) => [row.group_size, row.lower_text, row.upper_text, row.linear_text, row.vadhan_text, row.old_tool_text]);
    byId("curve-table").replaceChildren(table("Epsilon against group size", ["k", "at least", "at most", "k × one example", "Vadhan, exact", "TensorFlow Privacy"], rows));
  }

  rows() {
    const at = (name, size) => this.baselines[name]?.find((point) => point.group_size === size);
    return (this.curves[0]?.points ?? []).map((point) => ({
      group_size: point.group_size,
      epsilon: point.epsilon,
      linear: point.linear,
      vadhan: at("vadhan", point.group_size),
      old_tool: at("old-tool", point.group_size)?.upper,
      lower_text: point.epsilon?.lower_text ?? "declined",
      upper_text: point.epsilon?.upper_text ?? "declined",
      linear_text: point.linear_text ?? "—",
      vadhan_text: at("vadhan", point.group_size)?.text ?? "—",
      old_tool_text: at("old-tool", point.group_size)?.text ?? "—",
    }));
  }

  csv() {
    const plain = (value) => (value === undefined ? "" : value === "Infinity" ? "inf" : String(value));
    const lines = ["group_size,epsilon_lower,epsilon_upper,linear_upper,vadhan_lower,vadhan_upper,old_tool"];
    for (const row of this.rows()) {
      lines.push([row.group_size, plain(row.epsilon?.lower), plain(row.epsilon?.upper), plain(row.linear), plain(row.vadhan?.lower), plain(row.vadhan?.upper), plain(row.old_tool)].join(","));
    }
    return `${lines.join("\n")}\n`;
  }
}

/** The group sizes to draw: 1 to 32, or as many in geometric progression if the person has more. */
export function groupSizes(size) {
  if (!(size > 32)) return Array.from({ length: 32 }, (_, index) => index + 1);
  const top = Math.min(2 * size, 100000);
  const sizes = new Set([1, size]);
  for (let index = 0; sizes.size < 32 && index < 32; index++) sizes.add(Math.round(top ** (index / 31)));
  return [...sizes].sort((a, b) => a - b);
}

/** Where a slow baseline is computed: everywhere at first, then ever more sparsely, and at the person's size. */
export function baselineSizes(sizes, size) {
  return sizes.filter((one, index) => one === size || index < 10 || index % 4 === 3);
}
