// All requests to the server. An error is thrown with one sentence for the reader as its message.

import { say } from "./texts.js";

/** An error whose message is a sentence for the reader. */
export class ApiError extends Error {
  constructor(sentence, status) {
    super(sentence);
    this.status = status;
  }
}

/** The token of the server: from the address, which then hides it, or stored for reloads. */
function takeToken() {
  const found = new URLSearchParams(location.hash.slice(1)).get("token");
  if (found) {
    sessionStorage.setItem("hushmeter-token", found);
    history.replaceState(null, "", location.pathname);
  }
  return found ?? sessionStorage.getItem("hushmeter-token");
}

const token = takeToken();
// A token that is entered into the address of an open page changes the fragment alone.
addEventListener("hashchange", () => location.hash.includes("token=") && location.reload());

async function call(method, path, { json, form, signal } = {}) {
  const headers = { "X-Hushmeter": "1" };
  if (token) headers.Authorization = `Bearer ${token}`;
  if (json !== undefined) headers["Content-Type"] = "application/json";
  const body = form ?? (json === undefined ? undefined : JSON.stringify(json));
  let answer;
  try {
    answer = await fetch(`/api/${path}`, { method, headers, body, signal, cache: "no-store" });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new ApiError(say("error.unreachable"), 0);
  }
  if (!answer.ok) throw new ApiError(await sentenceOf(answer), answer.status);
  return answer;
}

async function sentenceOf(answer) {
  if (answer.status === 401) return say("error.token");
  try {
    return (await answer.json()).error ?? say("error.unknown", { status: answer.status });
  } catch {
    return say("error.unknown", { status: answer.status });
  }
}

const post = async (path, json, signal) => (await call("POST", path, { json, signal })).json();

function fileForm(file, options = {}) {
  const form = new FormData();
  form.append("file", file);
  for (const [name, value] of Object.entries(options)) if (value) form.append(name, value);
  return form;
}

export const api = {
  about: async () => (await call("GET", "about")).json(),
  live: async () => (await call("GET", "live")).json(),
  example: (name) => post("examples", { name }),
  upload: async (file, options) =>
    (await call("POST", "traces", { form: fileForm(file, options) })).json(),
  forget: (id) => call("DELETE", `traces/${encodeURIComponent(id)}`),
  view: (request, signal) => post("view", request, signal),
  attack: (request, signal) => post("attack", request, signal),
  restore: (request, signal) => post("restore", request, signal),
  calendar: (request, signal) => post("calendar", request, signal),
  bounds: (request, signal) => post("bounds", request, signal),
  plan: (request, signal) => post("plan", request, signal),
  findings: (request) => post("findings", request),
  left: (request, signal) => post("left", request, signal),
  release: (request) => post("release", request),
  learnHome: (trace) => post("homes/learn", { trace }),
  readHome: async (file) => (await call("POST", "homes/read", { form: fileForm(file) })).json(),
  appliance: (words) => post("appliance", { words }),
  writeHome: async (home, trace) => (await call("POST", "homes/write", { json: { home, trace } })).text(),
};

/**
 * Runs a task for the newest input only. Inputs that follow each other quickly start one run; a
 * newer run aborts the older one. `onBusy(true)` and `onBusy(false)` are called in pairs, from the
 * first input until the answer to the last one is shown.
 */
export class Latest {
  #timer = 0;
  #first = 0;
  #run = null;
  #took = 100;

  constructor(task, { onBusy, onError }) {
    this.task = task;
    this.onBusy = onBusy;
    this.onError = onError;
  }

  /** Ask for a run soon. While inputs keep coming, runs start as fast as they are answered. */
  ask() {
    const now = performance.now();
    if (!this.#timer) {
      this.#first = now;
      this.onBusy(true);
    }
    clearTimeout(this.#timer);
    const patience = Math.max(160, 1.5 * this.#took) - (now - this.#first);
    this.#timer = setTimeout(() => this.#start(), Math.max(0, Math.min(50, patience)));
  }

  /** Give up a run that is asked for or under way: nobody needs its answer any more. */
  cancel() {
    if (this.#timer) {
      clearTimeout(this.#timer);
      this.#timer = 0;
      this.onBusy(false);
    }
    this.#run?.abort();
    this.#run = null;
  }

  async #start() {
    this.#timer = 0;
    this.#run?.abort();
    const run = new AbortController();
    const began = performance.now();
    this.#run = run;
    try {
      await this.task(run.signal);
    } catch (error) {
      if (!run.signal.aborted) this.onError(error);
    } finally {
      if (this.#run === run) {
        this.#run = null;
        this.#took = performance.now() - began;
      }
      this.onBusy(false);
    }
  }
}
