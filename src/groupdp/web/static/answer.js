// The guarantee in large letters, what it assumes, and earlier methods.

import { h } from "./dom.js";

const BEFORE = [
  ["one", "One example alone", "the same run, k = 1"],
  ["linear", "k × one example", "a reference line, not a guarantee"],
  ["fdp", "f-DP group bound", "valid, from one example's trade-off curve"],
  ["vadhan", "Vadhan's lemma, exact", "valid, from one example's (ε, δ)"],
  ["poisson", "If accounted as Poisson", "not a guarantee: these batches are not Poisson samples"],
  ["spread", "With spread allocation", "groupdp.loading.SpreadBatches instead of shuffling: two lines"],
];

export class AnswerCard {
  constructor(name) {
    this.which = h("p", { class: "which" }, name);
    this.value = h("output", { class: "value" }, "…");
    this.certified = h("p", { class: "certified" }, "\u00a0");
    this.badge = h("span", { class: "badge" }, "…");
    this.sentence = h("p", { class: "sentence" }, "\u00a0");
    this.refusal = h("p", { class: "refusal", role: "alert" });
    this.assumptions = h("ul", {});
    this.rows = Object.fromEntries(BEFORE.map(([key, label, note]) => [key, this.#row(label, note)]));
    for (const key of ["poisson", "spread"]) this.rows[key].hidden = true;
    this.root = h(
      "article",
      { class: "answer" },
      this.which,
      h("p", { class: "big" }, h("span", { class: "relation" }, "ε ≤ "), this.value),
      h("div", { class: "line" }, this.certified, this.badge),
      h("div", { class: "said" }, this.sentence, this.refusal),
      h("dl", { class: "before" }, Object.values(this.rows)),
      h("details", {}, h("summary", {}, "What this assumes"), this.assumptions),
    );
  }

  #row(label, note) {
    return h("div", {}, h("dt", {}, label, h("span", { class: "meaning" }, note)), h("dd", {}, "…"));
  }

  put(key, text) {
    this.rows[key].querySelector("dd").textContent = text;
  }

  show(answer) {
    const { epsilon } = answer;
    this.root.classList.remove("refused");
    this.value.textContent = epsilon.upper_text === "infinity" ? "∞" : epsilon.upper_text;
    this.certified.textContent = `certified: in ${answer.interval.replaceAll("inf", "∞")}`;
    this.badge.textContent = epsilon.tight ? "tight" : "valid, not tight";
    this.badge.title = epsilon.tight
      ? "No valid guarantee of this run is below the lower side."
      : "The upper side is a guarantee; a better analysis may prove a smaller value than the lower side.";
    this.badge.classList.toggle("loose", !epsilon.tight);
    this.sentence.textContent = answer.sentence;
    this.refusal.textContent = "";
    this.put("one", answer.one_example?.upper_text ?? "—");
    this.put("linear", answer.linear_text ?? "—");
    this.rows.poisson.hidden = !answer.poisson_claim;
    this.put("poisson", answer.poisson_claim?.upper_text ?? "—");
    this.assumptions.replaceChildren(...answer.assumptions.map((sentence) => h("li", {}, sentence)));
  }

  /** The answer is being computed: neither the last one nor its refusal stays. */
  wait() {
    this.root.classList.remove("refused");
    this.value.textContent = "…";
    this.certified.textContent = "computing";
    this.badge.textContent = "…";
    this.sentence.textContent = "\u00a0";
    this.refusal.textContent = "";
  }

  refuse(sentence) {
    this.root.classList.add("refused");
    this.value.textContent = "—";
    this.certified.textContent = "no answer";
    this.badge.textContent = "…";
    this.sentence.textContent = "";
    this.refusal.textContent = sentence;
    for (const key of Object.keys(this.rows)) this.put(key, "—");
  }
}
