// The trade-off curve: how often an attack detects what it claims, at most, against how often it raises a false alarm.

import { Chart } from "./chart.js";
import { byId, h, s } from "./dom.js";

const TICKS = [1e-9, 1e-6, 1e-3, 1];
const power = (value) => (value === 1 ? "1" : `1e−${Math.round(-Math.log10(value))}`);

export class AttackView {
  constructor() {
    this.chart = new Chart(byId("tradeoff"), 260);
    this.answers = [null, null];
    this.names = ["the best attack"];
    this.draw();
  }

  draw() {
    const chance = Array.from({ length: 61 }, (_, index) => 10 ** (-9 + (9 * index) / 60)).map((rate) => [rate, rate]);
    const series = [{ kind: "linear", points: chance }];
    this.answers.forEach((answer, index) => {
      if (!answer) return;
      const points = answer.points.map((point) => [point.false_positive_rate, point.true_positive_rate.upper]);
      series.push({ kind: `run${index}`, points: [...points, [1, 1]] });
    });
    const words = this.answers[0]?.words ?? [];
    this.chart.draw({
      label: `Trade-off curve of the best attack. ${words.join(" ")}`,
      x: { low: 1e-9, high: 1, log: true, label: "false alarms", ticks: TICKS, show: power },
      y: { low: 0, high: 1, log: false, label: "detected", ticks: [0, 0.25, 0.5, 0.75, 1], show: (value) => `${100 * value} %` },
      series,
    });
    this.#legend();
    this.#words();
  }

  #legend() {
    const entries = [...this.names.map((name, index) => [`run${index}`, name]), ["linear", "guessing blindly"]];
    byId("tradeoff-legend").replaceChildren(
      ...entries.map(([kind, name]) => h("span", {}, s("svg", { width: 26, height: 10, "aria-hidden": "true" }, s("path", { class: `line ${kind}`, d: "M1 5H25" })), h("span", {}, name))),
    );
  }

  #words() {
    const parts = [];
    this.names.forEach((name, index) => {
      const answer = this.answers[index];
      if (this.names.length > 1) parts.push(h("h3", {}, name));
      if (this.refusals?.[index]) parts.push(h("p", { class: "refusal" }, this.refusals[index]));
      else parts.push(...(answer?.words.slice(index === 0 ? 0 : 1) ?? ["Computing…"]).map((sentence) => h("p", {}, sentence.replaceAll(" %", "\u00a0%"))));
    });
    byId("attack-words").replaceChildren(...parts);
  }

  deliver(index, answer, refusal) {
    this.refusals ??= [];
    this.refusals[index] = refusal?.message;
    if (answer || refusal) this.answers[index] = answer;
    byId("tradeoff").classList.toggle("stale", !answer);
    byId("attack-words").classList.toggle("stale", !answer);
    if (answer || refusal) this.draw();
  }
}
