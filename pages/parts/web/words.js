// Sentences come from the catalogue (pages/parts/catalogue), sent by the page in the reader's language.

let catalogue = {};
let language = "en";

export function useWords(words, spoken) {
  catalogue = words;
  language = spoken;
}

// The engine writes its sentences in English; other languages are made from its numbers.
export const isEnglish = () => language === "en";

// t("needs", {need: 5}) fills {need}. An unknown id shows itself, so that a missing word is seen and not silent.
export function t(id, values = {}) {
  const text = catalogue[id] ?? id;
  return text.replace(/\{(\w+)\}/g, (whole, name) => (name in values ? values[name] : whole));
}

export const number = (value) => (value ?? 0).toLocaleString("en-US", { maximumFractionDigits: 0 });
