"""The one graph language of arithmetic: traced functions, their values and derivatives."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "entry_graphs": "MOST_STEPS EntryGraph argument block_entries",
        "graph": "Array Node Shape in_order users",
        "hidden_inputs": "traced_twice",
        "law_derivatives": "adjoints diagonal tangents",
        "law_errors": "fail place_of short traced_call",
        "law_operations": ". concat constant expand input substituted",
        "law_values": "GraphEvaluator evaluate",
        "named_parameters": (
            "called_with_numbers not_negative_names parameters_by_name with_numbers"
        ),
        "numpy_functions": "Tracer table",
        "primitive_calls": "Primitive StopGradient call graph_digest listing natives_of",
        "program_calls": "recorded_call recording",
        "scalar_nodes": ". Number ScalarGraph ScalarNode ScalarNodeOps Undecided fused",
        "trace": "as_array as_node at_most contains_tracer",
        "traced_numbers": "TRACED",
    },
)
