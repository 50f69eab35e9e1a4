"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.core.arrays import law_operations as law_operations, scalar_nodes as scalar_nodes
from phipsi.core.arrays.entry_graphs import (
    MOST_STEPS as MOST_STEPS,
    EntryGraph as EntryGraph,
    argument as argument,
    block_entries as block_entries,
)
from phipsi.core.arrays.graph import (
    Array as Array,
    Node as Node,
    Shape as Shape,
    in_order as in_order,
    users as users,
)
from phipsi.core.arrays.hidden_inputs import traced_twice as traced_twice
from phipsi.core.arrays.law_derivatives import (
    adjoints as adjoints,
    diagonal as diagonal,
    tangents as tangents,
)
from phipsi.core.arrays.law_errors import (
    fail as fail,
    place_of as place_of,
    short as short,
    traced_call as traced_call,
)
from phipsi.core.arrays.law_operations import (
    concat as concat,
    constant as constant,
    expand as expand,
    input as input,
    substituted as substituted,
)
from phipsi.core.arrays.law_values import GraphEvaluator as GraphEvaluator, evaluate as evaluate
from phipsi.core.arrays.named_parameters import (
    called_with_numbers as called_with_numbers,
    not_negative_names as not_negative_names,
    parameters_by_name as parameters_by_name,
    with_numbers as with_numbers,
)
from phipsi.core.arrays.numpy_functions import Tracer as Tracer, table as table
from phipsi.core.arrays.primitive_calls import (
    Primitive as Primitive,
    StopGradient as StopGradient,
    call as call,
    graph_digest as graph_digest,
    listing as listing,
    natives_of as natives_of,
)
from phipsi.core.arrays.program_calls import recorded_call as recorded_call, recording as recording
from phipsi.core.arrays.scalar_nodes import (
    Number as Number,
    ScalarGraph as ScalarGraph,
    ScalarNode as ScalarNode,
    ScalarNodeOps as ScalarNodeOps,
    Undecided as Undecided,
    fused as fused,
)
from phipsi.core.arrays.trace import (
    as_array as as_array,
    as_node as as_node,
    at_most as at_most,
    contains_tracer as contains_tracer,
)
from phipsi.core.arrays.traced_numbers import TRACED as TRACED

__all__ = []
