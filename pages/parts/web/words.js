// Sentences come from the catalogue (pages/parts/catalogue), sent by the page in the reader's language.

let catalogue = {};
let spoken = "en";
let patterns = [];

// `known`: pairs of an English sentence of the engine, with {fields}, and the same in the reader's language.
export function useWords(words, language, known = []) {
  catalogue = words;
  spoken = language;
  patterns = known.map(([english, there]) => [asPattern(english), there]);
}

export const language = () => spoken;

// Sentences with numbers of the frame are made anew from the catalogue for readers of other languages.
export const isEnglish = () => spoken === "en";

// t("needs", {need: 5}) fills {need}. An unknown id shows itself, so that a missing word is seen and not silent.
export function t(id, values = {}) {
  const text = catalogue[id] ?? id;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

// A sentence of the engine in the reader's language; its fields are said in turn (pages/parts/engine_words.py).
export function said(text) {
  if (!text) return "";
  for (const [pattern, there] of patterns) {
    const fields = text.match(pattern)?.groups;
    if (fields !== undefined || pattern.test(text))
      return there.replace(/\{(\w+)\}/g, (whole, name) => said(fields?.[name] ?? whole));
  }
  return text;
}

function asPattern(english) {
  const pieces = english.split(/\{(\w+)\}/);
  const quoted = (text) => text.replace(/[.*+?^${}()|[\]\\]/g, "\\$&");
  return new RegExp(`^${pieces.map((piece, at) => (at % 2 ? `(?<${piece}>.+?)` : quoted(piece))).join("")}$`);
}

export const number = (value) => (value ?? 0).toLocaleString("en-US", { maximumFractionDigits: 0 });
