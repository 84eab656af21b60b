"""Mathematics as MathML, made while the site is built: browsers show it without a script."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert


def mathml(node: nodes.Node, display: str) -> str:
    """Return a formula as MathML; "is distributed as" is a relation, with room around it."""
    made: str = convert(node.astext(), display=display)
    return made.replace("<mi>&#x0007E;</mi>", "<mo>&#x0223C;</mo>")


def inline(self: Any, node: nodes.math) -> None:
    """Write a formula that stands in a line of text."""
    self.body.append(f'<span class="math">{mathml(node, "inline")}</span>')
    raise nodes.SkipNode


def block(self: Any, node: nodes.math_block) -> None:
    """Write a formula that stands by itself."""
    self.body.append(f'<div class="math">{mathml(node, "block")}</div>\n')
    raise nodes.SkipNode


def setup(app: Any) -> dict[str, bool]:
    """Tell Sphinx of the renderer; conf.py chooses it by its name."""
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
