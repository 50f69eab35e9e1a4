"""Contact: where bodies touch, and the impulses of unilateral contacts with dry friction."""

from phipsi.package_state import offer

__getattr__, __dir__, __all__ = offer(
    __name__,
    {
        "contact_failures": ".",
        "contact_points": ".",
        "contact_record": ".",
        "contact_rows": ".",
    },
    within={
        "certificate": "TOTALS WORST Certificate EventCertificate MaxResiduals StepTotals",
        "contact_pairs": "ContactPair Contacts",
        "contact_record": "OPEN SLIPS STICKS ContactRecord",
        "contact_rows": (
            "COLUMNS DEEP DISSIPATION GAINS_ENERGY HUNT_CROSSLEY IMPULSES JOINT_FRICTION LOOPS "
            "MATERIALS RESTITUTION ROPES STIFFNESS STOP_MARGIN STOPS UNSOLVED_CONTACTS WEDGED "
            "ProblemParts RowPlan check_joint_rows check_overlap contact_axes is_rigid "
            "problem_parts row_coefficients row_impulses slot_materials turns_at_joints weighted"
        ),
        "contact_shapes": "ground_of",
        "geometry.pair_formulas": "CONVEX REACH Slots slot_geometry",
        "slot_rows": "RowBlocks row_blocks slot_impulses world_impulses",
        "solver.contact_problem": (
            ". INACTIVE ContactProblem ContactProblemLayout ContactSolution Groups residual"
        ),
        "solver.contact_solver": "solve solve_rebound",
        "solver.contact_solver_calls": "ContactProduct ContactSolve",
        "solver.contact_solver_derivatives": "SmoothedCall",
        "solver.delassus": "Delassus RowContactSolver fits masks_of",
        "solver.row_products": "host_motions row_forces row_rates",
    },
)  # pyright: ignore[reportUnsupportedDunderAll]
