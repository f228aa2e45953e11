// The numbers, names and dates of texts, to see whether another text has them. The daemon checks more, and decides.

const WORD = /[\p{L}\p{N}][\p{L}\p{M}\p{N}'’.:,/_-]*/gu;
const SENTENCE_END = /[.!?…:]["”’)]*\s*$/u;

/**
 * Return the numbers, dates and names in texts that another text lacks, in their order, each once.
 * @param {string[]} sources
 * @param {string} text
 */
export function specificsMissing(sources, text) {
  const held = new Set(words(text).map(({ word }) => word.toLowerCase()));
  /** @type {Map<string, string>} */
  const missing = new Map();
  for (const source of sources) {
    for (const { word, isFirst } of words(source)) {
      const isName = !isFirst && /^\p{Lu}/u.test(word) && word.length > 1;
      if ((isName || /\p{N}/u.test(word)) && !held.has(word.toLowerCase())) missing.set(word.toLowerCase(), word);
    }
  }
  return [...missing.values()];
}

/** @param {string} text */
function words(text) {
  return [...text.matchAll(WORD)].map((match) => ({
    word: match[0].replace(/[^\p{L}\p{M}\p{N}]+$/u, ""),
    isFirst: match.index === 0 || SENTENCE_END.test(text.slice(0, match.index)),
  }));
}
