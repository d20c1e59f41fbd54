// The page: one state, shown in the form, in the answers and in the address.

import { AnswerCard } from "./answer.js";
import { Live, Slow } from "./api.js";
import { AttackView } from "./attack.js";
import { CalibrateView } from "./calibrate.js";
import { CurveView, baselineSizes, groupSizes } from "./curve.js";
import { byId, h } from "./dom.js";
import { runForm, showError } from "./form.js";
import { HandoverView } from "./handover.js";
import { PeopleView } from "./people.js";
import { plain } from "./slider.js";
import { Form } from "./state.js";
import { copy, download, pngOf, svgText } from "./take.js";

const NAMES = ["Run A", "Run B"];

class Page {
  constructor(description) {
    this.form = new Form(description);
    this.state = this.form.read(location.hash);
    byId("version").textContent = `groupdp ${description.version}`;
    this.cards = NAMES.map((name) => new AnswerCard(name));
    this.curve = new CurveView((size) => this.pickSize(size));
    this.attack = new AttackView();
    this.people = new PeopleView(() => this.plainQuestion());
    this.handover = new HandoverView(() => this.form.question(this.active));
    this.live = NAMES.map((_, index) => ({
      epsilon: new Live("epsilon", (answer, refusal) => this.putEpsilon(index, answer, refusal)),
      curve: new Live("curve", (answer, refusal, asked) => this.putCurve(index, answer, refusal, asked)),
      tradeoff: new Slow("tradeoff", (answer, refusal) => this.attack.deliver(index, answer, refusal), 350),
      fdp: new Slow("baseline", (answer, refusal) => this.putBefore(index, answer, refusal), 300),
      vadhan: new Slow("baseline", (answer, refusal) => this.putVadhan(index, answer, refusal), 300),
      spread: new Slow("baseline", (answer, refusal) => this.putBefore(index, answer, refusal, "spread"), 300),
    }));
    this.oldTool = new Slow("baseline", (answer, refusal) => this.putBaseline("old-tool", answer, refusal), 150);
    this.calibration = new Slow("calibrate", (answer, refusal) => this.calibrate.deliver(answer, refusal), 120);
    this.buttons();
    this.rebuild();
    window.addEventListener("hashchange", () => {
      if (location.hash.slice(1) !== this.written) {
        this.state = this.form.read(location.hash);
        this.rebuild();
      }
    });
  }

  get active() {
    return this.state.runs[this.state.active];
  }

  /** The question without a group size, for what asks about many. */
  plainQuestion(run = this.active) {
    const { group_size: _size, removed: _removed, added: _added, ...question } = this.form.question(run);
    return question;
  }

  rebuild(focus) {
    const { state } = this;
    const two = state.runs.length > 1;
    state.active = Math.min(state.active, state.runs.length - 1);
    byId("fields").replaceChildren(...runForm(this.form, this.active, () => this.changed(), (id) => this.rebuild(id)).filter(Boolean));
    byId("tabs").hidden = !two;
    byId("tabs").replaceChildren(
      ...(two ? NAMES : []).map((name, index) =>
        h("button", { type: "button", "aria-pressed": String(index === state.active), onclick: () => { state.active = index; this.rebuild(); byId("tabs").children[index].focus(); } }, name),
      ),
    );
    byId("compare").setAttribute("aria-pressed", String(two));
    byId("compare").textContent = two ? "Leave out the second run" : "Compare with a second run";
    byId("answers").classList.toggle("two", two);
    byId("answers").replaceChildren(...this.cards.slice(0, state.runs.length).map((card) => card.root));
    this.cards.forEach((card) => (card.which.hidden = !two));
    this.curve.names = two ? NAMES.map((name) => `${name} (certified)`) : ["this analysis (certified)"];
    this.attack.names = two ? NAMES : ["the best attack"];
    if (!two) {
      this.curve.curves[1] = null;
      this.attack.answers[1] = null;
      for (const question of Object.values(this.live[1])) question.drop();
    }
    this.attack.draw();
    this.calibrate = new CalibrateView(this.form, state, () => this.changed(), (found) => this.use(found));
    for (const button of document.querySelectorAll("[data-scale]")) button.setAttribute("aria-pressed", String(button.dataset.scale === state.scale));
    this.curve.scale = state.scale;
    if (focus) byId(focus)?.focus();
    this.changed();
  }

  changed() {
    const { state } = this;
    state.runs.forEach((run, index) => {
      const live = this.live[index];
      const question = this.form.question(run);
      const sizes = groupSizes(Number(run.group_size));
      if (this.form.hasOneSize(run)) live.curve.ask({ ...this.plainQuestion(run), group_sizes: sizes });
      live.epsilon.ask(question);
      live.tradeoff.ask(question);
      if (this.form.shuffles(run)) live.spread.ask({ ...this.plainQuestion(run), name: "spread", group_sizes: [question.group_size ?? ""] });
      if (this.form.hasBaselines(run)) {
        live.fdp.ask({ ...this.plainQuestion(run), name: "fdp", group_sizes: [question.group_size ?? ""] });
        live.vadhan.ask({ ...this.plainQuestion(run), name: "vadhan", group_sizes: baselineSizes(sizes, Number(run.group_size)) });
      }
    });
    const first = state.runs[0];
    state.runs.forEach((run, index) => {
      const live = this.live[index];
      if (!this.form.hasOneSize(run)) {
        live.curve.drop();
        this.curve.curves[index] = null;
      }
      this.cards[index].rows.spread.hidden = !this.form.shuffles(run);
      if (!this.form.shuffles(run)) live.spread.drop();
      if (this.form.hasBaselines(run)) return;
      for (const name of ["fdp", "vadhan"]) {
        live[name].drop();
        this.cards[index].put(name, "—");
      }
      if (index === 0) this.dropBaselines();
    });
    byId("curve").closest("section").classList.toggle("empty", !this.form.hasOneSize(first));
    this.curve.size = Number(this.active.group_size);
    byId("curve-note").textContent = !this.form.hasOneSize(first)
      ? "A curve needs a group size that is one number."
      : "Click in the chart, or drag the number of examples, to move the marker.";
    if (this.form.hasBaselines(first)) this.oldTool.ask({ ...this.plainQuestion(first), name: "old-tool", group_sizes: groupSizes(Number(first.group_size)) });
    if (this.active.adjacency === "exchange") {
      this.calibration.drop();
      this.calibrate.deliver(null, { field: null, message: "A parameter can be chosen for a group size, not for removed and added examples." });
    } else this.calibration.ask({ ...this.form.question(this.active), parameter: state.parameter, epsilon: this.form.number(state.epsilon) });
    this.people.refresh();
    this.handover.refresh();
    clearTimeout(this.addressTimer);
    this.addressTimer = setTimeout(() => this.writeAddress(), 150);
  }

  writeAddress() {
    this.written = this.form.write(this.state);
    history.replaceState(null, "", `#${this.written}`);
  }

  putEpsilon(index, answer, refusal) {
    const card = this.cards[index];
    if (index === this.state.active) showError(byId("fields"), refusal);
    if (refusal) {
      card.refuse(refusal.message);
    } else if (!answer) {
      card.wait();
    } else {
      card.show(answer);
      if (this.curve.vadhans?.[index]) this.putVadhanText(index);
    }
    byId("strip").replaceChildren(...this.cards.slice(0, this.state.runs.length).map((one) => h("span", {}, `ε ≤ ${one.value.textContent}`)));
    clearTimeout(this.announceTimer);
    this.announceTimer = setTimeout(() => {
      byId("announce").textContent = this.cards.slice(0, this.state.runs.length).map((one) => (one.refusal.textContent ? one.refusal.textContent : one.sentence.textContent)).join(" ");
    }, 800);
  }

  putCurve(index, answer, refusal, asked) {
    byId("curve").classList.toggle("stale", !answer);
    if (!answer) return; // it is being computed, or epsilon's answer says what is wrong
    if (index >= this.state.runs.length) return;
    this.curve.curves[index] = answer;
    this.curve.draw(asked);
  }

  putBaseline(name, answer, refusal) {
    this.curve.baselines[name] = answer?.points ?? null;
    if (answer || refusal) this.curve.waiting.delete(name);
    else this.curve.waiting.add(name);
    if (answer || refusal) this.curve.draw();
  }

  dropBaselines() {
    this.oldTool.drop();
    this.curve.baselines = {};
    this.curve.waiting.clear();
    if (this.curve.vadhans) this.curve.vadhans[0] = null;
  }

  putVadhan(index, answer, refusal) {
    this.curve.vadhans ??= [];
    this.curve.vadhans[index] = answer?.points ?? null;
    this.cards[index].put("vadhan", refusal ? "—" : "…");
    if (answer) this.putVadhanText(index);
    if (index === 0) this.putBaseline("vadhan", answer, refusal);
  }

  putVadhanText(index) {
    const size = Number(this.state.runs[index]?.group_size);
    this.cards[index].put("vadhan", this.curve.vadhans[index].find((point) => point.group_size === size)?.text ?? "—");
  }

  putBefore(index, answer, refusal, key = "fdp") {
    this.cards[index].put(key, refusal ? "—" : (answer?.points[0].text ?? "…"));
  }

  pickSize(size) {
    if (!this.form.hasOneSize(this.active)) return;
    this.active.group_size = String(Math.max(1, Math.round(size)));
    document.querySelector('[data-field="run-group_size"]').put(this.active.group_size);
    this.changed();
  }

  /** Put a calibrated value into the run. */
  use({ asked, parameter, value, value_text: text }) {
    const run = this.active;
    const exact = Number.isInteger(value) ? String(value) : text;
    if (asked === "group_size") run.group_size = exact;
    else if (parameter === "noise_factor") {
      for (const phase of run.phases) phase.values.noise_multiplier = plain(Number(this.form.value(phase, "noise_multiplier")) * value);
    } else {
      const phase = run.phases[0];
      if (asked === "steps") phase.length = "steps";
      if (asked === "sampling_rate") phase.sizes = false;
      phase.values[asked] = exact;
    }
    this.rebuild();
  }

  buttons() {
    byId("compare").addEventListener("click", () => {
      if (this.state.runs.length > 1) this.state.runs.length = 1;
      else this.state.runs.push(structuredClone(this.state.runs[0]));
      this.state.active = this.state.runs.length - 1;
      this.rebuild();
    });
    byId("copy-link").addEventListener("click", async (event) => {
      this.writeAddress();
      const done = await copy(location.href);
      event.target.textContent = done ? "Link copied" : "Copy the address";
      setTimeout(() => (event.target.textContent = "Copy link"), 2000);
    });
    document.querySelector(".skip").addEventListener("click", (event) => {
      event.preventDefault(); // the address is the state's
      byId("answer").focus();
    });
    for (const button of document.querySelectorAll("[data-scale]")) {
      button.addEventListener("click", () => {
        this.state.scale = button.dataset.scale;
        this.rebuild();
      });
    }
    for (const button of document.querySelectorAll("[data-take]")) {
      button.addEventListener("click", async () => {
        const kind = button.dataset.take;
        const { root } = this.curve.chart;
        if (kind === "csv") download("curve.csv", this.curve.csv(), "text/csv");
        else if (kind === "svg") download("curve.svg", svgText(root), "image/svg+xml");
        else download("curve.png", await pngOf(root), "image/png");
      });
    }
    // On a narrow screen the fields hide the answer: a strip shows it until it is in view.
    new IntersectionObserver(([entry]) => byId("strip").classList.toggle("away", entry.isIntersecting)).observe(byId("answers"));
    byId("form").addEventListener("submit", (event) => event.preventDefault());
  }
}

const response = await fetch("/api/form");
new Page(await response.json());
