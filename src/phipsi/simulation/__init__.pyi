"""Written by scripts/public_names.py from the table in `__init__.py`."""

from phipsi.simulation import forces as forces
from phipsi.simulation.analysis.linear_system import LinearSystem as LinearSystem
from phipsi.simulation.compiled.episodes import Episodes as Episodes
from phipsi.simulation.compiled.simulator import Simulator as Simulator
from phipsi.simulation.compiled.simulator_results import (
    Rollout as Rollout,
    recorded_run as recorded_run,
)
from phipsi.simulation.compiled.simulator_state import SimulatorState as SimulatorState
from phipsi.simulation.control import controllers as controllers, references as references
from phipsi.simulation.control.operational_space import POINT_ACCELERATIONS as POINT_ACCELERATIONS
from phipsi.simulation.forces.body_forces import (
    PointSpring as PointSpring,
    PointSprings as PointSprings,
    RigidRopes as RigidRopes,
    Rope as Rope,
)
from phipsi.simulation.forces.elastic_couplings import ElasticCoupling as ElasticCoupling
from phipsi.simulation.forces.force import Force as Force, State as State
from phipsi.simulation.forces.frame_forces import Bushing as Bushing, TorsionSpring as TorsionSpring
from phipsi.simulation.forces.joint_forces import from_model as from_model
from phipsi.simulation.forces.stored_properties import (
    stored_properties as stored_properties,
    warn_of_floor as warn_of_floor,
)
from phipsi.simulation.impacts.contact_steps import ContactSteps as ContactSteps
from phipsi.simulation.integrators.group_calls import (
    unit_places as unit_places,
    velocity as velocity,
)
from phipsi.simulation.integrators.step_graph import (
    INERTIA as INERTIA,
    GraphState as GraphState,
    StepGraph as StepGraph,
)
from phipsi.simulation.integrators.tableaux import METHODS as METHODS, SIMULATED as SIMULATED
from phipsi.simulation.runs.checks import (
    check_room as check_room,
    checked_number as checked_number,
    checked_time as checked_time,
)
from phipsi.simulation.runs.gradients import rollout_gradient as rollout_gradient
from phipsi.simulation.runs.rollout import rollout as rollout, whole_rollout as whole_rollout
from phipsi.simulation.runs.run_emitter import RunEmitter as RunEmitter
from phipsi.simulation.runs.run_program import RunProgram as RunProgram
from phipsi.simulation.simulate.changing_run import TopologyPhase as TopologyPhase
from phipsi.simulation.simulate.events import Event as Event
from phipsi.simulation.simulate.quadratures import WORK as WORK
from phipsi.simulation.simulate.run import simulate as simulate
from phipsi.simulation.simulate.run_options import DT as DT, RTOL as RTOL
from phipsi.simulation.trajectory.plotting import (
    NOTHING as NOTHING,
    ROUNDING as ROUNDING,
    as_label as as_label,
)
from phipsi.simulation.trajectory.trajectory import Trajectory as Trajectory

__all__ = []
