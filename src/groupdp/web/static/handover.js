// The same question elsewhere: link, command line, Python, run file, statement.

import { ask, Refusal } from "./api.js";
import { byId, h } from "./dom.js";
import { copy, download } from "./take.js";

const KINDS = [
  { name: "command", label: "Command line", file: "groupdp.sh", type: "text/x-shellscript" },
  { name: "python", label: "Python", file: "epsilon.py", type: "text/x-python" },
  { name: "toml", label: "run.toml", file: "run.toml", type: "application/toml" },
  { name: "short", label: "In short", file: "summary.txt", type: "text/plain" },
  { name: "markdown", label: "Statement, Markdown", file: "statement.md", type: "text/markdown" },
  { name: "latex", label: "Statement, LaTeX", file: "statement.tex", type: "text/x-tex" },
  { name: "certificate", label: "Certificate", file: "claim.json", type: "application/json" },
];

export class HandoverView {
  constructor(question) {
    this.question = question;
    this.kind = "command";
    this.formats = ["markdown"];
    this.text = h("pre", { tabindex: "0", role: "region", "aria-label": "The question in the chosen format" }, "…");
    this.buttons = h("div", { class: "buttons", role: "group", "aria-label": "Form" });
    this.status = h("span", { class: "meaning", role: "status" });
    byId("handover").replaceChildren(
      this.buttons,
      this.text,
      h(
        "div",
        { class: "buttons" },
        h("button", { type: "button", id: "copy-text", onclick: async () => this.#say((await copy(this.text.textContent)) ? "Copied." : "The browser does not allow copying.") }, "Copy"),
        h("button", { type: "button", id: "download-text", onclick: () => this.#download() }, "Download"),
        this.status,
      ),
    );
    this.#drawButtons();
  }

  #drawButtons() {
    const offered = KINDS.filter((one) => ["command", "python", "toml", "short", "certificate"].includes(one.name) || this.formats.includes(one.name));
    this.buttons.replaceChildren(
      ...offered.map((one) =>
        h("button", { type: "button", "data-kind": one.name, "aria-pressed": String(one.name === this.kind), onclick: () => { this.kind = one.name; this.#drawButtons(); this.refresh(); } }, one.label),
      ),
    );
    this.buttons.querySelector(`[data-kind="${this.kind}"]`)?.toggleAttribute("data-on", true);
  }

  #say(sentence) {
    this.status.textContent = sentence;
    setTimeout(() => (this.status.textContent = ""), 3000);
  }

  #download() {
    const { file, type } = KINDS.find((one) => one.name === this.kind);
    download(file, this.text.textContent, type);
  }

  refresh() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.#ask(), 250);
  }

  async #ask() {
    const kind = this.kind;
    this.number = (this.number ?? 0) + 1;
    const number = this.number;
    try {
      const answer = ["command", "python", "toml"].includes(kind)
        ? await ask("handover", this.question())
        : kind === "certificate"
          ? await ask("certificate", this.question())
          : await ask("statement", { ...this.question(), format: kind });
      if (number !== this.number) return;
      if (answer.statement_formats && answer.statement_formats.join() !== this.formats.join()) {
        this.formats = answer.statement_formats;
        this.#drawButtons();
      }
      this.text.textContent = answer.text ?? answer[kind];
      if (kind === "certificate") this.status.textContent = `The independent checker says: ${answer.outcome}.`;
    } catch (error) {
      if (!(error instanceof Refusal)) throw error;
      if (number === this.number) this.text.textContent = error.message;
    }
  }
}
