// Lines in a frame, as SVG. Sizes are in pixels of the page, so that text is as large on a telephone as on a wide screen.
//
// spec: { label, x: axis, y: axis, series: [{ name, kind, points: [[x, y], ...], dots }], cursor, pick(x) }
// axis: { low, high, log, label, ticks: [values], show(value) }

import { s } from "./dom.js";

const MARGIN = { left: 54, right: 16, top: 14, bottom: 42 };
let charts = 0;

export class Chart {
  constructor(host, height) {
    this.host = host;
    this.height = height;
    this.clip = `clip${charts++}`;
    this.root = s("svg", { role: "img", class: "plot" });
    host.append(this.root);
    this.spec = null;
    this.width = 0;
    new ResizeObserver(() => {
      const width = Math.floor(host.clientWidth);
      if (width !== this.width && width > 0) {
        this.width = width;
        if (this.spec) this.draw(this.spec);
      }
    }).observe(host);
    this.root.addEventListener("click", (event) => this.#pick(event));
  }

  draw(spec) {
    this.spec = spec;
    this.width ||= Math.floor(this.host.clientWidth) || 600;
    const { width, height } = this;
    const frame = { left: MARGIN.left, top: MARGIN.top, right: width - MARGIN.right, bottom: height - MARGIN.bottom };
    this.atX = scale(spec.x, frame.left, frame.right);
    this.atY = scale(spec.y, frame.bottom, frame.top);
    this.frame = frame;
    const root = this.root;
    root.setAttribute("width", width);
    root.setAttribute("height", height);
    root.setAttribute("viewBox", `0 0 ${width} ${height}`);
    root.setAttribute("aria-label", spec.label);
    root.classList.toggle("picks", Boolean(spec.pick));
    root.replaceChildren(
      s("clipPath", { id: this.clip }, s("rect", { x: frame.left, y: frame.top - 1, width: frame.right - frame.left, height: frame.bottom - frame.top + 2 })),
      ...this.#axes(),
      ...this.#cursor(),
      ...spec.series.flatMap((series) => this.#line(series)),
    );
  }

  #axes() {
    const { x, y } = this.spec;
    const { left, right, top, bottom } = this.frame;
    const parts = [];
    for (const value of y.ticks) {
      const at = round(this.atY(value));
      parts.push(s("line", { class: "grid", x1: left, x2: right, y1: at, y2: at }));
      parts.push(s("text", { class: "tick", x: left - 8, y: at + 4, "text-anchor": "end" }, y.show(value)));
    }
    for (const value of x.ticks) {
      const at = round(this.atX(value));
      parts.push(s("line", { class: "axis", x1: at, x2: at, y1: bottom, y2: bottom + 4 }));
      parts.push(s("text", { class: "tick", x: at, y: bottom + 18, "text-anchor": "middle" }, x.show(value)));
    }
    parts.push(s("line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom }));
    parts.push(s("text", { class: "title", x: right, y: bottom + 36, "text-anchor": "end" }, x.label));
    parts.push(s("text", { class: "title", x: left + 6, y: top + 6 }, y.label));
    return parts;
  }

  #cursor() {
    const { cursor } = this.spec;
    if (!Number.isFinite(cursor) || cursor < this.spec.x.low || cursor > this.spec.x.high) return [];
    const at = round(this.atX(cursor));
    return [s("line", { class: "cursor", x1: at, x2: at, y1: this.frame.top, y2: this.frame.bottom })];
  }

  #line(series) {
    const { top } = this.frame;
    const high = this.spec.y.high;
    const drawn = series.points.filter(([, value]) => Number.isFinite(value) && value > (this.spec.y.log ? 0 : -Infinity));
    // A line that leaves through the top may go far beyond it: coordinates stay within reach of a renderer.
    const path = drawn.map(([x, y], index) => `${index ? "L" : "M"}${round(this.atX(x))} ${round(Math.max(this.atY(y), -1e4))}`).join("");
    const parts = [s("path", { class: `line ${series.kind}`, d: path || "M0 0", "clip-path": `url(#${this.clip})` })];
    if (series.dots) {
      for (const [x, y] of drawn) {
        if (y <= high) parts.push(s("circle", { class: `dot ${series.kind}`, cx: round(this.atX(x)), cy: round(this.atY(y)), r: x === this.spec.cursor ? 5 : 2.5 }));
      }
    }
    const infinite = series.points.find(([, value]) => value === Infinity);
    if (infinite) {
      const at = round(this.atX(infinite[0]));
      parts.push(s("text", { class: `mark ${series.kind}`, x: at, y: top + 12, "text-anchor": "middle" }, "∞"));
    }
    return parts;
  }

  #pick(event) {
    if (!this.spec?.pick) return;
    const { low, high, log } = this.spec.x;
    const share = (event.clientX - this.root.getBoundingClientRect().left - this.frame.left) / (this.frame.right - this.frame.left);
    const inside = Math.min(Math.max(share, 0), 1);
    this.spec.pick(log ? low * (high / low) ** inside : low + inside * (high - low));
  }
}

const round = (value) => Math.round(value * 10) / 10;

function scale(axis, from, to) {
  const place = axis.log ? Math.log : (value) => value;
  const low = place(axis.low);
  const span = place(axis.high) - low;
  return (value) => from + ((place(value) - low) / span) * (to - from);
}

/** An axis of round numbers that holds [low, high] and seldom changes while its values do. */
export function niceAxis(low, high, log, label) {
  if (log) {
    const bottom = below(low);
    let top = above(high);
    if (top / bottom < 10) top = bottom * 10;
    const ticks = [];
    const decades = Math.log10(top / bottom);
    const steps = decades > 6 ? [1] : decades > 2.5 ? [1, 3] : [1, 2, 5];
    for (let power = Math.floor(Math.log10(bottom)); power <= Math.log10(top) + 1e-9; power++) {
      for (const step of steps) {
        const value = step * 10 ** power;
        if (value >= bottom * 0.999 && value <= top * 1.001) ticks.push(value);
      }
    }
    return { low: bottom, high: top, log, label, ticks, show };
  }
  const rough = (high - low) / 5 || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const unit = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= rough);
  const top = Math.ceil(high / unit - 1e-9) * unit;
  const ticks = [];
  for (let index = Math.ceil(low / unit - 1e-9); index * unit <= top * (1 + 1e-9); index++) ticks.push(index * unit);
  return { low, high: top, log, label, ticks, show };
}

const LADDER = [1, 2, 5, 10];
const below = (value) => { const power = 10 ** Math.floor(Math.log10(value)); return power * LADDER.filter((step) => step * power <= value * 1.0001).at(-1); };
const above = (value) => { const power = 10 ** Math.floor(Math.log10(value)); return power * LADDER.find((step) => step * power >= value * 0.9999); };

export function show(value) {
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e5 || size < 1e-3) return value.toExponential(0).replace("e+", "e").replace("e-", "e−");
  return String(Number(value.toPrecision(3)));
}
