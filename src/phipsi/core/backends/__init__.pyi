"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.backends import (
    errors_from_status as errors_from_status,
    rank_limits as rank_limits,
    storage_layout as storage_layout,
)
from phipsi.core.backends.arguments import (
    bind_arguments as bind_arguments,
    by_name as by_name,
    check_finite as check_finite,
    joint_array as joint_array,
    joint_at as joint_at,
    quaternion_fix as quaternion_fix,
    real_array as real_array,
    state_arrays as state_arrays,
)
from phipsi.core.backends.array_algebra import (
    FUNCTIONS as FUNCTIONS,
    OBJECTS as OBJECTS,
    natural_square as natural_square,
    solve_semidefinite as solve_semidefinite,
)
from phipsi.core.backends.backend import (
    Array as Array,
    Arrays as Arrays,
    Backend as Backend,
    Loaded as Loaded,
    SweepProgram as SweepProgram,
    backend_of as backend_of,
    has_machine_code as has_machine_code,
    never as never,
)
from phipsi.core.backends.batch_threads import batch_pieces as batch_pieces
from phipsi.core.backends.errors_from_status import (
    BLOCK as BLOCK,
    CODES as CODES,
    CONTRADICTION as CONTRADICTION,
    DOUBTFUL as DOUBTFUL,
    HINGE as HINGE,
    NO_MEMORY as NO_MEMORY,
    NOT_FINITE as NOT_FINITE,
    SMALL as SMALL,
    STATUS_WORDS as STATUS_WORDS,
    SYMMETRY_TOLERANCE as SYMMETRY_TOLERANCE,
    Failure as Failure,
    error_of as error_of,
    is_failure as is_failure,
    outboard_sizes as outboard_sizes,
    singular_hinge_text as singular_hinge_text,
    with_part as with_part,
)
from phipsi.core.backends.options import (
    CallOptions as CallOptions,
    Calls as Calls,
    OnError as OnError,
    check_on_error as check_on_error,
    in_order as in_order,
    named as named,
    with_names as with_names,
)
from phipsi.core.backends.program import Program as Program
from phipsi.core.backends.rank_limits import (
    CANCELLED_TOLERANCE as CANCELLED_TOLERANCE,
    HINGE_TOLERANCE as HINGE_TOLERANCE,
    ROW_FLOOR as ROW_FLOOR,
    ROW_GAP as ROW_GAP,
    ROW_GAP_LEAST as ROW_GAP_LEAST,
    ROW_TOLERANCE as ROW_TOLERANCE,
)
from phipsi.core.backends.reference import evaluate as evaluate
from phipsi.core.backends.result_memory import LEAST as LEAST, empty as empty
from phipsi.core.backends.storage_layout import (
    argument_shapes as argument_shapes,
    block_shape as block_shape,
    body_slices as body_slices,
    space_blocks as space_blocks,
    vector_shape as vector_shape,
)

__all__ = []
