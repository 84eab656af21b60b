"""The search finds words where they are explained: in the glossary first, in results last."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes
from sphinx import addnodes
from sphinx.transforms import SphinxTransform

# Words that are explained elsewhere than in the glossary, by page.
PAGES = {
    "prior": ("error bars", "credible interval"),
    "lasso": ("lasso", "ℓ1"),
    "cite": ("cite", "citation", "BibTeX"),
    "tutorials/uncertainty": ("uncertainty",),
}
SPLIT = re.compile(r", | \(|\)")  # "β, noise precision", "Conjugate gradients (CG)"


class IndexWords(SphinxTransform):
    """Enter the terms of the glossary, and the words of ``PAGES``, into the index."""

    default_priority = 400  # before Sphinx collects the index of a page

    def apply(self, **options: Any) -> None:
        """Add index nodes to a page."""
        page = self.env.docname
        if page in PAGES:
            self.document.insert(0, index_node(PAGES[page], ""))
        if page == "glossary":
            for term in list(self.document.findall(nodes.term)):
                words = [word for word in SPLIT.split(term.astext()) if word]
                target = "term-" + nodes.make_id(words[-1])
                term["ids"].append(target)
                term.append(index_node(words, target))


def index_node(words: Any, target: str) -> addnodes.index:
    """Return a node that leads from ``words`` to the target."""
    entries = [("single", word, target, "main", None) for word in words]
    return addnodes.index(entries=entries)


def setup(app: Any) -> dict[str, bool]:
    """Have the transform run on every page."""
    app.add_transform(IndexWords)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
