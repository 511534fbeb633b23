// Finds the texts of the reader's language and puts them on the page.

const LANGUAGES = ["en"];

let texts = {};

/** Load the texts of the first language of the reader that there is; English otherwise. */
export async function loadTexts() {
  const wanted = navigator.languages.map((tag) => tag.split("-")[0]);
  const language = wanted.find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];
  texts = (await import(`./texts/${language}.js`)).default;
  document.documentElement.lang = texts.language;
  document.title = texts.title;
  for (const element of document.querySelectorAll("[data-text]")) {
    element.textContent = say(element.dataset.text);
  }
}

/** The locale in which numbers and times are written. */
export const locale = () => texts.locale;

/** The text behind a dotted key, its braces filled in; the key itself where there is none. */
export function say(key, values = {}) {
  const found = look(key);
  if (typeof found !== "string") return key;
  return found.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** The text behind a key, or `fallback` where the file has none. */
export function sayOr(key, fallback) {
  const found = look(key);
  return typeof found === "string" ? found : fallback;
}

function look(key) {
  return key.split(".").reduce((branch, part) => branch?.[part], texts);
}
