"""The documentation site: pages at their places in the repository, and the API reference from docstrings.

The source folder is the root of the repository, so that README files are pages and links between them work.
"""

import re
import sys
from pathlib import Path

import calibdask

sys.path.append(str(Path(__file__).parent / "extensions"))

project = "calibdask"
author = copyright = "The calibdask developers"
version = release = calibdask.__version__

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "numpydoc",
    "myst_parser",
    "sphinx_design",
    "command_help",
]
root_doc = "deploy/docs/index"
include_patterns = [
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "deploy/README.md",
    "deploy/docs/**",
    "experiments/*/README.md",
    "experiments/calibration/*.md",
    "experiments/*/results/*.md",
]
exclude_patterns = [".*", "build", "dist", "calibdask", "tests", "deploy/docs/build", "deploy/docs/templates"]

# A name in single backticks is a link. Names of other packages stay text: the build needs no network.
default_role = "py:obj"
nitpick_ignore_regex = [("py:.*", r"(dask|distributed|numpy|pandas|sklearn|xarray|zarr|holoviews|panel|click)\..*")]
# Generated tables start with headings of a lower level.
suppress_warnings = ["myst.header"]

# Examples must stay copyable, and formulas are not Python.
smartquotes = False
highlight_language = "none"
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
myst_heading_anchors = 3
myst_enable_extensions = ["attrs_inline", "colon_fence"]

templates_path = ["templates"]
html_theme = "pydata_sphinx_theme"
html_title = "calibdask"
html_theme_options = {
    "logo": {"text": "calibdask"},
    "header_links_before_dropdown": 7,
    "navbar_end": ["theme-switcher"],
    "navigation_with_keys": False,
    "secondary_sidebar_items": ["page-toc"],
    "pygments_dark_style": "github-dark",
    "show_prev_next": False,
    "footer_start": ["copyright"],
    "footer_end": [],
}
# The landing page has cards in place of a table of contents; the others have no pages below.
html_sidebars = {page: [] for page in (root_doc, "README", "deploy/docs/gallery")}
html_additional_pages = {"index": "start.html"}
html_static_path = ["static"]
html_css_files = ["calibdask.css"]
html_js_files = ["search_excerpts.js"]
html_search_scorer = str(Path(__file__).parent / "static" / "search_scorer.js")
html_copy_source = False
html_show_sphinx = False


# Modules whose docstrings are pages. Links in the sources lead to the modules, for readers of the files.
_MODULES = {
    "calibdask/estimators/__init__.py": "/deploy/docs/which.rst",
    "calibdask/estimators/compat.py": "/deploy/docs/tools.rst",
    "calibdask/estimators/estimator.py": "/deploy/docs/api/extending.rst",
    "calibdask/analyses/shorthands.py": "/deploy/docs/api/evaluating.rst",
}


def _completed(app, name, source):
    """Name the README for its place, add titles to generated tables, and links to pages made from docstrings."""
    for module, page in _MODULES.items():
        source[0] = re.sub(rf"\]\((\.\./)*{re.escape(module)}\)", f"]({page})", source[0])
    if name == "README":
        source[0] = source[0].replace("# calibdask\n", "# Getting started\n", 1)
    elif "/results/" in name and not source[0].startswith("# "):
        title = name.rpartition("/")[2].replace("_", " ").capitalize()
        source[0] = f"# {title}\n\n{source[0]}"


def _public_reference(app, env, node, content):
    """Resolve public names of `calibdask` in the docstrings of any module."""
    if node.get("refdomain") != "py" or node["reftarget"].startswith("_"):
        return None
    node["py:module"], node["refspecific"] = "calibdask", True
    page = node.get("refdoc", root_doc)
    return env.domains["py"].resolve_xref(env, page, app.builder, node["reftype"], node["reftarget"], node, content)


def setup(app):
    """Register the hooks above."""
    app.connect("source-read", _completed)
    app.connect("missing-reference", _public_reference)
