"""From a model to a trajectory: `simulate`, events, force elements, recordings; and gradients."""

from phipsi.simulation import forces, topology
from phipsi.simulation.contact_margins import contact_events
from phipsi.simulation.events import Event, EventRecord
from phipsi.simulation.gradients import RolloutGradient, rollout_gradient
from phipsi.simulation.linear_steps import step_derivatives
from phipsi.simulation.linear_system import LinearSystem
from phipsi.simulation.linearization import linearize
from phipsi.simulation.rollout import rollout
from phipsi.simulation.run import simulate
from phipsi.simulation.trajectory import Trajectory

__all__ = [
    "Event",
    "EventRecord",
    "LinearSystem",
    "RolloutGradient",
    "Trajectory",
    "contact_events",
    "forces",
    "linearize",
    "rollout",
    "rollout_gradient",
    "simulate",
    "step_derivatives",
    "topology",
]
