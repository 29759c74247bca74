"""Documentation: Sphinx, built with warnings as errors (``make docs``)."""

import os
import sys
import warnings
from pathlib import Path

import fattail
from fattail import catalog

sys.path[:0] = [str(Path(__file__).parent / "_ext"), str(Path(__file__).parents[1] / "benchmarks")]
os.environ.setdefault("MPLBACKEND", "Agg")
warnings.filterwarnings("ignore", category=DeprecationWarning)

project = "fattail"
author = "The fattail developers"
copyright = author
release = version = fattail.__version__

# autosummary reads pages before directives run, so the page of estimators is written here, from the catalog.
_lines = [".. currentmodule:: fattail", ".. autosummary::", "   :toctree: generated", "", *(f"   {n}" for n in catalog.names())]
Path(__file__).with_name("estimators.md").write_text(
    "\n".join(["# Estimators", "", "```{eval-rst}", *_lines, "```", ""]), encoding="utf-8"
)

import pictures  # noqa: E402

pictures.main()

extensions = [
    "myst_parser",
    "numpydoc",
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "sphinx_gallery.gen_gallery",
    "fattail_docs",
]
exclude_patterns = ["_build", "generated/README*"]
templates_path = ["_templates"]
source_suffix = {".md": "markdown", ".rst": "restructuredtext"}
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath", "fieldlist"]
myst_heading_anchors = 3

autosummary_generate = True
autodoc_typehints = "none"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
numpydoc_xref_param_type = False

sphinx_gallery_conf = {
    "examples_dirs": "../examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"/plot_",
    "ignore_pattern": r"(demo|_data|made_up)\.py",
    "within_subsection_order": "FileNameSortKey",
    "abort_on_example_error": True,
    "remove_config_comments": True,
    "download_all_examples": False,
    "show_memory": False,
    "write_computation_times": False,
    "image_scrapers": ("matplotlib",),
    "copyfile_regex": r"_data\.py",
}

html_theme = "pydata_sphinx_theme"
html_title = "fattail"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["fattail.css"]
html_theme_options = {
    "navigation_with_keys": False,
    "show_toc_level": 2,
    "header_links_before_dropdown": 6,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": [],
    "footer_end": [],
    "pygments_light_style": "tango",
    "pygments_dark_style": "monokai",
}
html_sidebars = {name: [] for name in ("index", "quickstart", "which-method", "benchmarks")}
html_show_sourcelink = False
