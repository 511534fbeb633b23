// Loads the texts in the reader's language and puts them on the page.

const LANGUAGES = ["en", "de", "nl"];

let texts = {};
let english = {};
let patterns = [];

/** Load the texts in the first of the reader's languages that exists; otherwise in English. */
export async function loadTexts() {
  const wanted = navigator.languages.map((tag) => tag.split("-")[0]);
  const language = wanted.find((tag) => LANGUAGES.includes(tag)) ?? LANGUAGES[0];
  english = (await import("./texts/en.js")).default;
  texts = language === "en" ? english : (await import(`./texts/${language}.js`)).default;
  patterns = patternsOf(texts.server ?? {});
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

/** Patterns for the server's sentences. Those with more words of their own are tried first. */
function patternsOf(server) {
  const bare = (template) => template.replace(/\{\w+\}/g, "").length;
  return Object.entries(server)
    .sort(([one], [other]) => bare(other) - bare(one))
    .map(([template, text]) => {
      const parts = template.split(/\{(\w+)\}/).map((part, index) => (index % 2 ? group(part) : escaped(part)));
      return { text, isSentence: template.endsWith("."), pattern: new RegExp(`^${parts.join("")}$`) };
    });
}

const GROUPS = { dd: "\\d{1,2}(?: to \\d{1,2})?", yyyy: "(?: \\d{4})?" };
const group = (name) => `(?<${name}>${GROUPS[name] ?? ".+?"})`;
const escaped = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");

/** What the server wrote, in the language of the page where a pattern fits, and the language that it now has. */
export function told(written) {
  const parts = written.split(/(?<=\.) (?=[A-Z])/).map((part) => [part, translated(part, part.endsWith("."))]);
  if (parts.some(([, text]) => text === null)) return { text: written, lang: "en" };
  return { text: parts.map(([, text]) => text.replace(/(\d)\.(\d)/g, "$1,$2")).join(" "), lang: texts.language };
}

/** A sentence or a part of one in another language; null if no pattern fits. */
function translated(words, isSentence) {
  for (const { text, pattern, ...kind } of patterns) {
    const found = kind.isSentence === isSentence && words.match(pattern);
    if (found) return text.replace(/\{(\w+)\}/g, (_, name) => translated(found.groups[name], false) ?? found.groups[name]);
  }
  return null;
}
