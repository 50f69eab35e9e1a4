"""Named algorithms: each is an operator expression, compiled for the model it is called with."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "constrained.assembly": (
            "newton_onto_rows open_loops_at project_position project_velocity search"
        ),
        "constrained.constraint_metric": "ConstraintMetric turned_over",
        "constrained.constraint_rows": "ClosureRows rows_of",
        "constrained.loop_graph": "AS_CONSTRAINT",
        "constrained.loop_projection": "LoopProjection",
        "constrained.row_rank": "RANK Ranked",
        "constrained.stages": "Stages",
        "constrained.system": "System",
        "dynamics": ".",
        "dynamics.actuation": "Actuation driving_efforts",
        "dynamics.constraint_forces": "constraint_forces constraint_impulse motion_and_multipliers",
        "dynamics.derivatives": (
            "KKTSolver forward_dynamics_operators inverse_dynamics_derivatives "
            "inverse_dynamics_operators"
        ),
        "dynamics.diagonal_dynamics": "FACTOR NORMALISED log_det_mass_matrix normalised_rate",
        "dynamics.dynamics_expressions": (
            "BIAS_FORCES CLOSED_INVERSE FORWARD_DYNAMICS GRAVITY_FORCES IMPULSE INNOVATIONS "
            "INVERSE_DYNAMICS KNOWN_INVERSE LINEARLY_IMPLICIT MASS_MATRIX_INVERSE "
            "ROW_ACCELERATIONS ROW_DRIFT ROW_MATRIX STEP_LENGTH VELOCITY_CHANGE body_forces "
            "forward forward_with_rows inverse linearly_implicit loaded"
        ),
        "dynamics.energy": (
            "ELASTIC_ENERGY KINETIC_ENERGY WHOLE_INERTIA elastic_energy first_moment "
            "kinetic_energy momentum potential_energy"
        ),
        "dynamics.equation_terms": ". bias_forces gravity_forces mass_matrix mass_matrix_inverse",
        "dynamics.equations_of_motion": (". forward_dynamics inverse_dynamics joint_reactions"),
        "dynamics.exploration": "velocity_noise",
        "dynamics.hybrid": (
            "HELD_CHANGE HELD_IMPULSE accelerations free_mask hybrid_dynamics hybrid_form"
        ),
        "dynamics.sensitivities": "coriolis_form coriolis_product log_det_mass_matrix_gradient",
        "kinematics.bounded_steps": "BoundedStep",
        "kinematics.exponential_chart": "Chart chart_of",
        "kinematics.motions": ". JACOBIAN_DOT_V POINT_VELOCITIES jacobian",
        "kinematics.step_coordinates": "StepCoordinates",
    },
)
