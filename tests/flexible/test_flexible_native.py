"""Machine code of mechanisms with flexible bodies against the reference backend."""

from functools import cache

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.core.backends.backend import has_machine_code
from phipsi.operators import (  # fmt: skip
    H,
    J,
    K_e,
    Lambda,
    M,
    V,
    a,
    b,
    eta,
    frame_pose,
    gravity,
    logdet,
    mass_matrix,
    phi,
    tau,
    total,
    v,
    vdot,
)

pytestmark = pytest.mark.skipif(not has_machine_code(), reason="there is no LLVM here")
BIAS = H @ phi @ (M @ phi.T @ (a + gravity) + b)
VECTORS = (
    mass_matrix @ vdot + BIAS,
    V,
    total(M @ V),
    frame_pose,
    v.T @ mass_matrix @ v / 2 + eta.T @ K_e @ eta / 2,
    logdet(mass_matrix),
)
PROGRAMS = {
    "vectors": (VECTORS, "apply"),
    "forward dynamics": (mass_matrix.inv @ (tau - BIAS), "apply"),
    "mass matrix": (mass_matrix, "dense"),
    "inverse": (mass_matrix.inv, "dense"),
    "admittance": (Lambda, "dense"),
    "Jacobian": (J, "dense"),
}
# a rigid root, a bent body, a weld on a port, a branch at a bent body, a rigid tip on a port
JOINTS = ("spherical", "revolute", "fixed", "prismatic", "universal")


@cache
def mechanism(seed: int):
    tree = random_flexible_tree(
        seed, bodies=5, joints=JOINTS, modes=(0, 2, 1, 0, 1), armature=seed == 1
    )
    return tree, tree.build()


@pytest.mark.parametrize("name", PROGRAMS)
def test_machine_code_is_the_reference(name):
    tree, model = mechanism(1)
    expression, mode = PROGRAMS[name]
    points = [model.body_names[-1], model.body_names[1]]
    native, reference = (
        pp.compile(expression, model, mode=mode, points=points, backend=backend)
        for backend in ("native", "reference")
    )
    assert native.backend == "native"
    rng = np.random.default_rng(3)
    states = [tree.random_state(rng, bend=0.05) for _ in range(9)]
    numbers = {
        "q": np.stack([q for q, _ in states]),
        "v": np.stack([rates for _, rates in states]),
        "vdot": rng.normal(size=(9, model.nv)),
        "tau": rng.normal(size=(9, model.nv)),
    }
    args = [numbers[n] for n in native.inputs]
    batch, expected = native(*args), reference(*args)
    single = [native(*(x[i] for x in args)) for i in range(9)]
    if not isinstance(batch, tuple):
        batch, expected, single = (batch,), (expected,), [(x,) for x in single]
    for i, (ours, theirs) in enumerate(zip(batch, expected, strict=True)):
        assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12 * np.abs(theirs).max())
        assert_array_equal(ours, np.stack([x[i] for x in single]))


def test_all_joints_in_machine_code():
    """Every joint type with modes on either side of it, forward dynamics against the oracle."""
    joints = ("free", "planar", "helical", "cylindrical", "universal", "translation")
    tree = random_flexible_tree(2, bodies=6, joints=joints, modes=(1, 1, 1, 1, 1, 1), second=0.1)
    model = tree.build()
    q, rates = tree.random_state(np.random.default_rng(0), bend=0.1)
    effort = np.linspace(-1, 1, model.nv)
    program = pp.compile(mass_matrix.inv @ (tau - BIAS), model, backend="native")
    assert program.backend == "native"
    found = program(q, rates, effort)
    assert_allclose(found, tree.forward_dynamics(q, rates, effort), rtol=1e-11, atol=1e-11)


def test_blocks_and_matrices_of_bodies_have_modal_rows_and_are_interpreted():
    _, model = mechanism(1)
    for mode in ("dense", "blocks"):
        assert pp.compile(M, model, mode=mode, backend="native").backend == "reference"


def test_bodies_with_the_same_zeros_share_code():
    beam = pp.FlexibleInertia(
        1.0, (0.5, 0, 0), (0.01, 0.34, 0.34), S1=[[0], [0.3], [0]], C0=[[0], [0], [0.2]],
        modal_mass=[[0.25]], stiffness=[[50.0]],
        ports=[pp.Port("tip", position=(1, 0, 0), translation_modes=[[0], [1], [0]],
                       rotation_modes=[[0], [0], [1.4]])],
    )  # fmt: skip
    builder = pp.ModelBuilder()
    for i in range(6):
        builder.add_body(
            f"s{i}",
            parent=f"s{i - 1}" if i else "world",
            port="tip" if i else None,
            joint=pp.joints.Fixed() if i else pp.joints.Revolute((0, 0, 1)),
            inertia=beam,
        )
    model = builder.build()
    program = pp.compile(mass_matrix.inv @ (tau - BIAS), model, backend="native")
    assert program.native is not None and len(program.native.unit.tables.codes) == 2
    assert_allclose(
        program(model.neutral(), np.zeros(7), np.zeros(7)),
        pp.compile(mass_matrix.inv @ (tau - BIAS), model, backend="reference")(
            model.neutral(), np.zeros(7), np.zeros(7)
        ),
        rtol=1e-11,
        atol=1e-11,
    )
