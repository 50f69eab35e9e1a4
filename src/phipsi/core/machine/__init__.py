"""Algorithms that iterate, search or solve, written once: for arrays and as machine code."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "array_machine": "ArrayMachine ArrayMemory ArrayWords",
        "machine": (
            "Body Candidate Entry Given Index Item Machine Mask Memory Number Pair Place RowOf "
            "Values Words"
        ),
        "number_machine": "NumberMachine",
        "solvers": (
            "BLOCK eliminate_blocks factor_cholesky invert_by_elimination solve_cholesky "
            "solve_lower solve_upper substitute_blocks"
        ),
    },
)
