"""From a model to a trajectory: `simulate`, events, force elements, recordings."""

from phipsi.simulation import forces
from phipsi.simulation.events import Event, EventRecord
from phipsi.simulation.rollout import rollout
from phipsi.simulation.run import simulate
from phipsi.simulation.trajectory import Trajectory

__all__ = ["Event", "EventRecord", "Trajectory", "forces", "rollout", "simulate"]
