"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.algorithms import dynamics as dynamics
from phipsi.algorithms.constrained.assembly import newton_onto_rows as newton_onto_rows
from phipsi.algorithms.constrained.assembly import open_loops_at as open_loops_at
from phipsi.algorithms.constrained.assembly import project_position as project_position
from phipsi.algorithms.constrained.assembly import project_velocity as project_velocity
from phipsi.algorithms.constrained.assembly import search as search
from phipsi.algorithms.constrained.constraint_metric import ConstraintMetric as ConstraintMetric
from phipsi.algorithms.constrained.constraint_metric import turned_over as turned_over
from phipsi.algorithms.constrained.constraint_rows import ClosureRows as ClosureRows
from phipsi.algorithms.constrained.constraint_rows import rows_of as rows_of
from phipsi.algorithms.constrained.loop_graph import AS_CONSTRAINT as AS_CONSTRAINT
from phipsi.algorithms.constrained.loop_projection import LoopProjection as LoopProjection
from phipsi.algorithms.constrained.row_rank import RANK as RANK
from phipsi.algorithms.constrained.row_rank import Ranked as Ranked
from phipsi.algorithms.constrained.stages import Stages as Stages
from phipsi.algorithms.constrained.system import System as System
from phipsi.algorithms.dynamics import equations_of_motion as equations_of_motion
from phipsi.algorithms.dynamics.actuation import Actuation as Actuation
from phipsi.algorithms.dynamics.actuation import driving_efforts as driving_efforts
from phipsi.algorithms.dynamics.constraint_forces import constraint_forces as constraint_forces
from phipsi.algorithms.dynamics.constraint_forces import constraint_impulse as constraint_impulse
from phipsi.algorithms.dynamics.constraint_forces import (
    motion_and_multipliers as motion_and_multipliers,
)
from phipsi.algorithms.dynamics.derivatives import KKTSolver as KKTSolver
from phipsi.algorithms.dynamics.derivatives import (
    forward_dynamics_operators as forward_dynamics_operators,
)
from phipsi.algorithms.dynamics.derivatives import (
    inverse_dynamics_derivatives as inverse_dynamics_derivatives,
)
from phipsi.algorithms.dynamics.derivatives import (
    inverse_dynamics_operators as inverse_dynamics_operators,
)
from phipsi.algorithms.dynamics.diagonal_dynamics import log_det_mass_matrix as log_det_mass_matrix
from phipsi.algorithms.dynamics.dynamics_expressions import BIAS_FORCES as BIAS_FORCES
from phipsi.algorithms.dynamics.dynamics_expressions import CLOSED_INVERSE as CLOSED_INVERSE
from phipsi.algorithms.dynamics.dynamics_expressions import FORWARD_DYNAMICS as FORWARD_DYNAMICS
from phipsi.algorithms.dynamics.dynamics_expressions import GRAVITY_FORCES as GRAVITY_FORCES
from phipsi.algorithms.dynamics.dynamics_expressions import IMPULSE as IMPULSE
from phipsi.algorithms.dynamics.dynamics_expressions import INNOVATIONS as INNOVATIONS
from phipsi.algorithms.dynamics.dynamics_expressions import INVERSE_DYNAMICS as INVERSE_DYNAMICS
from phipsi.algorithms.dynamics.dynamics_expressions import KNOWN_INVERSE as KNOWN_INVERSE
from phipsi.algorithms.dynamics.dynamics_expressions import LINEARLY_IMPLICIT as LINEARLY_IMPLICIT
from phipsi.algorithms.dynamics.dynamics_expressions import (
    MASS_MATRIX_INVERSE as MASS_MATRIX_INVERSE,
)
from phipsi.algorithms.dynamics.dynamics_expressions import ROW_ACCELERATIONS as ROW_ACCELERATIONS
from phipsi.algorithms.dynamics.dynamics_expressions import ROW_DRIFT as ROW_DRIFT
from phipsi.algorithms.dynamics.dynamics_expressions import ROW_MATRIX as ROW_MATRIX
from phipsi.algorithms.dynamics.dynamics_expressions import STEP_LENGTH as STEP_LENGTH
from phipsi.algorithms.dynamics.dynamics_expressions import VELOCITY_CHANGE as VELOCITY_CHANGE
from phipsi.algorithms.dynamics.dynamics_expressions import body_forces as body_forces
from phipsi.algorithms.dynamics.dynamics_expressions import forward as forward
from phipsi.algorithms.dynamics.dynamics_expressions import forward_with_rows as forward_with_rows
from phipsi.algorithms.dynamics.dynamics_expressions import inverse as inverse
from phipsi.algorithms.dynamics.dynamics_expressions import linearly_implicit as linearly_implicit
from phipsi.algorithms.dynamics.dynamics_expressions import loaded as loaded
from phipsi.algorithms.dynamics.energy import ELASTIC_ENERGY as ELASTIC_ENERGY
from phipsi.algorithms.dynamics.energy import KINETIC_ENERGY as KINETIC_ENERGY
from phipsi.algorithms.dynamics.energy import WHOLE_INERTIA as WHOLE_INERTIA
from phipsi.algorithms.dynamics.energy import elastic_energy as elastic_energy
from phipsi.algorithms.dynamics.energy import first_moment as first_moment
from phipsi.algorithms.dynamics.energy import kinetic_energy as kinetic_energy
from phipsi.algorithms.dynamics.energy import momentum as momentum
from phipsi.algorithms.dynamics.energy import potential_energy as potential_energy
from phipsi.algorithms.dynamics.equations_of_motion import bias_forces as bias_forces
from phipsi.algorithms.dynamics.equations_of_motion import forward_dynamics as forward_dynamics
from phipsi.algorithms.dynamics.equations_of_motion import gravity_forces as gravity_forces
from phipsi.algorithms.dynamics.equations_of_motion import inverse_dynamics as inverse_dynamics
from phipsi.algorithms.dynamics.equations_of_motion import joint_reactions as joint_reactions
from phipsi.algorithms.dynamics.equations_of_motion import mass_matrix as mass_matrix
from phipsi.algorithms.dynamics.equations_of_motion import (
    mass_matrix_inverse as mass_matrix_inverse,
)
from phipsi.algorithms.dynamics.hybrid import HELD_CHANGE as HELD_CHANGE
from phipsi.algorithms.dynamics.hybrid import HELD_IMPULSE as HELD_IMPULSE
from phipsi.algorithms.dynamics.hybrid import accelerations as accelerations
from phipsi.algorithms.dynamics.hybrid import free_mask as free_mask
from phipsi.algorithms.dynamics.hybrid import hybrid_dynamics as hybrid_dynamics
from phipsi.algorithms.dynamics.hybrid import hybrid_form as hybrid_form
from phipsi.algorithms.dynamics.sensitivities import (
    log_det_mass_matrix_gradient as log_det_mass_matrix_gradient,
)
from phipsi.algorithms.kinematics import motions as motions
from phipsi.algorithms.kinematics.bounded_steps import BoundedStep as BoundedStep
from phipsi.algorithms.kinematics.exponential_chart import Chart as Chart
from phipsi.algorithms.kinematics.exponential_chart import chart_of as chart_of
from phipsi.algorithms.kinematics.motions import JACOBIAN_DOT_V as JACOBIAN_DOT_V
from phipsi.algorithms.kinematics.motions import POINT_VELOCITIES as POINT_VELOCITIES
from phipsi.algorithms.kinematics.motions import jacobian as jacobian
from phipsi.algorithms.kinematics.step_coordinates import StepCoordinates as StepCoordinates

__all__ = []
