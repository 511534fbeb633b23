// Where readings come from: a file that is dropped or chosen, or an example home.

import { api } from "./api.js";
import { releasedIntervals } from "./controls.js";
import { create, find } from "./dom.js";
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
      const home = session.home ?? (await typicalHome(about));
      if (turn.isCurrent()) open(session, home, isExample, store.values.home !== homeBefore);
      else forget(session);
    } catch (error) {
      if (turn.isCurrent()) report(error);
    } finally {
      busy(false);
    }
  };

  const open = (session, home, isExample, keepHome) => {
    const { values } = store;
    const kind = session.home ? (isExample ? "example" : "file") : "typical";
    // A home that was changed while the file was being read is the later choice.
    const homeChoice = keepHome ? {} : homeChange(home, { kind, name: session.name }, values);
    if (values.session) forget(values.session);
    const every = releasedIntervals(about, session).includes(values.every) ? values.every : null;
    store.set({ session, isExample, every, ...homeChoice });
  };

  const report = (error) => {
    const sentence = inPageWords(error.message);
    if (sentence !== error.message) find("read-options").parentElement.open = true;
    problem(sentence);
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

/** The home of the first example, to start from if a file does not name any appliances. */
async function typicalHome(about) {
  const session = await api.example(about.examples[0].name);
  forget(session);
  return session.home;
}

function addExamples(about, take) {
  find("examples").append(
    ...about.examples.map((example, index) => {
      const text = sayOr(`source.examples.${example.name}`, example.label);
      const className = index === 0 ? "button" : "button link";
      const button = create("button", { type: "button", title: example.label, className }, text);
      button.dataset.example = example.name;
      button.addEventListener("click", () => take(() => api.example(example.name), true));
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

/** A sentence that names options of the command line, with the names of the fields instead. */
export function inPageWords(sentence) {
  return sentence.replace(/--([a-z]+(?:-[a-z]+)*)/g, (option, name) => {
    const field = name.replaceAll("-", "_");
    return FIELDS.includes(field) ? say("source.option", { field: say(`source.field.${field}`) }) : option;
  });
}

function readOptions() {
  return Object.fromEntries(FIELDS.map((field) => [field, find(`read-${field}`).value.trim()]));
}
