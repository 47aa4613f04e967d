"""Settings of Sphinx for the site (`make site`); build.py makes the source directory."""

import fairhop

project = "Fairhop"
author = "the Fairhop authors"
version = release = fairhop.__version__

extensions = ["myst_nb", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
exclude_patterns = ["_build"]
# Docstrings have code in single backticks.
default_role = "literal"
highlight_language = "none"

# Links to headings, as on GitHub.
myst_heading_anchors = 4
myst_enable_extensions = ["colon_fence", "attrs_inline"]
# build.py has run the notebooks.
nb_execution_mode = "off"

autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_class_signature = "separated"

html_theme = "furo"
html_title = f"Fairhop {version}"
html_static_path = ["static"]
html_css_files = ["style.css"]
html_copy_source = False
html_show_sphinx = False
html_show_copyright = False
