"""What the user writes: interned operator expressions over typed spaces."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "check": ". advice misread shown signature",
        "coefficients": "int_if_whole",
        "functions": (
            "FUNCTIONS OF_MODES OF_RIGID_BODIES cross cross_force dE_trace dH_trace diag diagonal "
            "dM_trace half inertia_of inertia_trace open_place outer regress rigid_cross "
            "rigid_cross_force rigid_vee rigid_vee_force scaled trace vee vee_force"
        ),
        "kinds": "Op",
        "latex": "latex_name",
        "node": (
            "SELECTABLE Expr Function Number adjoint as_matrix block_diagonal identity intern "
            "inverse leaf linear logdet product rebuild term_order total_of zero"
        ),
        "parse": "Vocabulary letters visible",
        "printed_lines": "with_plain_equals",
        "readings": "parse_together parse_with",
        "row": "REGISTERED DifferentialForm Row registered_row",
        "scoped_cache": "cache_scope cached_in_scope",
        "spaces": (
            "CONFIGURATIONS EFFORTS FORCES FRAME_POSES MOTIONS NORMALISED ONE PARAMETERS "
            "POINT_FORCES POINT_MOTIONS POSES RATES ROW_FORCES ROW_RATES SPACES UNKNOWN "
            "WORLD_FORCE Space row_count space_named space_size"
        ),
        "structure": (
            "ANTICAUSAL CAUSAL GENERAL MEMORYLESS RELATED STRICTLY_ANTICAUSAL STRICTLY_CAUSAL "
            "Structure is_anticausal is_causal is_memoryless is_strict product_structure "
            "structure_word"
        ),
    },
)
