// The state of the page, and the address that reproduces it. Values are kept as they were typed.
//
//   #sampling=poisson&sampling_rate=0.01&noise_multiplier=1&steps=2000&group_size=9&adjacency=add-or-remove&delta=1e-6
//
// A second phase's fields begin with "phase2.", those of a second run with "b."; fields with their first values may be left out.

const NEIGHBOUR = ["group_size", "removed", "added", "adjacency", "delta"];

export class Form {
  constructor(description) {
    this.fields = description.fields;
    this.mechanisms = new Map(description.mechanisms.map((one) => [one.name, one]));
    this.samplings = new Map(description.samplings.map((one) => [one.name, one]));
    this.adjacencies = new Map(description.adjacencies.map((one) => [one.name, one]));
    this.mostPhases = description.most_phases;
  }

  text(name) {
    const value = this.fields[name].default;
    return typeof value === "object" ? Object.entries(value).map(([key, item]) => `${key}=${item}`).join(", ") : String(value);
  }

  newPhase() {
    return { mechanism: "dpsgd", sampling: "poisson", length: "steps", sizes: false, values: {} };
  }

  newRun() {
    const [group_size, removed, added] = ["group_size", "removed", "added"].map((name) => this.text(name));
    return { phases: [this.newPhase()], group_size, removed, added, adjacency: "add-or-remove", delta: "1e-6" };
  }

  newState() {
    return { runs: [this.newRun()], active: 0, scale: "log", parameter: "noise_multiplier", epsilon: "8" };
  }

  phaseFields(phase) {
    if (!this.hasSampling(phase)) return this.mechanisms.get(phase.mechanism).fields.map((field) => field.name);
    return [...this.samplingFields(phase), "noise_multiplier", phase.length, "microbatch_size"];
  }

  /** The fields of a phase's sampling; a rate may be given by the sizes of batch and dataset. */
  samplingFields(phase) {
    const { fields } = this.samplings.get(phase.sampling);
    return phase.sizes ? [...new Set(fields.flatMap((name) => (name === "sampling_rate" ? ["batch_size", "dataset_size"] : [name])))] : fields;
  }

  /** Whether a phase's sampling has a rate. */
  hasRate(phase) {
    return this.samplings.get(phase.sampling).fields.includes("sampling_rate");
  }

  /** Whether a phase is training on batches; another mechanism has fields of its own alone. */
  hasSampling(phase) {
    return this.mechanisms.get(phase.mechanism).has_sampling;
  }

  /** What says which adjacencies a phase has a law for: its sampling, or another mechanism. */
  #law(phase) {
    return this.hasSampling(phase) ? this.samplings.get(phase.sampling) : this.mechanisms.get(phase.mechanism);
  }

  /** A field as its mechanism describes it. */
  field(phase, name) {
    return this.mechanisms.get(phase.mechanism).fields.find((one) => one.name === name) ?? this.fields[name];
  }

  value(phase, name) {
    return phase.values[name] ?? this.text(name);
  }

  write(state) {
    const pairs = [];
    state.runs.forEach((run, index) => {
      const prefix = index === 0 ? "" : "b.";
      run.phases.forEach((phase, number) => {
        const inner = number === 0 ? prefix : `${prefix}phase${number + 1}.`;
        pairs.push(this.hasSampling(phase) ? [`${inner}sampling`, phase.sampling] : [`${inner}mechanism`, phase.mechanism]);
        for (const name of this.phaseFields(phase)) {
          const text = this.value(phase, name);
          if (!(this.field(phase, name).optional && text === this.text(name))) pairs.push([`${inner}${name}`, text]);
        }
      });
      for (const name of [...this.groupFields(run), "adjacency", "delta"]) pairs.push([`${prefix}${name}`, run[name]]);
    });
    if (state.scale !== "log") pairs.push(["scale", state.scale]);
    if (state.parameter !== "noise_multiplier") pairs.push(["choose", state.parameter]);
    if (state.epsilon !== "8") pairs.push(["target", state.epsilon]);
    return pairs.map(([name, text]) => `${name}=${encodeURIComponent(text).replace(/%20/g, "+")}`).join("&");
  }

  read(fragment) {
    const state = this.newState();
    const pairs = new URLSearchParams(fragment.replace(/^#/, "").slice(0, 20000));
    if ([...pairs.keys()].some((key) => key.startsWith("b."))) state.runs.push(this.newRun());
    for (const [key, text] of pairs) this.#put(state, key, text.slice(0, 500));
    return state;
  }

  #put(state, key, text) {
    if (key === "scale") state.scale = text === "linear" ? "linear" : "log";
    else if (key === "choose") state.parameter = text;
    else if (key === "target") state.epsilon = text;
    else {
      const match = /^(b\.)?(?:phase(\d{1,2})\.)?([a-z_]+)$/.exec(key);
      if (!match) return;
      const run = state.runs[match[1] ? 1 : 0];
      const index = Number(match[2] ?? 1) - 1;
      const name = match[3];
      if (NEIGHBOUR.includes(name)) {
        if (name !== "adjacency" || this.adjacencies.has(text)) run[name] = text;
        return;
      }
      if (index < 0 || index >= this.mostPhases) return;
      while (run.phases.length <= index) run.phases.push(this.newPhase());
      const phase = run.phases[index];
      if (name === "mechanism") {
        if (this.mechanisms.has(text)) phase.mechanism = text;
      } else if (name === "sampling") {
        if (this.samplings.has(text)) phase.sampling = text;
      } else if (name in this.fields) {
        if (name === "epochs" || name === "steps") phase.length = name;
        if (name === "batch_size" || name === "sampling_rate") phase.sizes = name === "batch_size";
        phase.values[name] = text;
      }
    }
  }

  /** The question of the API. Non-numeric values are sent as typed: the library says what is wrong with them. */
  question(run) {
    return {
      phases: run.phases.map((phase) => {
        const document = this.hasSampling(phase) ? { sampling: phase.sampling } : { mechanism: phase.mechanism };
        for (const name of this.phaseFields(phase)) {
          const value = this.#json(name, this.value(phase, name));
          if (value !== undefined) document[name] = value;
        }
        return document;
      }),
      ...Object.assign({}, ...this.groupFields(run).map((name) => this.#given(name, run[name], this.hasSources(run) ? "table" : undefined))),
      ...(run.adjacency === "exchange" ? {} : { adjacency: run.adjacency }),
      ...this.#given("delta", run.delta),
    };
  }

  /** The fields that say how many examples: one number, or how many are removed and added. */
  groupFields(run) {
    return run.adjacency === "exchange" ? ["removed", "added"] : ["group_size"];
  }

  /** Whether a group is one number of examples, so that there is a curve over it. */
  hasOneSize(run) {
    return !this.hasSources(run) && run.adjacency !== "exchange";
  }

  /** Whether earlier methods have an answer for this run at all. */
  hasBaselines(run) {
    const sampled = run.phases.every((phase) => this.#law(phase).has_baselines);
    return sampled && this.adjacencies.get(run.adjacency).has_baselines;
  }

  /** Whether spread allocation could take the place of shuffling. */
  shuffles(run) {
    return this.hasOneSize(run) && run.phases.some((phase) => this.#law(phase).shuffles);
  }

  /** The adjacencies with those that a phase's sampling has no law for marked. */
  offered(run) {
    const supports = (name) => run.phases.every((phase) => this.#law(phase).adjacencies.includes(name));
    return [...this.adjacencies.values()].map((one) => ({ ...one, disabled: !supports(one.name) }));
  }

  /** After another sampling was chosen: an adjacency that it has a law for, and a group counted as it counts. */
  settle(run) {
    const offered = this.offered(run);
    if (offered.find((one) => one.name === run.adjacency)?.disabled) run.adjacency = offered.find((one) => !one.disabled)?.name ?? run.adjacency;
    for (const name of ["group_size", "removed", "added"]) {
      if (this.hasSources(run) && !run[name].includes("=")) run[name] = "web=3, books=5";
      if (!this.hasSources(run) && run[name].includes("=")) run[name] = this.text(name);
    }
  }

  hasSources(run) {
    return run.phases.some((phase) => this.phaseFields(phase).some((name) => this.fields[name].kind === "table"));
  }

  number(text) {
    const trimmed = text.trim();
    if (/^\d+$/.test(trimmed) && !Number.isSafeInteger(Number(trimmed))) return trimmed; // a double would change it
    return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(trimmed) && Number.isFinite(Number(trimmed)) ? Number(trimmed) : trimmed;
  }

  #given(name, text, kind) {
    const value = this.#json(name, text, kind);
    return value === undefined ? {} : { [name]: value };
  }

  #json(name, text, kind = this.fields[name].kind) {
    if (kind === "flag") return text === "true";
    if (text.trim() === "") return undefined;
    if (kind !== "table") return this.number(text);
    if (!text.includes("=")) return this.number(text);
    return Object.fromEntries(
      text.split(",").map((part) => {
        const [key, value = ""] = part.split("=");
        return [key.trim(), this.number(value)];
      }),
    );
  }
}
