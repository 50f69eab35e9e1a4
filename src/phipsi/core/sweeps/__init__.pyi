"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.sweeps import cheapest_plan as cheapest_plan, entries as entries, verify as verify
from phipsi.core.sweeps.arithmetic import Arithmetic as Arithmetic, Block as Block
from phipsi.core.sweeps.cheapest_plan import (
    STANDARD as STANDARD,
    CostedForm as CostedForm,
    PlanCost as PlanCost,
    plans_of as plans_of,
)
from phipsi.core.sweeps.entries import (
    Entry as Entry,
    Rows as Rows,
    add as add,
    cross as cross,
    cross_matrix as cross_matrix,
    dot as dot,
    full as full,
    gyration_rows as gyration_rows,
    identity as identity,
    inertia_parts as inertia_parts,
    inertia_rows as inertia_rows,
    is_fused as is_fused,
    is_zero as is_zero,
    lower_half as lower_half,
    matmul as matmul,
    matvec as matvec,
    minus as minus,
    mul as mul,
    mul_add as mul_add,
    mul_sub as mul_sub,
    neg as neg,
    plus as plus,
    sub as sub,
    transpose_rows as transpose_rows,
    turning_rows as turning_rows,
    with_each as with_each,
)
from phipsi.core.sweeps.equation_builder import no_modes as no_modes
from phipsi.core.sweeps.explanation import (
    Explanation as Explanation,
    explain_steps as explain_steps,
)
from phipsi.core.sweeps.ir import (
    EACH as EACH,
    Body as Body,
    Cost as Cost,
    Domain as Domain,
    Field as Field,
    Form as Form,
    Keep as Keep,
    Kind as Kind,
    Loop as Loop,
    LoopStep as LoopStep,
    Naming as Naming,
    Operation as Operation,
    Reads as Reads,
    StepKind as StepKind,
    Variant as Variant,
    dependencies as dependencies,
    parts_of as parts_of,
    reached as reached,
    space_of as space_of,
    terms_of as terms_of,
)
from phipsi.core.sweeps.lower import Lowering as Lowering
from phipsi.core.sweeps.operations import flops as flops, operation as operation
from phipsi.core.sweeps.operator_levels import (
    OperatorLevels as OperatorLevels,
    factors_of as factors_of,
    levels_of as levels_of,
)
from phipsi.core.sweeps.request import (
    MODES as MODES,
    NEEDS_POINTS as NEEDS_POINTS,
    LoweredRequest as LoweredRequest,
    Request as Request,
    Result as Result,
    check_modes as check_modes,
    check_request as check_request,
    fields_of as fields_of,
    for_bodies_of as for_bodies_of,
    lower_request as lower_request,
    rewrite_request as rewrite_request,
)
from phipsi.core.sweeps.row_elimination import (
    KeptRows as KeptRows,
    RowElimination as RowElimination,
    Terms as Terms,
)
from phipsi.core.sweeps.schedule import schedule as schedule
from phipsi.core.sweeps.verify import Rule as Rule

__all__ = []
