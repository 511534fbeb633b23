// Loads the texts in the reader's language and puts them on the page.

const LANGUAGES = ["en", "de", "nl"];

let texts = {};
let english = {};

/** Load the texts in the first of the reader's languages that exists; otherwise in English. */
export async function loadTexts() {
  const wanted = navigator.languages.map((tag) => tag.split("-")[0]);
  const language = wanted.find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];
  english = (await import("./texts/en.js")).default;
  texts = language === "en" ? english : (await import(`./texts/${language}.js`)).default;
  document.documentElement.lang = texts.language;
  document.title = texts.title;
  for (const element of document.querySelectorAll("[data-text]")) {
    element.textContent = say(element.dataset.text);
  }
}

/** The locale for numbers and times. */
export const locale = () => texts.locale;

/** The text of a key such as “noise.title”, with its braces filled in; the key if there is none. */
export function say(key, values = {}) {
  const found = look(key);
  if (typeof found !== "string") return key;
  return found.replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

/** The text of a key, or `fallback` if there is none. */
export function sayOr(key, fallback) {
  const found = look(key);
  return typeof found === "string" ? found : fallback;
}

/** The text of a key in the language of the page or, if a translation has none, in English. */
function look(key) {
  const within = (branch) => key.split(".").reduce((found, part) => found?.[part], branch);
  return within(texts) ?? within(english);
}
