"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.contact import contact_failures, contact_points, contact_record, contact_rows
from phipsi.contact.certificate import (
    TOTALS as TOTALS,
    WORST as WORST,
    Certificate as Certificate,
    EventCertificate as EventCertificate,
    MaxResiduals as MaxResiduals,
    StepTotals as StepTotals,
)
from phipsi.contact.contact_pairs import ContactPair as ContactPair, Contacts as Contacts
from phipsi.contact.contact_record import (
    OPEN as OPEN,
    SLIPS as SLIPS,
    STICKS as STICKS,
    ContactRecord as ContactRecord,
)
from phipsi.contact.contact_rows import (
    COLUMNS as COLUMNS,
    DEEP as DEEP,
    DISSIPATION as DISSIPATION,
    GAINS_ENERGY as GAINS_ENERGY,
    HUNT_CROSSLEY as HUNT_CROSSLEY,
    IMPULSES as IMPULSES,
    JOINT_FRICTION as JOINT_FRICTION,
    LOOPS as LOOPS,
    MATERIALS as MATERIALS,
    RESTITUTION as RESTITUTION,
    ROPES as ROPES,
    STIFFNESS as STIFFNESS,
    STOP_MARGIN as STOP_MARGIN,
    STOPS as STOPS,
    UNSOLVED_CONTACTS as UNSOLVED_CONTACTS,
    WEDGED as WEDGED,
    ProblemParts as ProblemParts,
    RowPlan as RowPlan,
    check_joint_rows as check_joint_rows,
    check_overlap as check_overlap,
    contact_axes as contact_axes,
    is_rigid as is_rigid,
    problem_parts as problem_parts,
    row_coefficients as row_coefficients,
    row_impulses as row_impulses,
    slot_materials as slot_materials,
    turns_at_joints as turns_at_joints,
    weighted as weighted,
)
from phipsi.contact.contact_shapes import ground_of as ground_of
from phipsi.contact.geometry.pair_formulas import (
    CONVEX as CONVEX,
    REACH as REACH,
    Slots as Slots,
    slot_geometry as slot_geometry,
)
from phipsi.contact.slot_rows import (
    RowBlocks as RowBlocks,
    row_blocks as row_blocks,
    slot_impulses as slot_impulses,
    world_impulses as world_impulses,
)
from phipsi.contact.solver import contact_problem as contact_problem
from phipsi.contact.solver.contact_problem import (
    INACTIVE as INACTIVE,
    ContactProblem as ContactProblem,
    ContactProblemLayout as ContactProblemLayout,
    ContactSolution as ContactSolution,
    Groups as Groups,
    residual as residual,
)
from phipsi.contact.solver.contact_solver import solve as solve, solve_rebound as solve_rebound
from phipsi.contact.solver.contact_solver_calls import (
    ContactProduct as ContactProduct,
    ContactSolve as ContactSolve,
)
from phipsi.contact.solver.contact_solver_derivatives import SmoothedCall as SmoothedCall
from phipsi.contact.solver.delassus import (
    Delassus as Delassus,
    RowContactSolver as RowContactSolver,
    fits as fits,
    masks_of as masks_of,
)
from phipsi.contact.solver.row_products import (
    host_motions as host_motions,
    row_forces as row_forces,
    row_rates as row_rates,
)

__all__ = ["contact_failures", "contact_points", "contact_record", "contact_rows"]
