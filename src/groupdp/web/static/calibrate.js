// A parameter for a target: the least noise, the most steps, the most examples per person.

import { byId, count, h } from "./dom.js";
import { fieldRow, choiceRow, showError } from "./form.js";

const CHOICES = [
  { name: "noise_multiplier", label: "the least noise", meaning: "The smallest noise multiplier that meets the target; with several phases, one factor scales the noise of all.", says: "Noise multiplier" },
  { name: "steps", label: "the most steps", meaning: "The largest number of rounds that meets the target; with several phases, of the first one.", says: "Steps" },
  { name: "sampling_rate", label: "the largest sampling rate", meaning: "For Poisson sampling: the largest rate that meets the target.", says: "Sampling rate" },
  { name: "batch_size", label: "the largest batch", meaning: "For fixed batches: the largest batch that meets the target.", says: "Batch size" },
  { name: "group_size", label: "the most examples per person", meaning: "The largest number of examples per person that meets the target.", says: "Examples per person" },
];

export class CalibrateView {
  constructor(form, state, changed, use) {
    this.root = byId("calibrate");
    this.state = state;
    this.use = use;
    this.found = null;
    if (!CHOICES.some((one) => one.name === state.parameter)) state.parameter = "noise_multiplier";
    this.text = h("p", { class: "found" }, "…");
    this.proof = h("p", { class: "meaning" }, "\u00a0");
    this.button = h("button", { type: "button", onclick: () => this.found && this.use(this.found) }, "Use it");
    this.root.replaceChildren(
      choiceRow("I want", "target", "parameter", CHOICES, state.parameter, (name) => {
        state.parameter = name;
        this.root.querySelector("#target-parameter-meaning").textContent = CHOICES.find((one) => one.name === name).meaning;
        changed();
      }),
      fieldRow(form.fields.epsilon, "target", state.epsilon, (text) => {
        state.epsilon = text;
        changed();
      }),
      h("div", { class: "result", "aria-live": "polite" }, this.text, this.proof, this.button),
    );
  }

  deliver(answer, refusal) {
    const says = CHOICES.find((one) => one.name === this.state.parameter).says;
    this.root.classList.toggle("stale", !answer && !refusal);
    this.button.disabled = !answer;
    if (refusal) {
      this.found = null;
      const beside = showError(this.root, refusal.field === "epsilon" ? { ...refusal, message: refusal.message, phase: null } : null);
      this.text.textContent = "—";
      this.proof.textContent = beside ? "\u00a0" : refusal.message;
    } else if (answer) {
      showError(this.root, null);
      this.found = { ...answer, asked: this.state.parameter };
      const scaled = answer.parameter === "noise_factor" ? "Noise of every phase times" : says;
      this.text.textContent = `${scaled} ${Number.isInteger(answer.value) ? count(answer.value) : answer.value_text}`;
      this.proof.textContent = answer.proved_optimal
        ? `Certified: ε ≤ ${answer.epsilon.upper_text}. Proved: ${answer.failing_value === null ? "no better value is accepted" : `the next better value misses the target${answer.epsilon.tight ? "" : " by this analysis, which is not tight"}`}.`
        : `Certified: ε ≤ ${answer.epsilon.upper_text}.`;
    }
  }
}
