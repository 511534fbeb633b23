// ① Readings: a dropped or chosen file, or an example home.

import { api } from "./api.js";
import { create, find } from "./dom.js";
import { say, sayOr } from "./texts.js";

const FIELDS = ["tz", "unit", "stamp", "time_column", "value_column", "building"];

/** Wires the ways to get readings; `open(session, isExample)` is called with what the server read. */
export function wireSources(about, { open, busy, problem }) {
  const take = async (ask, isExample) => {
    busy(true);
    try {
      await open(await ask(), isExample);
    } catch (error) {
      const told = inPageWords(error.message);
      if (told !== error.message) find("read-options").parentElement.open = true;
      problem(told);
    } finally {
      busy(false);
    }
  };
  const upload = (file) => file && take(() => api.upload(file, readOptions()), false);

  find("examples").append(
    ...about.examples.map((example, index) => {
      const text = sayOr(`source.examples.${example.name}`, example.label);
      const button = create("button", { type: "button", title: example.label, className: index === 0 ? "button" : "button link" }, text);
      button.dataset.example = example.name;
      button.addEventListener("click", () => take(() => api.example(example.name), true));
      return button;
    }),
  );
  fillReadOptions();
  const chosen = find("file");
  const takeChosen = () => {
    upload(chosen.files[0]);
    chosen.value = "";
  };
  chosen.addEventListener("change", takeChosen);
  // A file may have been chosen while the page was still loading.
  takeChosen();
  wireDrop(upload);
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

/** A sentence of the reader that names options of the command line, with the names of the fields. */
export function inPageWords(sentence) {
  return sentence.replace(/--([a-z]+(?:-[a-z]+)*)/g, (option, name) => {
    const field = name.replaceAll("-", "_");
    return FIELDS.includes(field) ? say("source.option", { field: say(`source.field.${field}`) }) : option;
  });
}

function readOptions() {
  return Object.fromEntries(FIELDS.map((field) => [field, find(`read-${field}`).value.trim()]));
}
