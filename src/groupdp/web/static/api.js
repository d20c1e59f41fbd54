// Asking the server. A live question is asked again with the newest state as soon as its last answer is there; a slow one
// waits until the pointer rests, and is cancelled by the next move.

/** Milliseconds after which a live question is slow: the page says that it is computing, and a newer question replaces it. */
const PATIENCE = 250;

export class Refusal extends Error {
  constructor(error, status) {
    super(error.sentence);
    Object.assign(this, error, { status });
  }
}

export async function ask(name, body, signal) {
  let response;
  try {
    response = await fetch(`/api/${name}`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal({ kind: "unreachable", sentence: "The server does not answer: is groupdp serve still running?" }, 0);
  }
  const answer = await response.json();
  if (!response.ok) throw new Refusal(answer.error, response.status);
  return answer;
}

export class Live {
  #name;
  #deliver;
  #busy = false;
  #next = null;
  #slow = false;
  #abort = null;

  constructor(name, deliver) {
    this.#name = name;
    this.#deliver = deliver;
  }

  async ask(body) {
    this.#next = body;
    if (this.#busy) {
      if (this.#slow) this.#abort.abort();
      return;
    }
    this.#busy = true;
    let tries = 0;
    while (this.#next !== null) {
      const asked = this.#next;
      this.#next = null;
      this.#abort = new AbortController();
      this.#slow = false;
      const timer = setTimeout(() => {
        this.#slow = true;
        if (this.#next !== null) this.#abort.abort();
        else this.#deliver(null, null, asked); // what is shown is no longer the answer
      }, PATIENCE);
      try {
        this.#deliver(await ask(this.#name, asked, this.#abort.signal), null, asked);
      } catch (error) {
        if (error.name === "AbortError") continue;
        if (!(error instanceof Refusal)) throw error;
        if (this.#next !== null) continue;
        if (error.status === 503 && tries < 5) {
          tries += 1;
          await new Promise((go) => setTimeout(go, 500));
          this.#next ??= asked;
        } else this.#deliver(null, error, asked);
      } finally {
        clearTimeout(timer);
      }
    }
    this.#busy = false;
  }

  drop() {
    this.#next = null;
  }
}

/** At most two slow questions of this page are under way at a time. */
let turns = 2;
const queue = [];

async function takeTurn() {
  if (turns > 0) turns -= 1;
  else await new Promise((go) => queue.push(go));
}

function giveTurn() {
  if (queue.length > 0) queue.shift()();
  else turns += 1;
}

export class Slow {
  #name;
  #deliver;
  #rest;
  #timer = 0;
  #abort = null;
  #last = "";

  constructor(name, deliver, rest = 250) {
    this.#name = name;
    this.#deliver = deliver;
    this.#rest = rest;
  }

  ask(body) {
    const text = JSON.stringify(body);
    if (text === this.#last) return;
    this.drop();
    this.#last = text;
    this.#deliver(null, null, body); // what is shown is no longer the answer
    this.#timer = setTimeout(() => this.#run(body), this.#rest);
  }

  async #run(body, again = 3) {
    const abort = new AbortController();
    this.#abort = abort;
    await takeTurn();
    try {
      if (abort.signal.aborted) return;
      const answer = await ask(this.#name, body, abort.signal);
      if (!abort.signal.aborted) this.#deliver(answer, null, body);
    } catch (error) {
      if (abort.signal.aborted) return;
      if (error.status === 503 && again > 0) this.#timer = setTimeout(() => this.#run(body, again - 1), 1000);
      else if (error instanceof Refusal) this.#deliver(null, error, body);
      else throw error;
    } finally {
      giveTurn();
    }
  }

  drop() {
    clearTimeout(this.#timer);
    this.#abort?.abort();
    this.#abort = null;
    this.#last = "";
  }
}
