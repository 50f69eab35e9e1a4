"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.expressions import check as check
from phipsi.core.expressions.check import (
    advice as advice,
    misread as misread,
    shown as shown,
    signature as signature,
)
from phipsi.core.expressions.coefficients import int_if_whole as int_if_whole
from phipsi.core.expressions.functions import (
    FUNCTIONS as FUNCTIONS,
    OF_MODES as OF_MODES,
    OF_RIGID_BODIES as OF_RIGID_BODIES,
    cross as cross,
    cross_force as cross_force,
    dE_trace as dE_trace,
    dH_trace as dH_trace,
    diag as diag,
    diagonal as diagonal,
    dM_trace as dM_trace,
    half as half,
    inertia_of as inertia_of,
    inertia_trace as inertia_trace,
    open_place as open_place,
    outer as outer,
    regress as regress,
    rigid_cross as rigid_cross,
    rigid_cross_force as rigid_cross_force,
    rigid_vee as rigid_vee,
    rigid_vee_force as rigid_vee_force,
    scaled as scaled,
    trace as trace,
    vee as vee,
    vee_force as vee_force,
)
from phipsi.core.expressions.kinds import Op as Op
from phipsi.core.expressions.latex import latex_name as latex_name
from phipsi.core.expressions.node import (
    SELECTABLE as SELECTABLE,
    Expr as Expr,
    Function as Function,
    Number as Number,
    adjoint as adjoint,
    as_matrix as as_matrix,
    block_diagonal as block_diagonal,
    identity as identity,
    intern as intern,
    inverse as inverse,
    leaf as leaf,
    linear as linear,
    logdet as logdet,
    product as product,
    rebuild as rebuild,
    term_order as term_order,
    total_of as total_of,
    zero as zero,
)
from phipsi.core.expressions.parse import (
    Vocabulary as Vocabulary,
    letters as letters,
    visible as visible,
)
from phipsi.core.expressions.printed_lines import with_plain_equals as with_plain_equals
from phipsi.core.expressions.readings import (
    parse_together as parse_together,
    parse_with as parse_with,
)
from phipsi.core.expressions.row import (
    REGISTERED as REGISTERED,
    DifferentialForm as DifferentialForm,
    Row as Row,
    registered_row as registered_row,
)
from phipsi.core.expressions.scoped_cache import (
    cache_scope as cache_scope,
    cached_in_scope as cached_in_scope,
)
from phipsi.core.expressions.spaces import (
    CONFIGURATIONS as CONFIGURATIONS,
    EFFORTS as EFFORTS,
    FORCES as FORCES,
    FRAME_POSES as FRAME_POSES,
    MOTIONS as MOTIONS,
    NORMALISED as NORMALISED,
    ONE as ONE,
    PARAMETERS as PARAMETERS,
    POINT_FORCES as POINT_FORCES,
    POINT_MOTIONS as POINT_MOTIONS,
    POSES as POSES,
    RATES as RATES,
    ROW_FORCES as ROW_FORCES,
    ROW_RATES as ROW_RATES,
    SPACES as SPACES,
    UNKNOWN as UNKNOWN,
    WORLD_FORCE as WORLD_FORCE,
    Space as Space,
    row_count as row_count,
    space_named as space_named,
    space_size as space_size,
)
from phipsi.core.expressions.structure import (
    ANTICAUSAL as ANTICAUSAL,
    CAUSAL as CAUSAL,
    GENERAL as GENERAL,
    MEMORYLESS as MEMORYLESS,
    RELATED as RELATED,
    STRICTLY_ANTICAUSAL as STRICTLY_ANTICAUSAL,
    STRICTLY_CAUSAL as STRICTLY_CAUSAL,
    Structure as Structure,
    is_anticausal as is_anticausal,
    is_causal as is_causal,
    is_memoryless as is_memoryless,
    is_strict as is_strict,
    product_structure as product_structure,
    structure_word as structure_word,
)

__all__ = []
