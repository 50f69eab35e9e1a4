"""Motions: controllers, force elements, integrators, compiled runs, events and trajectories."""

from phipsi.package_state import offer_within

__getattr__ = offer_within(
    __name__,
    {
        "analysis.linear_system": "LinearSystem",
        "compiled.episodes": "Episodes",
        "compiled.simulator": "Simulator",
        "compiled.simulator_results": "Rollout recorded_run",
        "compiled.simulator_state": "SimulatorState",
        "control.controllers": ".",
        "control.operational_space": "POINT_ACCELERATIONS",
        "control.references": ".",
        "forces": ".",
        "forces.body_forces": "PointSpring PointSprings RigidRopes Rope",
        "forces.elastic_couplings": "ElasticCoupling",
        "forces.force": "Force State",
        "forces.frame_forces": "Bushing TorsionSpring",
        "forces.joint_forces": "from_model",
        "impacts.contact_steps": "ContactSteps",
        "integrators.group_calls": "unit_places velocity",
        "integrators.step_graph": "INERTIA GraphState StepGraph",
        "integrators.tableaux": "METHODS SIMULATED",
        "runs.checks": "check_room checked_number checked_time",
        "runs.gradients": "rollout_gradient",
        "runs.rollout": "rollout whole_rollout",
        "runs.run_emitter": "RunEmitter",
        "runs.run_program": "RunProgram",
        "simulate.changing_run": "TopologyPhase",
        "simulate.events": "Event",
        "simulate.quadratures": "WORK",
        "simulate.run": "simulate",
        "simulate.run_options": "DT RTOL",
        "trajectory.plotting": "NOTHING ROUNDING as_label",
        "trajectory.trajectory": "Trajectory",
    },
)
