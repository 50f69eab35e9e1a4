"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.studies.distributions import Distributions as Distributions
from phipsi.studies.study import Study as Study
from phipsi.studies.study_results import (
    StudyResults as StudyResults,
    columns_of as columns_of,
    load_results as load_results,
)

__all__ = []
