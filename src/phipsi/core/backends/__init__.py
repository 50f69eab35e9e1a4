"""Execution backends: their interface, programs, and the reference interpreter."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "arguments": (
            "bind_arguments by_name check_finite joint_array joint_at quaternion_fix real_array "
            "state_arrays"
        ),
        "array_algebra": "FUNCTIONS OBJECTS natural_square solve_semidefinite",
        "backend": "Array Arrays Backend Loaded SweepProgram backend_of has_machine_code never",
        "batch_threads": "batch_pieces",
        "errors_from_status": (
            ". BLOCK CODES CONTRADICTION DOUBTFUL HINGE NO_MEMORY NOT_FINITE SMALL STATUS_WORDS "
            "SYMMETRY_TOLERANCE Failure error_of is_failure outboard_sizes singular_hinge_text "
            "with_part"
        ),
        "options": "CallOptions Calls OnError check_on_error in_order named with_names",
        "program": "Program",
        "rank_limits": (
            ". CANCELLED_TOLERANCE HINGE_TOLERANCE ROW_FLOOR ROW_GAP ROW_GAP_LEAST ROW_TOLERANCE"
        ),
        "reference": "evaluate",
        "result_memory": "LEAST empty",
        "storage_layout": ". argument_shapes block_shape body_slices space_blocks vector_shape",
    },
)
