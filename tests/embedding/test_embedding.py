"""Embedded loops against the constrained equations of the same system, solved densely."""

import pickle

import numpy as np
import pytest
from comparers import close, tight
from random_systems import kkt, random_system

import phipsi as pp
from phipsi.core.model.deflections import bent_too_far
from phipsi.embedding.degrees import Degrees, highest
from phipsi.embedding.loop_motion import LoopMotion
from phipsi.errors import InputError, ModelError

JOINTS = ("revolute", "prismatic", "helical", "cylindrical", "universal", "planar")
KINDS = (
    "Spherical", "Revolute", "Distance", "Coupling", "Universal", "PointOnLine", "Planar",
    "Cylindrical", "Prismatic", "Weld",
)  # fmt: skip
LOOPS = [*((k,) for k in KINDS), ("Spherical", "Coupling"), ("Distance", "Coupling", "Universal")]


def random_loops(seed, kinds, bodies=9):
    """A random system with these constraints, all of them embedded, and a state of the tree."""
    for more in range(30):
        system, q = random_system(
            (seed, more), bodies, kinds, spare=3, independent=True,
            joints=JOINTS[: 5 + seed % 2], armature=seed % 2 == 0,
        )  # fmt: skip
        try:
            embedded = pp.embed_constraints(system, q)
        except InputError:
            continue
        if not embedded.remaining and len(system.constraints) == len(kinds):
            rng = np.random.default_rng(seed)
            model = embedded.model
            steps = 0.05 * rng.standard_normal(model.nv)
            found = model.integrate(embedded.coordinates(q), steps)
            return system, embedded, found, rng.standard_normal(model.nv), rng
    raise AssertionError("no system of this kind")


def four_bar():
    """A four-bar on a slider, with a hand on its coupler, at a closed configuration."""
    rod, z = pp.SpatialInertia(1.0, (0.5, 0, 0), 1 / 12), (0, 0, 1)
    at = pp.Pose(None, (1, 0, 0))
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    base = pp.SpatialInertia(2.0, (0, 0, 0), 0.1)
    b.add_body("base", joint=pp.joints.Prismatic((1, 0, 0)), inertia=base)
    hinge = pp.joints.Revolute(z)
    b.add_body("crank", parent="base", joint=hinge, inertia=rod, armature=0.05)
    b.add_body("coupler", parent="crank", joint=hinge, placement=at, inertia=rod)
    b.add_body("rocker", parent="coupler", joint=hinge, placement=at, inertia=rod)
    hand = pp.Pose(None, (0.5, 0.2, 0))
    b.add_body("hand", parent="coupler", joint=pp.joints.Revolute((0, 1, 0)), placement=hand,
               inertia=rod)  # fmt: skip
    b.add_frame("tip", "coupler", pp.Pose(None, (0.3, 0.4, 0)))
    pin = pp.constraints.Revolute(z, name="pin", a=("rocker", (1, 0, 0)), b=("base", (1.2, 0, 0)))
    system = pp.System(b.build(), [pin])
    return system, system.assemble([0, 1.2, -0.9, -1.6, 0.3])


@pytest.mark.parametrize(("seed", "kinds"), list(enumerate(LOOPS)))
def test_dynamics(seed, kinds):
    system, embedded, q, v, rng = random_loops(seed, kinds)
    model, all_q = embedded.model, embedded.system_coordinates(q)
    all_v = embedded.system_velocities(q, v)
    tight(system.residual(all_q), np.zeros(system.n_rows))
    tight(system.jacobian(all_q) @ all_v, np.zeros(system.n_rows))
    tight(embedded.velocities(q, all_v), v)
    X = embedded.system_velocities(q, np.eye(model.nv)).T
    M = X.T @ pp.mass_matrix(system, all_q) @ X
    tight(pp.mass_matrix(model, q), M)
    close(pp.mass_matrix_inverse(model, q), np.linalg.inv(M))
    close(pp.diagonal_dynamics.log_det_mass_matrix(model, q), np.linalg.slogdet(M)[1])
    tau = rng.standard_normal(system.nv)
    vdot, _ = kkt(system, all_q, all_v, tau)
    ours = pp.forward_dynamics(model, q, v, embedded.efforts(q, tau))
    close(ours, embedded.velocities(q, vdot))
    # the twin: without the change of X along the motion, efforts are others
    needed = pp.inverse_dynamics(model, q, v, ours)
    close(needed, embedded.efforts(q, tau))
    other = X.T @ (M_times(system, all_q, X @ ours) + pp.bias_forces(system.model, all_q, all_v))
    moves = np.abs(X - X[:, :1]).max() > 0 and kinds != ("Coupling",)
    assert (np.abs(other - needed).max() > 1e-6) == moves or np.ptp(X.sum(axis=1)) == 0


def M_times(system, q, x):
    return pp.mass_matrix(system, q) @ x


@pytest.mark.parametrize("seed", [0, 2, 7])
def test_blocks_against_dense_formulas(seed):
    _, embedded, q, v, rng = random_loops(seed, LOOPS[seed])
    model = embedded.model
    for text in ("ℳ", "ℳ⁻¹"):
        close(pp.compile(text, model, mode="dense")(q), pp.evaluate_dense(text, model, q=q))
    bias = "H φ (M φ* (a + gravity) + b)"
    tight(pp.compile(bias, model)(q, v), pp.evaluate_dense(bias, model, q=q, v=v).ravel())
    change = pp.diff("ℳ", "q", along="dq", modes=True)
    dq = rng.standard_normal(model.nv)
    found = pp.compile(change, model, mode="dense")(q, dq)
    close(found, pp.evaluate_dense(change, model, q=q, dq=dq))
    h = 1e-5
    ahead, behind = (pp.mass_matrix(model, model.integrate(q, s * h * dq)) for s in (1, -1))
    close(found, (ahead - behind) / (2 * h), 1e-7)


@pytest.mark.parametrize("kind", ["inverse", "forward"])
def test_derivatives(kind):
    system, q = four_bar()
    embedded = pp.embed_constraints(system, q, independent=["crank"])
    model, q = embedded.model, embedded.coordinates(q)
    v, x = np.array([0.2, 0.7, -0.4]), np.array([0.1, 0.2, 0.3])
    function = getattr(pp, f"{kind}_dynamics")
    by_q, by_v, by_x = getattr(pp, f"{kind}_dynamics_derivatives")(model, q, v, x)
    units = 1e-6 * np.eye(3)

    def differences(f):
        return np.stack([(f(u) - f(-u)) / 2e-6 for u in units], axis=-1)

    close(by_q, differences(lambda u: function(model, model.integrate(q, u), v, x)), 1e-7)
    close(by_v, differences(lambda u: function(model, q, v + u, x)), 1e-7)
    close(by_x, differences(lambda u: function(model, q, v, x + u)), 1e-7)


@pytest.mark.parametrize("integrator", ["rk4", "semi_implicit", "implicit_midpoint", "variational"])
def test_runs_stay_on_the_loops(integrator):
    system, q = four_bar()
    embedded = pp.embed_constraints(system, q, independent=["crank"])
    model, start = embedded.model, embedded.coordinates(q)
    v = np.array([0.2, 0.7, -0.4])
    simulator = pp.Simulator(model, [], dt=1e-3, integrator=integrator)
    run = simulator.rollout(simulator.initial_state(start, v), steps=400)
    loops = embedded.system_coordinates(run.q)
    tight(system.residual(loops), np.zeros((*loops.shape[:-1], system.n_rows)))
    wanted = pp.simulate(system, q, embedded.system_velocities(start, v), 0.4)
    order = 2e-3 if integrator == "semi_implicit" else 1e-5
    close(loops.reshape(-1, 5)[-1], wanted.q[-1], order)


def test_functions_of_trees():
    system, q = four_bar()
    embedded = pp.embed_constraints(system, q, bodies=["rocker"])
    model, at = embedded.model, embedded.coordinates(q)
    v = np.array([0.2, 0.7, -0.4])
    all_v = embedded.system_velocities(at, v)
    names = ["tip", "hand", "rocker"]
    tight(pp.poses(model, at, names), pp.poses(system.model, q, names))
    world = {"axes": "world"}
    moving = pp.velocities(model, at, v, names, **world)
    tight(moving, pp.velocities(system.model, q, all_v, names, **world))
    tight(np.einsum("ij,j->i", pp.jacobian(model, at, names), v), moving.ravel())
    tight(pp.kinetic_energy(model, at, v), pp.kinetic_energy(system, q, all_v))
    tight(pp.potential_energy(model, at), pp.potential_energy(system, q))
    tight(pp.gravity_forces(model, at), embedded.efforts(at, pp.gravity_forces(system.model, q)))
    assert pickle.loads(pickle.dumps(model)) == model
    assert pp.linearize(model, at).A.shape == (6, 6)
    found = model.random_configuration(0, 20)
    tight(system.residual(embedded.system_coordinates(found)), np.zeros((20, 5)))
    with pytest.raises(AssertionError):  # coordinates that are not on the loops are no others
        close(system.residual(embedded.system_coordinates(at + 0.1)), np.zeros(5))


def test_what_cannot_be_embedded_says_why():
    system, q = four_bar()
    with pytest.raises(InputError, match=r"open by 0\.\d+ at q. Close them first"):
        pp.embed_constraints(system, q + 0.1)
    with pytest.raises(InputError, match="'(crank|coupler)' is not independent of"):
        pp.embed_constraints(system, q, independent=["crank", "coupler"])
    with pytest.raises(InputError, match="Did you mean 'crank'"):
        pp.embed_constraints(system, q, independent=["cranc"])
    with pytest.raises(InputError, match="needs a system with constraints"):
        pp.embed_constraints(system.model, q)
    fixed = pp.constraints.Spherical(name="held", a=("hand", (1, 0, 0)), b="world")
    held = pp.System(pp.examples.planar_arm(2), [
        pp.constraints.Rows(name="rows", points=["tip"], A=np.eye(6)[3:4])])  # fmt: skip
    with pytest.raises(InputError, match="'rows': its rows are no joints between two frames"):
        pp.embed_constraints(held, held.model.neutral())
    assert fixed.name == "held"
    embedded = pp.embed_constraints(system, q)
    for refused in (
        embedded.model.to_dict,
        embedded.model.with_rigid_bodies,
    ):
        with pytest.raises(ModelError, match="does not support embedded loops: 'crank"):
            refused()


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        ("ℳ⁻¹ = (I − H ψ K)* D⁻¹ (I − H ψ K)", True),
        ("ℳ = (I + H φ K) D (I + H φ K)*", True),
        ("P = M + E_ψ P E_φ*", True),
        ("P = M + E_φ P E_φ*", False),
        ("ℳ⁻¹ = (I − H φ K)* D⁻¹ (I − H φ K)", False),
    ],
)
def test_exact_proofs(claim, holds):
    system, q = four_bar()
    model = pp.embed_constraints(system, q, independent=["crank"]).model
    proof = pp.prove(claim, model)
    assert proof.holds is holds and "exact" in proof.reason


def test_degrees_are_counted():
    x, one = Degrees(2, 1), Degrees(1, 0)
    assert x + one == Degrees(2, 1) and x * one == Degrees(3, 1) and one / x == Degrees(2, 2)
    assert (x + x).bottom == 2 and highest([0, x]) == 6 and -x == 1 * x == x - 0.0


def test_remaining_constraints_stay():
    system, q = four_bar()
    tip = pp.poses(system.model, q, ["tip"])[0, :3, 3]
    rail = pp.constraints.PointOnLine((1, 0, 0), name="rail", a=("world", tip), b="tip")
    both = pp.System(system.model, [*system.constraints, rail])
    embedded = pp.embed_constraints(both, q, constraints=["pin"])
    assert isinstance(embedded.model, pp.System) and set(embedded.remaining) == {"rail"}
    at, v = embedded.coordinates(q), np.zeros(3)
    tau = np.arange(5.0)
    vdot, _ = kkt(both, q, np.zeros(5), tau)
    found = pp.forward_dynamics(embedded.model, at, v, embedded.efforts(at, tau))
    close(found, embedded.velocities(at, vdot))


def test_dead_points_are_explained():
    system, q = four_bar()
    embedded = pp.embed_constraints(system, q, independent=["crank"])
    model, at = embedded.model, embedded.coordinates(q)
    assert bent_too_far(model, at) == ""
    with pytest.raises(InputError, match="cannot follow: on the way is a dead point"):
        model.integrate(at, [0.0, 3.0, 0.0])
    far = 0.0
    for step in (0.1, 1e-2, 1e-3, 1e-4):  # as far as the crank goes
        while True:
            try:
                at = model.integrate(at, [0.0, step, 0.0])
            except InputError:
                break
            far += step
    assert "near a dead point: the joint of 'crank'" in bent_too_far(model, at) and far < 3.0


def test_residuals_have_the_rows_of_the_system():
    system, q = four_bar()
    body = next(x for x in pp.embed_constraints(system, q).model.flexible if x is not None)
    at = [*np.array(q)[1:4] + 0.1]
    motion = LoopMotion(body.x, body.x.geometry, at, pp.core.spatial.ARRAYS)
    whole = system.residual(np.concatenate([q[:1], at, q[4:]]))
    mine = np.linalg.norm([float(x) for x in motion.residuals()])
    tight(mine, np.linalg.norm(whole[np.abs(whole) > 1e-12]))


def test_features_of_the_rest_of_the_mechanism():
    system, q = four_bar()
    shape = pp.shapes.Sphere(0.05)
    touching = system.model.with_shape("pad", "hand", shape)
    with pytest.raises(InputError, match="embed_constraints does not account for the forces"):
        pp.embed_constraints(
            pp.System(touching, system.constraints, contacts=pp.Contacts(touching)), q
        )
    embedded = pp.embed_constraints(pp.System(touching, system.constraints), q)
    ground = pp.System(embedded.model, contacts=pp.Contacts(embedded.model, ground=True))
    assert ground.n_bodies == embedded.model.n_bodies
    geared = system.model.with_rotor("motor", joint="hand", ratio=50.0, moment=1e-4)
    with pytest.raises(InputError, match="does not support rotors of motors"):
        pp.embed_constraints(pp.System(geared, system.constraints), q)
