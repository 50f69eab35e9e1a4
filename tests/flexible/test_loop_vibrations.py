"""Equilibria and natural frequencies with constraints, and bodies that are bent too far."""

from functools import cache

import amounts
import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.linalg import eig

import phipsi as pp

pytestmark = pytest.mark.usefixtures("interpreted")

Z = (0, 0, 1)
JOINTS = [0, 3, 6]


def test_a_beam_that_is_clamped_and_pinned():
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=1.0, modes=4)
    builder.add_body("boom", joint=pp.joints.Fixed(), inertia=beam)
    builder.add_frame("end", "boom", port="tip")
    pin = pp.constraints.PointOnLine((1, 0, 0), name="pin", a="world", b="end")
    found = pp.mode_shapes(pp.System(builder.build(), [pin]))
    roots = np.array([3.9266023120, 7.0685827456, 10.2101761228])  # tan β = tanh β
    errors = found.frequencies[:6:2] / roots**2 - 1
    assert abs(errors[0]) < 1e-5 and abs(errors[2]) < 1e-3
    assert_allclose(found.frequencies[1:6:2], found.frequencies[:6:2], rtol=1e-9)
    tip = beam.port("tip").translation_modes @ found.shapes
    assert np.abs(tip[1:]).max() < 1e-12


def test_the_force_of_a_string_pulls_back():
    """A pendulum as a mass on a string: all its stiffness is that of the constraint's force."""
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    ball = pp.SpatialInertia(2.0)
    builder.add_body("ball", joint=pp.joints.Translation(), inertia=ball)
    string = pp.constraints.Distance(1.5, name="string", a="ball", b="world")
    system = pp.System(builder.build(), [string])
    found = pp.natural_frequencies(system, [0, 0, -1.5])
    assert_allclose(found, np.full(2, np.sqrt(9.81 / 1.5)), rtol=1e-12)
    assert np.isnan(pp.natural_frequencies(system, [0, 0, 1.5])).all()
    weightless = pp.natural_frequencies(pp.System(system.model.with_gravity((0, 0, 0)), [string]),
                                        [0, 0, -1.5])  # fmt: skip
    assert_allclose(weightless, 0, atol=1e-12)
    lifted = pp.natural_frequencies(system, [0, 0, -1.5], tau=[0, 0, 0.5 * 2 * 9.81])
    assert_allclose(lifted, np.sqrt(0.5 * 9.81 / 1.5), rtol=1e-12)
    with pytest.raises(pp.errors.InputError, match=r"'string'(.|\n)*pp\.equilibrium"):
        pp.mode_shapes(system, [0, 0, -1.2])
    with pytest.raises(pp.errors.InputError, match="steady"):
        pp.natural_frequencies(system, [0, 0, -1.5], [1.0, 0, 0])


@cache
def four_bar(EI):
    """Three beams in a row whose end is on a pin."""
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(EI, np.inf), modes=0, rotary_inertia=1e-3)
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    for k, name in enumerate(("first", "second", "third")):
        place = {"parent": ("first", "second")[k - 1], "port": "tip"} if k else {}
        builder.add_body(name, joint=pp.joints.Revolute(Z), inertia=beam, **place)
    builder.add_frame("end", "third", port="tip")
    pin = pp.constraints.Revolute(Z, name="pin", a="end", b=("world", (1.5, 0, 0)))
    return pp.System(builder.build(), [pin])


def start(system):
    q = system.model.neutral()
    q[JOINTS] = system.with_rigid_bodies().assemble([-0.9, 0.9, 0.9])
    return q


@pytest.mark.parametrize("EI", [6e5, 1e8, 10.0][: 2 + amounts.ALL])
def test_equilibria_of_soft_and_stiff_loops(EI):
    """Hanging by itself; in the limit, as rigid bars do."""
    system = four_bar(EI)
    held = pp.equilibrium(system, q=start(system))
    assert held.iterations < 20
    assert np.abs(held.residual).max() < 1e-10 * 9.81 and not held.tau.any()
    G = system.jacobian(held.q)
    unbalanced = pp.bias_forces(system.model, held.q, 0 * held.v) + G.T @ held.f
    assert np.abs(unbalanced).max() < 1e-9
    assert np.abs(system.residual(held.q)).max() < 1e-10
    rigid = system.with_rigid_bodies()
    other = pp.equilibrium(rigid, q=start(system)[JOINTS])
    assert np.abs(held.q[JOINTS] - other.q).max() < 5.0 / EI
    # slow beside stiff: the swing of rigid bars, whose frequency is known to many digits
    swing = pp.natural_frequencies(system, held.q)[0]
    assert_allclose(swing, pp.natural_frequencies(rigid, other.q)[0], rtol=max(10 / EI, 1e-7))


def test_frequencies_of_a_four_bar_of_beams():
    """Against the eigenvalues of [K G*; G 0], K by differences of forces, and against poles."""
    system = four_bar(50.0)
    held = pp.equilibrium(system, q=start(system))
    found = pp.natural_frequencies(system, held.q)
    model, nv, h, rest = system.model, system.nv, 1e-4, np.zeros(system.nv)

    def forces(step):
        q = model.integrate(held.q, step)
        return pp.bias_forces(model, q, rest) + system.jacobian(q).T @ held.f

    K = np.stack([
        (8 * (forces(h * e) - forces(-h * e)) - forces(2 * h * e) + forces(-2 * h * e)) / (12 * h)
        for e in np.eye(nv)
    ], axis=1)  # fmt: skip
    U, s, _ = np.linalg.svd(system.jacobian(held.q).T)
    G = U[:, : np.count_nonzero(s > 1e-9)].T  # rows out of the plane move nothing
    zero = np.zeros((len(G), len(G)))
    whole = np.block([[K, G.T], [G, zero]])
    mass = np.block([[pp.mass_matrix(model, held.q), 0 * G.T], [0 * G, zero]])
    squares = eig(whole, mass, right=False)
    squares = np.sort(squares[np.isfinite(squares) & (np.abs(squares) < 1e12)].real)
    assert_allclose(found, np.sqrt(squares), rtol=1e-7)
    poles = pp.linearize(system, held.q).poles()
    seen = np.sort(np.abs(poles.imag))
    for w in found:
        assert np.abs(seen - w).min() < 1e-6 * w
    without = pp.natural_frequencies(system.model, held.q)
    assert len(without) == nv and len(found) == nv - len(G)


def test_slow_motions_beside_stiff_modes():
    """The swing of a pendulum is not lost in the rounding of a vibration 10⁷ times as fast."""
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    beam = pp.FlexibleInertia.beam(
        1.0, 1.0, EI=(1e12, np.inf), modes=1, axis=(0, -1, 0), bending_axis=(1, 0, 0)
    )
    builder.add_body("bar", joint=pp.joints.Revolute(Z), inertia=beam)
    found = pp.natural_frequencies(builder.build())
    assert found[-1] > 1e7
    assert_allclose(found[0], np.sqrt(1.5 * 9.81), rtol=1e-9)


# ---- bent too far


def arm(EI):
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    hub = pp.SpatialInertia.sphere(0.1, mass=1.0)
    builder.add_body("hub", joint_name="shoulder", inertia=hub)
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=(EI, np.inf), modes=1)
    builder.add_body("link", parent="hub", joint=pp.joints.Fixed(), inertia=beam)
    builder.add_body("load", parent="link", port="tip", joint_name="wrist", inertia=hub)
    return builder.build()


BENT = r"Body 'link' is bent by \d+ % of its length(.|\n)*joint=pp\.joints\.Fixed\(\)"


def test_a_beam_too_soft_for_its_load_says_so():
    """Not that a joint has no inertia: the modes do not describe so much bending."""
    model = arm(0.3)
    rest = np.zeros(model.nv)
    with pytest.raises(pp.errors.SimulationError, match=BENT):
        pp.simulate(model, model.neutral(), rest, 0.2, integrator="rk4", dt=4e-3)
    bent = model.neutral()
    bent[1:3] = -0.4, 0.2
    with pytest.raises(pp.errors.SingularHingeError, match=BENT):
        pp.forward_dynamics(model, bent, rest, rest)
    with pytest.raises(pp.errors.ConvergenceError, match=BENT):
        pp.equilibrium(model, unknowns=("modes", "tau[shoulder]"), max_iterations=8)
    with pytest.warns(pp.errors.PhipsiWarning, match=BENT):
        pp.equilibrium(arm(3.0), unknowns=("modes", "tau"))
    stiff = arm(300.0)
    held = pp.equilibrium(stiff, unknowns=("modes", "tau"))
    expected = (1.0 * 9.81 / 3 + 9.81 / 8) / 300  # of a cantilever, and its own weight
    tip = stiff.flexible[1].port_pose("tip", held.q[1:4]).translation[1]
    assert_allclose(tip, -expected, rtol=2e-3)


def test_a_joint_without_inertia_is_not_blamed_on_bending():
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    beam = pp.FlexibleInertia.beam(1.0, 1.0, EI=1.0, modes=0)
    builder.add_body("boom", joint=pp.joints.Free(), inertia=beam)
    model = builder.build()
    with pytest.raises(pp.errors.SingularHingeError, match="rotary_inertia") as error:
        pp.mode_shapes(model)
    assert "is bent" not in str(error.value) and len(str(error.value)) < 1200
    fixed = model.with_body("boom", armature=(1e-4,) * 6)
    assert_allclose(pp.natural_frequencies(fixed)[:6], 0, atol=1e-6)
