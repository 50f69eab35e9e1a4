"""Names that `phipsi` does not have, and what to write instead.

Names of Pinocchio, MuJoCo and Drake, for those who type what they know: ``pp.rnea`` answers with
`inverse_dynamics`. The table of Pinocchio's names in docs/migration/pinocchio.md is the same one; a
test compares them. And names that were here before (docs/decisions/0075), or that are found in a
module.
"""

from __future__ import annotations

# Where names are that do not stand at the top: errors, results of functions, and the like.
_ELSEWHERE = {
    "pp.errors": "ConvergenceError FileError InputError LoweringError ModelError ParseError "
    "PhipsiError PhipsiWarning SimulationError SingularHingeError SingularMatrixError SpaceError",
    "pp.conventions": "from_drake from_mujoco from_pinocchio to_drake to_mujoco to_pinocchio",
    "pp.sensitivities": "christoffel_symbols coriolis_matrix log_det_mass_matrix_gradient "
    "mass_matrix_sensitivity mass_matrix_inverse_sensitivity operational_space_inertia_sensitivity",
    "pp.constraints": "GraphJoint",
    "pp.diagonal_dynamics": "innovations log_det_mass_matrix",
    "pp.grasping": "Grasp",
    "pp.identification": "base_parameters identify inertial_parameters kinetic_energy_regressor "
    "parameter_names potential_energy_regressor regressor",
    "pp.laws": "policy table",
    "pp.custom": "operator riccati scalar vector",
    "pp.topology": "contact_events",
    "phipsi.algorithms.dynamics.constraint_forces": "Dynamics Impulse Reactions",
    "phipsi.algorithms.dynamics.derivatives": "AccelerationDerivatives EffortDerivatives",
    "phipsi.grasping.grasp": "GraspCheck",
    "phipsi.identification.least_squares": "Identification",
    "phipsi.kinematics.ik_multistart": "IKResult",
    "phipsi.identification.minimal_parameters": "BaseParameters",
    "phipsi.algorithms.dynamics.diagonal_dynamics": "Innovations",
    "phipsi.algorithms.constrained.stages": "Stages",
    "phipsi.algorithms.constrained.loop_search": "Mobility",
    "phipsi.papers.derivations.derivation": "Derivation",
    "phipsi.codegen.export": "Exported",
    "phipsi.scenarios.scenario": "Scenario",
    "phipsi.core.model.flexible_ports": "FlexibleShape",
    "phipsi.core.calculus.families": "Family",
    "phipsi.papers.theorems": "Proof",
    "phipsi.core.expressions.node": "Expr",
    "phipsi.laws.law": "Law",
    "phipsi.simulation.analysis.linear_system": "LinearSystem",
    "phipsi.simulation.runs.gradients": "RolloutGradient",
    "phipsi.simulation.compiled.simulator_results": "Rollout",
    "phipsi.core.sweeps.explanation": "Explanation",
}
_DYNAMICS = "phipsi.algorithms.dynamics.constraint_forces.Dynamics"
# Names that were here before, and what does their work now.
_BEFORE = {
    "closed_inverse_dynamics": "pp.inverse_dynamics(system, …, actuated=[…])",
    "constrained_dynamics": "pp.forward_dynamics(system, …, return_multipliers=True)",
    "constrained_dynamics_derivatives": "pp.forward_dynamics_derivatives",
    "ConstrainedMotion": _DYNAMICS,
    "DrivenMotion": _DYNAMICS,
    "HybridDynamics": _DYNAMICS,
    "load_system": "pp.load",
    "robots": "pp.examples",
    "body_poses": "pp.poses(model, q)",
    "body_velocities": "pp.velocities(model, q, v)",
    "body_accelerations": "pp.accelerations(model, q, v, vdot)",
    "frame_poses": "pp.poses(model, q, points)",
    "frame_velocities": "pp.velocities(model, q, v, points)",
    "frame_accelerations": ("pp.accelerations(model, q, v, vdot, points)"),
    "innovations_rates": "pp.diagonal_dynamics.rates",
    "diagonal_coriolis": "pp.diagonal_dynamics.coriolis",
    "regressors": "pp.identification",
    "controllers": "pp.control",
    "references": "pp.control",
    "contacts": "pp.grasping",
    "standard_laws": "pp.laws",
    "load_study": "pp.Study.results(folder)",
    "jacobian_dot_v": "pp.jacobian_dot(model, q, v, points, times_v=True)",
    "center_of_mass_jacobian": "pp.centroidal.com_jacobian",
    "centroidal_momentum_matrix": "pp.centroidal.momentum_matrix",
    "centroidal_momentum_matrix_dot": "pp.centroidal.momentum_matrix_dot",
    "own": "pp.custom",
    "dense": "pp.evaluate_dense",
    "equal": "pp.prove(pp.Identity(x, y), any_efforts=True)",
    "SimulatorRun": "phipsi.simulation.compiled.simulator_results.Rollout",
    "JointStop": "pp.forces.JointLimit",
    "from_ratings": "pp.forces.from_model(model)",
    "draw_rates": "pp.molecules.sample_velocities",
    "Rating": "phipsi.attached.JointProperties",
    "tip_force_correction": "pp.forward_dynamics(model, q, v, tau, points=points, f0=f0)",
}
# Names of others, in groups with one answer. Without brackets, an answer is a name below `pp`.
_PINOCCHIO = {
    "rnea": "inverse_dynamics",
    "aba": "forward_dynamics",
    "crba": "mass_matrix",
    "computeMinverse": "mass_matrix_inverse",
    "nonLinearEffects": "bias_forces",
    "computeGeneralizedGravity": "gravity_forces",
    "computeStaticTorque": "inverse_dynamics",
    "forwardKinematics": "poses velocities accelerations",
    "updateFramePlacements updateFramePlacement framesForwardKinematics": "poses",
    "getFrameVelocity": "velocities",
    "getVelocity": "velocities",
    "getAcceleration getClassicalAcceleration": "accelerations",
    "getFrameAcceleration getFrameClassicalAcceleration": "accelerations",
    "computeJointJacobians computeJointJacobian getJointJacobian computeFrameJacobian "
    "getFrameJacobian": "jacobian",
    "getFrameJacobianTimeVariation computeJointJacobiansTimeVariation "
    "getJointJacobianTimeVariation": "jacobian_dot",
    "centerOfMass": "center_of_mass",
    "jacobianCenterOfMass": "centroidal.com_jacobian",
    "computeCentroidalMomentum": "momentum",
    "computeJointTorqueRegressor": "identification.regressor",
    "computeKineticEnergyRegressor": "identification.kinetic_energy_regressor",
    "computePotentialEnergyRegressor": "identification.potential_energy_regressor",
    "ccrba computeCentroidalMap": "centroidal.momentum_matrix",
    "dccrba computeCentroidalMapTimeVariation": "centroidal.momentum_matrix_dot",
    "computeKineticEnergy": "kinetic_energy",
    "computePotentialEnergy": "potential_energy",
    "computeRNEADerivatives": "inverse_dynamics_derivatives",
    "computeABADerivatives": "forward_dynamics_derivatives",
    "computeCoriolisMatrix": "sensitivities.coriolis_matrix",
    "constraintDynamics forwardDynamics": "forward_dynamics constraint_forces",
    "computeDelassusMatrix": "delassus_matrix",
    "impulseDynamics": "constraint_impulse",
    "integrate": "model.integrate",
    "difference": "model.difference",
    "neutral": "model.neutral",
    "randomConfiguration": "model.random_configuration",
    "buildReducedModel": "model.with_locked",
    "appendModel": "model.attach",
    "buildModelFromUrdf buildModelFromMJCF buildModelFromSdf": "load",
    "JointModelFreeFlyer": "load('robot.urdf', base='free')",
    "LOCAL": "jacobian(model, q, points, axes='body')",
    "WORLD": "jacobian(model, q, points, axes='spatial')",
    "LOCAL_WORLD_ALIGNED": "jacobian(model, q, points, axes='world')",
    "computeCollisions computeCollision computeDistances computeDistance": "distances",
    "SE3": "Pose",
    "Inertia": "SpatialInertia",
}
_MUJOCO = {
    "mj_step mj_step1 mj_step2": "simulate rollout",
    "mj_forward mj_fwdAcceleration": "forward_dynamics",
    "mj_inverse": "inverse_dynamics",
    "mj_rne": "inverse_dynamics bias_forces",
    "mj_crb mj_fullM": "mass_matrix",
    "mj_kinematics": "poses",
    "mj_comPos": "center_of_mass",
    "mj_jac mj_jacBody mj_jacBodyCom mj_jacSite mj_jacGeom": "jacobian",
    "mj_jacSubtreeCom": "centroidal.com_jacobian",
    "mj_jacDot": "jacobian_dot",
    "mj_objectVelocity": "velocities",
    "mj_objectAcceleration": "accelerations",
    "mj_angmomMat": "centroidal.momentum_matrix",
    "mj_subtreeVel": "momentum",
    "mj_energyPos": "potential_energy",
    "mj_energyVel": "kinetic_energy",
    "mj_integratePos": "model.integrate",
    "mj_differentiatePos": "model.difference",
    "mj_solveM": "compile(pp.operators.mass_matrix.inv, model)",
    "mj_mulM": "compile(pp.operators.mass_matrix, model)",
    "mjd_transitionFD": "step_derivatives",
    "mj_geomDistance": "distances",
    "mj_contactForce": "contact_forces",
    "mj_rnePostConstraint": "joint_reactions",
    "mj_name2id": "model.body_index",
    "mj_loadXML MjSpec": "load",
    "MjModel": "Model load",
}
_DRAKE = {
    "CalcInverseDynamics": "inverse_dynamics",
    "CalcMassMatrix": "mass_matrix",
    "CalcBiasTerm": "bias_forces",
    "CalcGravityGeneralizedForces": "gravity_forces",
    "CalcJacobianSpatialVelocity": "jacobian",
    "CalcBiasSpatialAcceleration": "jacobian_dot(model, q, v, points, times_v=True)",
    "CalcCenterOfMassPositionInWorld": "center_of_mass",
    "CalcSpatialMomentumInWorldAboutPoint": "momentum",
    "MultibodyPlant": "ModelBuilder load",
    "InverseKinematics": "inverse_kinematics",
    "Linearize FirstOrderTaylorApproximation": "linearize",
}
# What people type first, and what to write.
_FIRST = {
    "fk FK forward_kinematics": "pp.poses(model, q) and pp.velocities(model, q, v)",
    "ik IK": "pp.inverse_kinematics(model, {'hand': pose})",
    "fd forwardDynamics": "pp.forward_dynamics(model, q, v, tau)",
    "id inverseDynamics": "pp.inverse_dynamics(model, q, v, vdot)",
    "load_urdf load_mjcf load_sdf from_urdf from_mjcf from_sdf load_model load_robot": (
        "pp.load('robot.urdf'), for URDF, SDF and MJCF files"
    ),
    "Robot RobotModel": "pp.load('robot.urdf'), or pp.ModelBuilder() to build a pp.Model",
    "World Environment Scene": (
        "pp.Simulator(model, dt=1e-3) for a mechanism with forces, controllers and contacts. "
        "Gymnasium environments are in phipsi.gym"
    ),
    "Sim Simulation": "pp.Simulator(model, dt=1e-3), or pp.simulate(model, q, v, duration)",
    "step": "pp.Simulator(model, dt=1e-3).step(state, tau), or pp.simulate(model, q, v, duration)",
    "make": "phipsi.gym.cart_pole_swing_up(num_envs), after  import phipsi.gym",
    "plot": "trajectory.plot(), or pp.report(trajectory, 'run.html')",
    "viz visualize visualise view": (
        "pp.show(model), pp.report(trajectory, 'run.html'), pp.live_page(model, 'live.html') or "
        "pp.render(trajectory, 'run.mp4')"
    ),
    "viewer launch launch_passive": (
        "pp.live_page(model, 'live.html') for a page that simulates in the browser, "
        "pp.show(model), or  phipsi view robot.xml  in a shell"
    ),
    "gravity_compensation gravity_torques": "pp.gravity_forces(model, q), the tau that holds",
    "frame_jacobian": "pp.jacobian(model, q, ['hand'])",
    "mj_applyFT": "tau = pp.jacobian(model, q, ['hand']).T @ [*moment, *force]",
    "xfrc_applied": (
        "a law that returns a force at a point:\n"
        "    push = pp.law(lambda f: {'force': f}).bind(f=[0.0, 0.0, 1.0]).at('hand')\n"
        "    pp.Simulator(model, [push])"
    ),
    "total_mass": "sum(x.mass for x in model.inertias)",
    "VecEnv VectorEnv": "phipsi.gym.VectorEnvironment(sim, starts), after  import phipsi.gym",
    "interop": "pp.conventions, which converts states to and from Pinocchio, MuJoCo and Drake",
    "pid PID": "pp.laws.pid('elbow', target, kp=20.0, ki=1.0, kd=2.0)",
    "lqr LQR": "pp.linearize(model, q).lqr(Q, R)",
    "FreeFlyer Floating FloatingBase": "pp.joints.Free()",
    "Hinge": "pp.joints.Revolute(axis)",
    "Slide": "pp.joints.Prismatic(axis)",
    "Ball": "pp.joints.Spherical()",
    "Weld": "pp.joints.Fixed()",
}
_TO_CONTROL = "pp.linearize(model, q).to_control()"
# What there is not, and what comes nearest.
_NOT_HERE = {
    "kalman Kalman kalman_filter ekf EKF lqe": (
        "phipsi has no state estimators. Linearize the model, and use python-control: "
        f"control.lqe({_TO_CONTROL}, QN, RN)"
    ),
    "mpc MPC": (
        "phipsi has no model-predictive control. pp.rollout_gradient and pp.step_derivatives give "
        f"the derivatives that an optimizer needs, {_TO_CONTROL} a linear model"
    ),
}
_NO_DATA = "Data createData MjData mj_makeData mj_resetData CreateDefaultContext Context".split()


def name_here(name: str) -> str:
    """What to say behind "has no attribute": the name here, or nothing."""
    if name in _BEFORE:
        return f": it is {_BEFORE[name]} now"
    for names, answer in _FIRST.items():
        if name in names.split():
            return f": write {answer}"
    for names, answer in _NOT_HERE.items():
        if name in names.split():
            return f": {answer}"
    for where, names in _ELSEWHERE.items():
        if name in names.split():
            return f": it is {where}.{name}"
    if name in _NO_DATA:
        return ": there is no data object; functions take the model and arrays, and return arrays"
    for library, table in (("Pinocchio", _PINOCCHIO), ("MuJoCo", _MUJOCO), ("Drake", _DRAKE)):
        for theirs, ours in table.items():
            if name in theirs.split():
                return f": {_answer(ours)} here what {library} calls {name}"
    return ""


def _answer(ours: str) -> str:
    names = [ours] if "(" in ours else ours.split()
    written = [x if x.startswith("model.") else f"pp.{x}" for x in names]
    return " and ".join(written) + (" are" if len(written) > 1 else " is")
