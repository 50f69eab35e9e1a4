"""Hinge inertias that are rounding errors are refused by both backends, with the right reason."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.operators import mass_matrix

NOTHING = pp.SpatialInertia(0.0, (0, 0, 0), np.zeros((3, 3)))
BACKENDS = ["native", "reference"]


def before(joint: pp.joints.Joint, armature: float, **where: tuple[float, ...]) -> pp.Model:
    """A massless body with a hinge, and behind it a heavy one that can do without it."""
    builder = pp.ModelBuilder()
    builder.add_body(
        "axle", joint=pp.joints.Revolute((0, 0, 1)), inertia=NOTHING, armature=armature
    )
    builder.add_body(
        "load",
        parent="axle",
        joint=joint,
        placement=pp.Pose(translation=where.get("at", (0.3, 0.2, 0.1))),
        inertia=pp.SpatialInertia(1.0, where.get("com", (0.1, 0.2, 0.3)), np.diag([0.4, 0.5, 0.6])),
    )
    return builder.build()


FREE = [
    (pp.joints.Free(), {}),
    (pp.joints.Spherical(), {"at": (0, 0, 0), "com": (0, 0, 0)}),
    (pp.joints.Composite([pp.joints.Translation(), pp.joints.Spherical()]), {}),
]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("armature", [0.0, 1e-18, 1e-16])
@pytest.mark.parametrize("joint, where", FREE, ids=lambda x: getattr(x, "kind", ""))
def test_nothing_is_left_behind_joints_that_are_free(backend, armature, joint, where):
    """In exact arithmetic D is the armature; in floating point it is the errors of the load's."""
    model = before(joint, armature, **where)
    solve = pp.compile(mass_matrix.inv, model, backend=backend)
    for seed in range(6):
        with pytest.raises(
            pp.errors.SingularHingeError, match="joint 'axle'.* (no|too little) inertia"
        ):
            solve(model.random_configuration(seed), np.ones(model.nv))


@pytest.mark.parametrize("joint, where", FREE, ids=lambda x: getattr(x, "kind", ""))
def test_what_counts_is_solved(joint, where):
    model = before(joint, 1e-6, **where)
    q, x = model.random_configuration(1), np.arange(1.0, model.nv + 1)
    found = [pp.compile(mass_matrix.inv, model, backend=b)(q, x) for b in BACKENDS]
    np.testing.assert_allclose(*found, rtol=1e-8)  # errors of 1e-16 in a D of 1e-6


def test_inertias_that_are_given_have_their_own_size():
    """The model's inertias say nothing about those of another that is given."""
    model = pp.examples.planar_arm(2)
    light = 1e-20 * model.inertia_matrices
    for backend in BACKENDS:
        solve = pp.compile(mass_matrix.inv, model, inputs=["M"], backend=backend)
        args = {"q": np.array([0.1, 0.2]), "M": light, "x": np.array([1e-20, 0.0])}
        found = solve(*(args[name] for name in solve.inputs))
        np.testing.assert_allclose(
            found, pp.mass_matrix_inverse(model, [0.1, 0.2]) @ [1.0, 0.0], rtol=1e-13
        )


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_message_does_not_contradict_its_number(backend):
    """Turning a rod of 1e8 m about itself: D is one, and small beside the other moments."""
    builder = pp.ModelBuilder()
    rod = pp.SpatialInertia(1.0, (5e7, 0, 0), np.diag([1.0, 1e16, 1e16]))
    builder.add_body("rod", joint=pp.joints.Revolute((1, 0, 0)), inertia=rod)
    model = builder.build()
    with pytest.raises(pp.errors.SingularHingeError) as found:
        pp.compile(mass_matrix.inv, model, backend=backend)([0.1], [1.0])
    text = str(found.value)
    assert "D = H P H* + Jr = 1 " in text and "no inertia" not in text
    assert "is 1.25e+16, so D is known" in text and "known to about 1e+02 only" in text
    armature = float(text.rpartition("armature=")[2].rstrip(")"))
    pp.mass_matrix_inverse(model.with_body("rod", armature=armature), [0.1])
