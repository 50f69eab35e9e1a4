"""HTML pages: one self-contained file that shows a mechanism, a trajectory or a study."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "html_file": "page_html",
        "live_page": "live_page live_parts",
        "model_tree": "draw_tree sizes_of",
        "render_run": "render",
        "report_page": "report",
        "scene": "scene_description",
        "study_page": "study_report",
    },
)
