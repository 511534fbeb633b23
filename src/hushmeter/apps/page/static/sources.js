// Where readings come from: a file that is dropped or chosen, or an example home.

import { api } from "./api.js";
import { releasedIntervals } from "./controls.js";
import { create, find } from "./dom.js";
import { setZone } from "./format.js";
import { homeChange } from "./store.js";
import { say, sayOr } from "./texts.js";

const FIELDS = ["tz", "unit", "stamp", "time_column", "value_column", "building"];

/** Wires the file field, the drop area and the examples; readings that were read go into the store. */
export function wireSources(store, about, { busy, problem }) {
  const take = async (ask, isExample) => {
    const turn = store.expect("session");
    const homeBefore = store.values.home;
    busy(true);
    try {
      const session = await ask();
      if (turn.isCurrent()) {
        problem("", "file");
        open(session, isExample, store.values.home !== homeBefore);
      } else {
        forget(session);
      }
    } catch (error) {
      if (turn.isCurrent()) report(error);
    } finally {
      busy(false);
    }
  };

  const open = (session, isExample, keepHome) => {
    const { values } = store;
    const kind = isExample ? "example" : "file";
    // A home that was changed while the file was being read is the later choice. A file that names
    // no appliances leaves the home as it is, but not the one of an example.
    const named = session.home ?? (values.homeSource?.kind === "example" ? null : values.home);
    const source = session.home ? { kind, name: session.name } : named && values.homeSource;
    const homeChoice = keepHome ? {} : homeChange(named, source, values);
    if (values.session) forget(values.session);
    const every = releasedIntervals(about, session).includes(values.every) ? values.every : null;
    const zone = session.zone ?? Intl.DateTimeFormat().resolvedOptions().timeZone ?? "UTC";
    setZone(zone);
    store.set({ session, isExample, every, zone, findings: null, finding: null, ...homeChoice });
  };

  const report = (error) => {
    const sentence = inPageWords(error.message);
    if (sentence !== error.message) find("read-options").parentElement.open = true;
    problem(sentence, "file");
  };

  addExamples(about, take);
  fillReadOptions();
  const upload = (file) => file && take(() => api.upload(file, readOptions()), false);
  const field = find("file");
  const takeChosen = () => {
    upload(field.files[0]);
    field.value = "";
  };
  field.addEventListener("change", takeChosen);
  // Somebody may have chosen a file while the page was still loading.
  takeChosen();
  wireDrop(upload);
}

const forget = ({ id }) => api.forget(id).catch(() => {});

function addExamples(about, take) {
  find("examples").append(
    ...Object.entries(about.examples).map(([name, title], index) => {
      const text = sayOr(`source.examples.${name}`, title);
      const className = index === 0 ? "button" : "button link";
      const button = create("button", { type: "button", title, className }, text);
      button.dataset.example = name;
      button.addEventListener("click", () => take(() => api.example(name), true));
      return button;
    }),
  );
}

function wireDrop(upload) {
  const hover = (event, on) => {
    event.preventDefault();
    document.documentElement.classList.toggle("dropping", on);
  };
  addEventListener("dragover", (event) => hover(event, true));
  addEventListener("dragleave", (event) => event.relatedTarget === null && hover(event, false));
  addEventListener("drop", (event) => {
    hover(event, false);
    upload(event.dataTransfer.files[0]);
  });
  find("drop").addEventListener("submit", (event) => event.preventDefault());
}

function fillReadOptions() {
  find("read-options").append(
    ...FIELDS.map((field) => {
      const id = `read-${field}`;
      const input = create("input", { id, autocomplete: "off", placeholder: sayOr(`source.field.${field}_hint`, "") });
      return create("div", { className: "field" }, create("label", { htmlFor: id }, say(`source.field.${field}`)), input);
    }),
  );
}

/** A sentence that names options (`unit=kWh`, or --unit kWh), with the names of the inputs instead. */
export function inPageWords(sentence) {
  const purposes = sentence.replace(/--for (hour|day|month|profile|register)/g, (_, name) => say("wishes.choose", { purpose: say(`wishes.purposes.${name}`) }));
  const flags = purposes.replace(/`([a-z_]+)=([^`]*)`/g, (_, name, value) => `--${name.replaceAll("_", "-")} ${value}`.trim());
  return flags.replace(/--([a-z]+(?:-[a-z]+)*)/g, (option, name) => {
    const field = name.replaceAll("-", "_");
    return FIELDS.includes(field) ? say("source.option", { field: say(`source.field.${field}`) }) : option;
  });
}

function readOptions() {
  return Object.fromEntries(FIELDS.map((field) => [field, find(`read-${field}`).value.trim()]));
}
