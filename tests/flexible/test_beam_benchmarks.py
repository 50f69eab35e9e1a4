"""Beams in mechanisms against exact frequencies (docs/theory/flexible-bodies.md, section 9)."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.model.joints import Fixed, Planar, Revolute

STEP = 1e-30
HALF_TURN = pp.Pose(np.diag([-1.0, -1.0, 1.0]))
CORNER = pp.Pose.from_axis_angle((0, 0, 1), np.pi / 2)


def beam(modes=4, planes=(1.0, np.inf), **options):
    """A beam along x of unit length, mass and stiffness that bends in y (and z)."""
    return pp.FlexibleInertia.beam(1.0, 1.0, planes, modes=modes, **options)


def mechanism(*bodies):
    """Bodies as arguments of `add_body`, without gravity."""
    builder = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, options in bodies:
        builder.add_body(name, **options)
    return builder.build(inertia="keep")


def frequencies(model, spin=None):
    """Frequencies (rad/s) of small motions about the neutral configuration.

    With `spin` the first joint, a revolute one, turns at that rate, and the others are free.
    """
    q, v = model.neutral(), np.zeros(model.nv)
    directions = np.eye(model.nv)
    if spin is not None:
        v[0], directions = spin, directions[1:]
    M = directions @ pp.mass_matrix(model, q) @ directions.T
    K, G = [], []
    for d in directions:
        moved = pp.bias_forces(model, q + 1j * STEP * model.qdot(q, d), v)
        K.append(directions @ np.imag(moved) / STEP)
        G.append(directions @ np.imag(pp.bias_forces(model, q, v + 1j * STEP * d)) / STEP)
    K, G = np.array(K).T, np.array(G).T
    n = len(M)
    A = np.block([[np.zeros((n, n)), np.eye(n)], [-np.linalg.solve(M, np.hstack([K, G]))]])
    values = np.linalg.eigvals(A)
    assert np.abs(values.real).max() < 1e-5 * np.abs(values).max() + 1e-4
    return np.sort(values.imag[values.imag > 1e-3])


def test_b1_cantilever():
    model = mechanism(("beam", {"joint": Fixed(), "inertia": beam()}))
    found = frequencies(model)[:3] / np.array([1.8751040687, 4.6940911330, 7.8547574382]) ** 2 - 1
    assert found[0] < 1e-5 and found[2] < 1e-3 and (found > 0).all()


def test_b2_free_beam():
    """The modes are those of a clamped beam; the free joint makes them those of a free one."""
    model = mechanism(("beam", {"joint": Planar(), "inertia": beam()}))
    found = frequencies(model)[:2] / np.array([4.7300407449, 7.8532046241]) ** 2 - 1
    assert (found > 0).all() and found[0] < 5e-4 and found[1] < 1e-3


def test_b4_mass_at_the_tip():
    tip = {"parent": "beam", "port": "tip", "joint": Fixed(), "inertia": pp.SpatialInertia(1.0)}
    model = mechanism(("beam", {"joint": Fixed(), "inertia": beam()}), ("load", tip))
    found = frequencies(model)[:2] / np.array([1.2479174096, 4.0311394367]) ** 2 - 1
    assert (found > 0).all() and found[0] < 1e-6 and found[1] < 1e-4


ROTATING = {
    ("flap", 2): (4.1373196, 22.614922),
    ("flap", 6): (7.3603730, 26.809082),
    ("flap", 12): (13.170150, 37.603112),
    ("chord", 2): (3.6217970,),
    ("chord", 6): (4.2632254,),
}


def spinning(plane, **options):
    """A beam on a massless hub that turns about z; flap: out of the plane, chord: in it."""
    planes = (1.0, np.inf) if plane == "chord" else (np.inf, 1.0)
    hub = {"joint": Revolute(), "inertia": pp.SpatialInertia(1.0, moment_about_com_B=1.0)}
    panel = {"parent": "hub", "joint": Fixed(), "inertia": beam(6, planes, **options)}
    return mechanism(("hub", hub), ("beam", panel))


@pytest.mark.parametrize(("case", "exact"), ROTATING.items(), ids=str)
def test_b6_rotating_beam(case, exact):
    """Eight modes, with the shortening of the bent beam."""
    found = frequencies(spinning(case[0]), spin=case[1])[: len(exact)]
    np.testing.assert_allclose(found, exact, rtol=1e-3)


def test_b6_without_shortening_the_beam_loses_its_stiffness():
    soft = frequencies(spinning("chord", stiffening=False), spin=3.0)[0]
    assert soft < 2.5 < 3.5 < frequencies(spinning("chord"), spin=3.0)[0]


def test_b7_hub_with_two_panels():
    hub = {"joint": Planar(), "inertia": pp.SpatialInertia(1.0, moment_about_com_B=0.05)}
    panel = {"parent": "hub", "joint": Fixed(), "inertia": beam()}
    model = mechanism(("hub", hub), ("a", panel), ("b", panel | {"placement": HALF_TURN}))
    np.testing.assert_allclose(frequencies(model)[:2], [4.563246, 10.912096], rtol=1e-4)


@pytest.mark.parametrize(
    ("elbow", "exact"),
    [(Fixed(), (1.171780, 3.190918, 15.7544)), (Revolute(), (1.557297, 15.4180))],
)
def test_b8_two_links_at_a_right_angle(elbow, exact):
    second = {"parent": "a", "port": "tip", "joint": elbow, "placement": CORNER}
    model = mechanism(
        ("a", {"joint": Fixed(), "inertia": beam()}), ("b", second | {"inertia": beam()})
    )
    np.testing.assert_allclose(frequencies(model)[: len(exact)], exact, rtol=1e-3)


@pytest.mark.parametrize(
    ("segments", "errors"),
    [(2, (4.8e-4, 8.5e-3, 0.22)), (4, (3.3e-5, 1.2e-3, 7.7e-3)), (8, (2.1e-6, 8.0e-5, 6.1e-4))],
)
def test_welded_segments_converge(segments, errors):
    """Static modes only; β² of a cantilever falls by 16 when the segments are halved."""
    piece = pp.FlexibleInertia.beam(1 / segments, 1.0, (1.0, np.inf), modes=0)
    bodies = [("s0", {"joint": Fixed(), "inertia": piece})]
    for k in range(1, segments):
        on = {"parent": f"s{k - 1}", "port": "tip", "joint": Fixed(), "inertia": piece}
        bodies.append((f"s{k}", on))
    exact = np.array([1.8751040687, 4.6940911330, 7.8547574382]) ** 2
    found = frequencies(mechanism(*bodies))[:3] / exact - 1
    np.testing.assert_allclose(found, errors, rtol=0.05)


def test_b6_segments_with_shortening_converge_faster():
    hub = ("hub", {"joint": Revolute(), "inertia": pp.SpatialInertia(1.0, moment_about_com_B=1.0)})
    found = {}
    for stiffening in (True, False):
        piece = pp.FlexibleInertia.beam(0.25, 1.0, (1.0, np.inf), modes=0, stiffening=stiffening)
        on = {"joint": Fixed(), "inertia": piece}
        bodies = [hub, ("s0", on | {"parent": "hub"})]
        bodies += [(f"s{k}", on | {"parent": f"s{k - 1}", "port": "tip"}) for k in range(1, 4)]
        found[stiffening] = frequencies(mechanism(*bodies), spin=6.0)[0]
    assert found[True] == pytest.approx(4.2655, abs=2e-4)
    assert found[False] < 3.9
