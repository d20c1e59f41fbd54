// The fields: a text to type in and a slider to drag, each with its unit, its meaning and, in the same place, what is wrong.

import { h } from "./dom.js";
import { TOP, position, step, valueAt } from "./slider.js";

/** One field. `change(text)` is called with every new value; `where` tells fields of the same name apart. */
export function fieldRow(field, where, text, change, { dragged = true, label = field.label } = {}) {
  const id = `${where}-${field.name}`;
  const error = h("p", { class: "error", id: `${id}-error`, role: "alert" });
  const meaning = h("p", { class: "meaning", id: `${id}-meaning` }, field.meaning);
  const described = `${id}-meaning ${id}-error`;
  if (field.kind === "flag") {
    const box = h("input", { type: "checkbox", id, "aria-describedby": described });
    box.checked = text === "true";
    box.addEventListener("change", () => change(String(box.checked)));
    return h("div", { class: "field flag", "data-field": id }, box, h("label", { for: id }, label), h("div", { class: "notes" }, meaning, error));
  }
  const entry = h("input", {
    id,
    type: "text",
    inputmode: field.kind === "table" ? "text" : field.kind === "integer" ? "numeric" : "decimal",
    autocomplete: "off",
    spellcheck: "false",
    "aria-describedby": described,
  });
  entry.value = text;
  const parts = [h("label", { for: id }, label), h("div", { class: "entry" }, entry, h("span", { class: "unit" }, field.unit))];
  let slider = null;
  const place = (value) => {
    if (slider === null) return;
    const found = position(field, value);
    if (found !== null) slider.value = String(found);
    slider.setAttribute("aria-valuetext", `${value} ${field.unit}`);
  };
  if (dragged && field.kind !== "table") {
    slider = h("input", { type: "range", id: `${id}-slider`, min: "0", max: String(TOP), step: String(step(field)), "aria-label": label });
    place(text);
    slider.addEventListener("input", () => {
      entry.value = valueAt(field, Number(slider.value));
      slider.setAttribute("aria-valuetext", `${entry.value} ${field.unit}`);
      change(entry.value);
    });
    parts.push(slider);
  }
  entry.addEventListener("input", () => {
    place(entry.value);
    change(entry.value);
  });
  const row = h("div", { class: field.kind === "table" ? "field wide" : "field", "data-field": id }, parts, h("div", { class: "notes" }, meaning, error));
  row.put = (value) => {
    entry.value = value;
    place(value);
  };
  return row;
}

/** A choice with the meaning of what is chosen under it. */
export function choiceRow(label, where, name, options, chosen, change) {
  const id = `${where}-${name}`;
  const meaning = h("p", { class: "meaning", id: `${id}-meaning` }, options.find((one) => one.name === chosen)?.meaning ?? "");
  const error = h("p", { class: "error", id: `${id}-error`, role: "alert" });
  const select = h(
    "select",
    { id, "aria-describedby": `${id}-meaning ${id}-error` },
    options.map((one) => h("option", { value: one.name, selected: one.name === chosen, disabled: one.disabled }, one.label ?? one.name)),
  );
  select.addEventListener("change", () => change(select.value));
  return h("div", { class: "field", "data-field": id }, h("label", { for: id }, label), select, h("div", { class: "notes" }, meaning, error));
}

/** A small button that changes which fields there are. */
function instead(text, onclick) {
  return h("p", { class: "instead right" }, h("button", { type: "button", class: "link", onclick }, text));
}

/** All fields of a run. `changed()` after every new value, `rebuilt()` when there are other fields now. */
export function runForm(form, run, changed, rebuilt) {
  const set = (object, name) => (text) => {
    object[name] = text;
    changed();
  };
  const training = (phase, where, put) => {
    const [length, other] = phase.length === "steps" ? ["steps", "epochs"] : ["epochs", "steps"];
    return [
      choiceRow("Batches", where, "sampling", [...form.samplings.values()], phase.sampling, (name) => { phase.sampling = name; form.settle(run); rebuilt(`${where}-sampling`); }),
      form.samplingFields(phase).map((name) => put(name)),
      form.hasRate(phase)
        ? instead(phase.sizes ? "Give the sampling rate instead" : "Give batch and dataset size instead", () => { phase.sizes = !phase.sizes; rebuilt(`${where}-${phase.sizes ? "batch_size" : "sampling_rate"}`); })
        : [],
      put("noise_multiplier"),
      put(length),
      instead(`Give ${other} instead`, () => { phase.length = other; rebuilt(`${where}-${other}`); }),
      h("details", { class: "more", open: form.value(phase, "microbatch_size") !== "1" }, h("summary", {}, "Microbatches"), put("microbatch_size", { dragged: false })),
    ].flat();
  };
  const phases = run.phases.map((phase, index) => {
    const where = `phase${index}`;
    const several = run.phases.length > 1;
    const put = (name, options) => fieldRow(form.field(phase, name), where, form.value(phase, name), set(phase.values, name), options);
    const remove = several
      ? h("button", { type: "button", class: "quiet", "aria-label": `Remove phase ${index + 1}`, onclick: () => { run.phases.splice(index, 1); rebuilt(); } }, "Remove")
      : null;
    return h(
      "fieldset",
      { class: "card" },
      h("legend", {}, several ? `Phase ${index + 1} of the run` : "The run"),
      remove,
      choiceRow("Mechanism", where, "mechanism", [...form.mechanisms.values()], phase.mechanism, (name) => { phase.mechanism = name; form.settle(run); rebuilt(`${where}-mechanism`); }),
      form.hasSampling(phase) ? training(phase, where, put) : form.phaseFields(phase).map((name) => put(name)),
    );
  });
  const more = run.phases.length < form.mostPhases ? instead("Add a phase", () => { run.phases.push(structuredClone(run.phases.at(-1))); rebuilt(); }) : null;
  if (more) phases.at(-1).append(more);
  const sources = form.hasSources(run);
  const bySource = { kind: "table", unit: "by source", meaning: "How many of each source, such as web=3, books=5." };
  const sizes = form.groupFields(run).map((name) => (sources ? { ...form.fields[name], ...bySource } : form.fields[name]));
  return [
    ...phases,
    h(
      "fieldset",
      { class: "card" },
      h("legend", {}, "The person, and the target"),
      sizes.map((field) => fieldRow(field, "run", run[field.name], set(run, field.name))),
      choiceRow("Neighbour", "run", "adjacency", form.offered(run), run.adjacency, (name) => { run.adjacency = name; rebuilt("run-adjacency"); }),
      fieldRow(form.fields.delta, "run", run.delta, set(run, "delta")),
    ),
  ];
}

/** Show a refusal beside its field; without one, nowhere. Returns whether a field was found. */
export function showError(root, refusal) {
  for (const row of root.querySelectorAll(".field.wrong")) {
    row.classList.remove("wrong");
    row.querySelector("input, select").removeAttribute("aria-invalid");
    row.querySelector(".error").textContent = "";
  }
  if (!refusal?.field) return false;
  const where = refusal.phase === null ? "run" : `phase${refusal.phase}`;
  const row = root.querySelector(`[data-field="${where}-${refusal.field}"]`) ?? root.querySelector(`[data-field$="-${refusal.field}"]`);
  if (row === null) return false;
  row.classList.add("wrong");
  row.querySelector("input, select").setAttribute("aria-invalid", "true");
  row.querySelector(".error").textContent = refusal.message;
  return true;
}
