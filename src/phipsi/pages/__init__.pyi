"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.pages.html_file import page_html as page_html
from phipsi.pages.live_page import live_page as live_page, live_parts as live_parts
from phipsi.pages.model_tree import draw_tree as draw_tree, sizes_of as sizes_of
from phipsi.pages.render_run import render as render
from phipsi.pages.report_page import report as report
from phipsi.pages.scene import scene_description as scene_description
from phipsi.pages.study_page import study_report as study_report

__all__ = []
