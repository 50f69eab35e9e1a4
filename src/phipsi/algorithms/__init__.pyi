"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.algorithms import dynamics as dynamics
from phipsi.algorithms.constrained.assembly import (
    newton_onto_rows as newton_onto_rows,
    open_loops_at as open_loops_at,
    project_position as project_position,
    project_velocity as project_velocity,
    search as search,
)
from phipsi.algorithms.constrained.constraint_metric import (
    ConstraintMetric as ConstraintMetric,
    turned_over as turned_over,
)
from phipsi.algorithms.constrained.constraint_rows import (
    ClosureRows as ClosureRows,
    rows_of as rows_of,
)
from phipsi.algorithms.constrained.loop_graph import AS_CONSTRAINT as AS_CONSTRAINT
from phipsi.algorithms.constrained.loop_projection import LoopProjection as LoopProjection
from phipsi.algorithms.constrained.row_rank import RANK as RANK, Ranked as Ranked
from phipsi.algorithms.constrained.stages import Stages as Stages
from phipsi.algorithms.constrained.system import System as System
from phipsi.algorithms.dynamics import (
    equation_terms as equation_terms,
    equations_of_motion as equations_of_motion,
)
from phipsi.algorithms.dynamics.actuation import (
    Actuation as Actuation,
    driving_efforts as driving_efforts,
)
from phipsi.algorithms.dynamics.constraint_forces import (
    constraint_forces as constraint_forces,
    constraint_impulse as constraint_impulse,
    motion_and_multipliers as motion_and_multipliers,
)
from phipsi.algorithms.dynamics.derivatives import (
    KKTSolver as KKTSolver,
    forward_dynamics_operators as forward_dynamics_operators,
    inverse_dynamics_derivatives as inverse_dynamics_derivatives,
    inverse_dynamics_operators as inverse_dynamics_operators,
)
from phipsi.algorithms.dynamics.diagonal_dynamics import (
    FACTOR as FACTOR,
    NORMALISED as NORMALISED,
    log_det_mass_matrix as log_det_mass_matrix,
    normalised_rate as normalised_rate,
)
from phipsi.algorithms.dynamics.dynamics_expressions import (
    BIAS_FORCES as BIAS_FORCES,
    CLOSED_INVERSE as CLOSED_INVERSE,
    FORWARD_DYNAMICS as FORWARD_DYNAMICS,
    GRAVITY_FORCES as GRAVITY_FORCES,
    IMPULSE as IMPULSE,
    INNOVATIONS as INNOVATIONS,
    INVERSE_DYNAMICS as INVERSE_DYNAMICS,
    KNOWN_INVERSE as KNOWN_INVERSE,
    LINEARLY_IMPLICIT as LINEARLY_IMPLICIT,
    MASS_MATRIX_INVERSE as MASS_MATRIX_INVERSE,
    ROW_ACCELERATIONS as ROW_ACCELERATIONS,
    ROW_DRIFT as ROW_DRIFT,
    ROW_MATRIX as ROW_MATRIX,
    STEP_LENGTH as STEP_LENGTH,
    VELOCITY_CHANGE as VELOCITY_CHANGE,
    body_forces as body_forces,
    forward as forward,
    forward_with_rows as forward_with_rows,
    inverse as inverse,
    linearly_implicit as linearly_implicit,
    loaded as loaded,
)
from phipsi.algorithms.dynamics.energy import (
    ELASTIC_ENERGY as ELASTIC_ENERGY,
    KINETIC_ENERGY as KINETIC_ENERGY,
    WHOLE_INERTIA as WHOLE_INERTIA,
    elastic_energy as elastic_energy,
    first_moment as first_moment,
    kinetic_energy as kinetic_energy,
    momentum as momentum,
    potential_energy as potential_energy,
)
from phipsi.algorithms.dynamics.equation_terms import (
    bias_forces as bias_forces,
    gravity_forces as gravity_forces,
    mass_matrix as mass_matrix,
    mass_matrix_inverse as mass_matrix_inverse,
)
from phipsi.algorithms.dynamics.equations_of_motion import (
    forward_dynamics as forward_dynamics,
    inverse_dynamics as inverse_dynamics,
    joint_reactions as joint_reactions,
)
from phipsi.algorithms.dynamics.exploration import velocity_noise as velocity_noise
from phipsi.algorithms.dynamics.hybrid import (
    HELD_CHANGE as HELD_CHANGE,
    HELD_IMPULSE as HELD_IMPULSE,
    accelerations as accelerations,
    free_mask as free_mask,
    hybrid_dynamics as hybrid_dynamics,
    hybrid_form as hybrid_form,
)
from phipsi.algorithms.dynamics.sensitivities import (
    coriolis_form as coriolis_form,
    coriolis_product as coriolis_product,
    log_det_mass_matrix_gradient as log_det_mass_matrix_gradient,
)
from phipsi.algorithms.kinematics import motions as motions
from phipsi.algorithms.kinematics.bounded_steps import BoundedStep as BoundedStep
from phipsi.algorithms.kinematics.exponential_chart import Chart as Chart, chart_of as chart_of
from phipsi.algorithms.kinematics.motions import (
    JACOBIAN_DOT_V as JACOBIAN_DOT_V,
    POINT_VELOCITIES as POINT_VELOCITIES,
    jacobian as jacobian,
)
from phipsi.algorithms.kinematics.step_coordinates import StepCoordinates as StepCoordinates

__all__ = []
