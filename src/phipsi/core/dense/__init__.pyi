"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.dense.configuration import (
    Configuration as Configuration,
    along_modes as along_modes,
)
from phipsi.core.dense.evaluation import DenseEvaluator as DenseEvaluator
from phipsi.core.dense.expression_matrices import arranged as arranged, evaluate_dense
from phipsi.core.dense.modal_formulas import ways_to_divide as ways_to_divide
from phipsi.core.dense.override_values import (
    check_expression as check_expression,
    collect as collect,
)

__all__ = ["evaluate_dense"]
