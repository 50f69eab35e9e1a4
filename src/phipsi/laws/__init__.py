"""Laws that are there: motors, PID, filters, networks, tables; `pp.law` makes your own.

Laws are functions in plain arithmetic, traced to a graph that every backend runs.
"""

from phipsi.core.arrays import table as table  # it registers what traced values know
from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "motors_and_filters": "low_pass motor pid policy",
    },
    within={
        "block_diagram": "INERTIA AlgebraBlock BlockDiagram JointRows Quantity Range Sampling",
        "law": "OUTPUTS RESERVED Law law",
        "signals": ". Signal noise_numbers seeded uniform_numbers",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
