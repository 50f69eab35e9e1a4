"""Studies: many runs with random samples, on one machine or many, kept in a folder."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "distributions": "Distributions",
        "study": "Study",
        "study_results": "StudyResults columns_of load_results",
    },
)
