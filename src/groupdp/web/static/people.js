// Everybody in a dataset, from a file of counts. The file stays in this page and its server's memory; it is not stored.

import { ask, Refusal, Slow } from "./api.js";
import { byId, count, h, table } from "./dom.js";

/** Largest file read, in bytes: a little less than the server takes. */
const LARGEST = 7 * 1024 * 1024;

export class PeopleView {
  constructor(question) {
    this.question = question;
    this.tally = null;
    this.slow = new Slow("people", (answer, refusal) => this.#deliver(answer, refusal));
    this.file = h("input", { type: "file", id: "counts", accept: ".csv,.txt,text/csv", class: "unseen" });
    this.column = h("input", { type: "text", id: "column", autocomplete: "off", "aria-describedby": "column-meaning" });
    this.error = h("p", { class: "refusal", role: "alert" });
    this.result = h("div", { class: "people-result" }, h("p", { class: "meaning" }, "No file yet."));
    this.zone = h(
      "label",
      { class: "drop", for: "counts" },
      h("strong", {}, "Drop a CSV file of counts here, or choose one"),
      h("span", { class: "meaning" }, "One row per person: their number of examples. The file stays in this computer's memory."),
    );
    byId("people").replaceChildren(
      this.file,
      this.zone,
      h("div", { class: "field" }, h("label", { for: "column" }, "Column"), h("div", { class: "entry" }, this.column), h("div", { class: "notes" }, h("p", { class: "meaning", id: "column-meaning" }, "The column's name, if the file has several."))),
      this.error,
      this.result,
    );
    this.file.addEventListener("change", () => this.take(this.file.files[0]));
    this.column.addEventListener("change", () => this.text !== undefined && this.#upload());
    for (const name of ["dragenter", "dragover"]) {
      this.zone.addEventListener(name, (event) => {
        event.preventDefault();
        this.zone.classList.add("over");
      });
    }
    for (const name of ["dragleave", "drop"]) this.zone.addEventListener(name, () => this.zone.classList.remove("over"));
    this.zone.addEventListener("drop", (event) => {
      event.preventDefault();
      this.take(event.dataTransfer.files[0]);
    });
    // A file dropped beside the zone must not replace the page.
    for (const name of ["dragover", "drop"]) window.addEventListener(name, (event) => event.preventDefault());
  }

  async take(file) {
    if (!file) return;
    if (file.size > LARGEST) {
      this.#refuse(`counts must be a file of at most ${LARGEST / 1024 / 1024} MiB, got ${(file.size / 1024 / 1024).toFixed(1)} MiB: use groupdp people for it.`);
      return;
    }
    this.name = file.name;
    this.text = await file.text();
    await this.#upload();
  }

  async #upload() {
    const question = this.question();
    const column = this.column.value.trim();
    try {
      const answer = await ask("people", { ...question, csv: this.text, ...(column ? { column } : {}) });
      this.tally = answer.counts.map((row) => [row.count, row.people]);
      this.#deliver(answer, null);
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      this.tally = null;
      this.#refuse(error.message);
    }
  }

  /** The run has changed: the same people again. */
  refresh() {
    if (this.tally) this.slow.ask({ ...this.question(), tally: this.tally });
  }

  #refuse(sentence) {
    this.error.textContent = sentence;
    this.result.replaceChildren(h("p", { class: "meaning" }, "No answer."));
  }

  #deliver(answer, refusal) {
    this.result.classList.toggle("stale", !answer);
    if (refusal) this.#refuse(refusal.message);
    if (!answer) return;
    this.error.textContent = "";
    const bars = answer.protected.map(({ threshold, people }) => {
      const share = people / answer.people;
      return h(
        "div",
        { class: "bar" },
        h("span", {}, `ε ≤ ${threshold}`),
        h("meter", { min: "0", max: "1", value: String(share), "aria-label": `People with epsilon of at most ${threshold}` }),
        h("span", { class: "of" }, `${count(people)} of ${count(answer.people)}`),
      );
    });
    const rows = answer.counts.map((row) => [count(row.count), count(row.people), row.epsilon.lower_text, row.epsilon.upper_text]);
    const shown = rows.length > 200 ? [...rows.slice(0, 199), rows.at(-1)] : rows;
    this.result.replaceChildren(
      h("p", {}, `${this.name}: ${count(answer.people)} people with ${count(answer.examples)} examples. Certified ε of each:`),
      ...bars,
      h("details", {}, h("summary", {}, "By number of examples"), h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "People by number of examples" }, table("Epsilon by number of examples", ["examples", "people", "at least", "at most"], shown))),
    );
  }
}
