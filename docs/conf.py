"""The documentation site, made by Sphinx: `python3 dev.py docs`, then open site/index.html.

Nothing is fetched from elsewhere: pages, search and mathematics work from a disk without a
network. notes/site.md says why Sphinx.
"""

import sys
from pathlib import Path

HERE = Path(__file__).parent
sys.path[:0] = [str(HERE.parent / "src"), str(HERE / "_extensions")]

project = "cofem"
author = "The cofem developers"
copyright = "The cofem developers, BSD-3-Clause"

extensions = [
    "myst_parser",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.napoleon",
    "sphinx_copybutton",
    "sphinx_design",
    "sphinx_mathml",  # these four are in _extensions
    "sphinx_docstrings",
    "sphinx_tutorials",
    "sphinx_search",
]
exclude_patterns = ["_extensions", "_templates", "README.md"]
suppress_warnings = [
    "myst.header",  # results of the benchmarks begin at the level that suits them
    "ref.python",  # single letters of shapes, such as H, are not names to look up
]

# -- pages in Markdown -------------------------------------------------------------------------

myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "attrs_inline", "attrs_block"]
myst_heading_anchors = 4
myst_links_external_new_tab = False

# -- reference from docstrings -----------------------------------------------------------------

autodoc_typehints = "none"  # the docstrings say them in words
autodoc_member_order = "bysource"
autodoc_default_options = {"members": True, "show-inheritance": False}
autosummary_generate = False
napoleon_google_docstring = False
napoleon_use_param = False  # types are words, not names to look up
napoleon_use_rtype = False
napoleon_use_ivar = True
add_module_names = False
toc_object_entries_show_parents = "hide"

# -- the site ----------------------------------------------------------------------------------

html_theme = "pydata_sphinx_theme"
html_title = "cofem"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_math_renderer = "mathml"
html_show_sourcelink = False
html_copy_source = False
html_show_search_summary = False  # it would fetch pages, which browsers refuse from a disk
html_search_scorer = str(HERE / "_extensions" / "scorer.js")
html_domain_indices = False
html_theme_options = {
    "logo": {"text": "cofem"},
    "navbar_align": "left",
    "header_links_before_dropdown": 6,
    "show_prev_next": True,
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "footer_start": ["copyright"],
    "footer_end": [],
    "pygments_light_style": "a11y-high-contrast-light",
    "pygments_dark_style": "a11y-high-contrast-dark",
}
copybutton_prompt_text = r">>> |\.\.\. |\$ "
copybutton_prompt_is_regexp = True
