"""Studies: many runs that differ in what is drawn, on one machine or many, kept in a folder."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "draws": "Draws",
        "study": "Study",
        "study_results": "StudyResults columns_of load_results",
    },
)
