// How Sphinx orders what a search finds: the defaults of its searchtools.js, and a class before a function of the same name.
var Scorer = {
  score: ([_page, title, _anchor, description, score]) => {
    const query = new URLSearchParams(window.location.search).get("q") ?? "";
    const name = title.split(".").pop();
    const isSameCase = name === query.trim();
    const isClass = description !== null && description.startsWith("Python class");
    return score + (isSameCase ? 2 : 0) + (isClass ? 1 : 0);
  },
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
