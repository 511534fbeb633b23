// Small helper functions for the elements of the page.

/** The element with an id. */
export const find = (id) => document.getElementById(id);

/** A new element with properties and children. */
export function create(tag, properties = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name in element) element[name] = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

/** Show an element, or hide it. */
export function show(element, visible = true) {
  element.hidden = !visible;
}

/** Mark a field as invalid, or remove the mark. */
export function markInvalid(input, wrong) {
  if (wrong) input.setAttribute("aria-invalid", "true");
  else input.removeAttribute("aria-invalid");
}

/**
 * Fill a list with texts, or with texts and their languages. Only changed entries are replaced, so that
 * a screen reader speaks only those.
 */
export function fillList(list, sentences) {
  while (list.children.length > sentences.length) list.lastElementChild.remove();
  sentences.forEach((sentence, index) => {
    const entry = list.children[index] ?? list.appendChild(document.createElement("li"));
    const { text, lang } = sentence.text === undefined ? { text: sentence, lang: "" } : sentence;
    if (entry.textContent !== text) entry.textContent = text;
    if (lang) entry.lang = lang;
  });
}

/** Fill a select with [value, label] pairs and choose one. */
export function fillSelect(select, choices, chosen) {
  if (isFilled(select, choices)) {
    select.value = chosen;
    return;
  }
  select.replaceChildren(...choices.map(([value, label]) => create("option", { value }, label)));
  select.value = chosen;
}

/** Fill a fieldset with radio buttons; calls back with the chosen value. */
export function fillRadios(fieldset, name, choices, chosen, onChange) {
  if (isFilled(fieldset, choices)) {
    fieldset.querySelectorAll("input").forEach((input, index) => {
      input.checked = choices[index][0] === chosen;
    });
    return;
  }
  fieldset.querySelectorAll("label").forEach((label) => label.remove());
  for (const [value, text] of choices) {
    const input = create("input", { type: "radio", name, value, checked: value === chosen });
    input.addEventListener("change", () => onChange(value));
    fieldset.append(create("label", {}, input, create("span", {}, text)));
  }
}

/** Whether an element already has these choices; elements that stay keep the keyboard focus. */
function isFilled(element, choices) {
  const key = JSON.stringify(choices);
  if (element.dataset.choices === key) return true;
  element.dataset.choices = key;
  return false;
}

/** Save a file through the browser's downloads. */
export function saveFile(name, content, type) {
  const url = URL.createObjectURL(new Blob([content], { type }));
  create("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
