// Guide before notes, notes before the printed results of benchmarks; see sphinx_search.py.
var Scorer = {
  score: ([docname, _title, _anchor, _descr, score]) =>
    score - (docname.startsWith("results/") ? 200 : docname.startsWith("notes/") ? 3 : docname === "changelog" ? 100 : 0),
  objNameMatch: 11,
  objPartialMatch: 6,
  objPrio: { 0: 15, 1: 5, 2: -5 },
  objPrioDefault: 0,
  title: 15,
  partialTitle: 7,
  term: 5,
  partialTerm: 2,
};
