"""Docstrings as reference pages: plain marks stay plain, and names lead somewhere."""

from __future__ import annotations

import re
from typing import Any

from docutils import nodes

# What reStructuredText takes for markup of its own outside of ``code``: |μ|, coef_, (n, *shape).
CODE = re.compile(r"(``.*?``|`[^`]*`)")
BAR, UNDERSCORE = re.compile(r"(?<!\\)\|"), re.compile(r"(\w)_(?=\W|$)")
STAR = re.compile(r"(?<=, )\*(?=\w+(?: \w+)*[).])")  # the rest of a shape
_MEMBERS = ("attribute", "method", "property")


def escape(app: Any, what: str, name: str, thing: Any, options: Any, lines: list[str]) -> None:
    """Take bars and final underscores of a docstring literally; leave its examples alone."""
    example = False
    for number, line in enumerate(lines):
        example = bool(line.strip()) and (example or line.lstrip().startswith(">>>"))
        if example or line.lstrip().startswith("| "):
            continue
        parts = CODE.split(line)
        parts[::2] = [STAR.sub(r"\\*", UNDERSCORE.sub(r"\1\\_", BAR.sub(r"\\|", part)))
                      for part in parts[::2]]  # fmt: skip
        lines[number] = "".join(parts)


def resolve(app: Any, env: Any, node: Any, content: nodes.Element) -> nodes.Element | None:
    """Return a link to the one object whose name ends as the reference does.

    So :func:`fit` is found, which is documented as cofem.fit.
    """
    if node.get("refdomain") != "py":
        return None
    domain = env.get_domain("py")
    last = node["reftarget"].rsplit(".", 1)[-1]
    found = {name for name in domain.objects if name == last or name.endswith("." + last)}
    if node.get("reftype") != "meth":  # methods of one name are many
        found = {name for name in found if domain.objects[name].objtype not in _MEMBERS}
    if len(found) != 1:
        return None
    entry = domain.objects[found.pop()]
    target = app.builder.get_relative_uri(node["refdoc"], entry.docname) + "#" + entry.node_id
    return nodes.reference("", "", content, internal=True, refuri=target)


def setup(app: Any) -> dict[str, bool]:
    """Be asked after napoleon, and wherever Sphinx itself finds no object."""
    app.connect("autodoc-process-docstring", escape, priority=900)
    app.connect("missing-reference", resolve)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
