"""Settings of Sphinx, which builds these pages and the API reference: `python -m sphinx -W -b html docs build/docs`."""

from __future__ import annotations

from audit.core.version import __version__

project = "epsilon-audit"
author = "the authors of epsilon-audit"
release = version = __version__

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.mathjax"]
html_theme = "furo"
html_title = f"epsilon-audit {release}"

myst_enable_extensions = ["dollarmath"]
myst_heading_anchors = 3

default_role = "code"  # `x` in a docstring is code, as in Markdown
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
python_maximum_signature_line_length = 100
napoleon_google_docstring = True
napoleon_numpy_docstring = False
napoleon_use_ivar = True
napoleon_custom_sections = ["Guarantee"]
