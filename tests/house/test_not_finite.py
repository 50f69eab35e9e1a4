"""Numbers that are not finite are refused wherever they stand, also where no result needs them.

`tests/support/input_trials.py` tries every public function, input, place and number; here is a
sample.
"""

import input_trials as trials
import numpy as np
import pytest

import phipsi as pp
from phipsi import operators as ops

ARM = pp.examples.planar_arm(3)
MIXED = trials.mechanism()
SHOWN = (
    "mass_matrix", "poses", "inverse_dynamics", "center_of_mass", "gravity_forces", "momentum",
    "kinetic_energy", "hybrid_dynamics", "rollout", "step_derivatives",
)  # fmt: skip
SLOW = ("identify", "grasp contact_forces")
GROUPS = {
    "functions": lambda: [
        c for c in trials.functions_of_models(ARM, "arm") if c.name.split()[1] in SHOWN
    ],
    "methods": lambda: [c for c in trials.methods(MIXED) if c.name not in SLOW],
    "native": lambda: trials.programs(ARM, "native"),
    "reference": lambda: trials.programs(ARM, "reference"),
}


@pytest.mark.parametrize("group", GROUPS)
def test_nothing_gets_in(group):
    rng = np.random.default_rng(0)
    wrong = {}
    for case in GROUPS[group]():
        places = list(case.places())
        for i in rng.choice(len(places), size=min(6, len(places)), replace=False):
            if found := case.complaint(*places[i]):
                wrong[case.name, *places[i]] = found
    assert not wrong


def test_first_joint_of_a_mass_matrix():
    """The mass matrix does not depend on the first joint's angle, and refuses NaN all the same."""
    q = np.array([np.nan, 0.1, 0.2])
    with pytest.raises(pp.errors.InputError, match="q is nan at joint 'joint1'"):
        pp.mass_matrix(ARM, q)
    with pytest.raises(
        pp.errors.InputError, match=r"joint 'joint1' \(element \[2\] of the batch\)"
    ):
        pp.mass_matrix(ARM, np.stack([np.zeros(3), np.zeros(3), q]))


@pytest.mark.parametrize("backend", ["native", "reference"])
def test_masked_elements_say_why(backend):
    """NaN in an input is the reason whatever else fails, and other elements are untouched."""
    program = pp.compile(ops.mass_matrix, ARM, mode="dense", backend=backend)
    q = np.zeros((6, 3))
    q[1, 0], q[4, 2] = np.nan, -np.inf
    found, status = program(q, on_error="nan")
    assert status.tolist() == [0, 4, 0, 0, 4, 0]
    np.testing.assert_array_equal(found[0], program(q[0]))
    assert np.isnan(found[[1, 4]]).all()


def test_symbols_are_finite_and_their_infinities_are_not():
    mpmath, sympy = pytest.importorskip("mpmath"), pytest.importorskip("sympy")
    x = np.array([sympy.Symbol("x"), 0, 0], dtype=object)
    assert pp.mass_matrix(ARM, x).shape == (3, 3)
    for bad in (sympy.oo, sympy.nan, mpmath.mpf("inf"), mpmath.mpf("nan"), float("nan")):
        with pytest.raises(pp.errors.InputError, match="joint 'joint1'"):
            pp.mass_matrix(ARM, np.array([bad, 0, 0], dtype=object))


MASKED = np.ma.array(np.zeros(3), mask=[0, 1, 0])
NO_NUMBERS = {
    "truth values": (np.zeros(3, dtype=bool), "bool"),
    "a list of them": ([True, False, True], "bool"),
    "dates": (np.zeros(3, dtype="datetime64[s]"), "datetime64"),
    "times": (np.zeros(3, dtype="timedelta64[s]"), "timedelta64"),
    "text": (np.array(["1", "2", "3"]), "the text '1'"),
    "bytes": (np.array([b"1", b"2", b"3"]), "S1"),
    "objects": (np.array([0, "1", 2], dtype=object), "'1'"),
    "a mask": (MASKED, r"masked at index \[1\]"),
    "a list of masks": ([MASKED, MASKED], r"masked at index \[1\]"),
}


@pytest.mark.parametrize("what", NO_NUMBERS)
def test_what_is_no_number(what):
    """The same for one configuration, batches, both backends, and methods of the model."""
    bad, message = NO_NUMBERS[what]
    reference = pp.compile(ops.mass_matrix, ARM, mode="dense", backend="reference")
    for call in (
        lambda x: pp.mass_matrix(ARM, x),
        lambda x: pp.mass_matrix(ARM, [x, x]),
        lambda x: pp.inverse_dynamics(ARM, np.zeros(3), np.zeros(3), x),
        reference,
        lambda x: ARM.difference(np.zeros(3), x),
        lambda x: ARM.integrate(x, np.zeros(3)),
        lambda x: ARM.qdot(np.zeros(3), x),
        lambda x: pp.rollout(ARM, x, np.zeros(3), np.zeros(3), 0.01, 1),
    ):
        with pytest.raises(pp.errors.InputError, match=message):
            call(bad)


def test_arrays_without_masked_entries_are_numbers():
    q = np.array([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(pp.mass_matrix(ARM, np.ma.array(q)), pp.mass_matrix(ARM, q))


# ---- quaternions ---------------------------------------------------------------------------------

FLYER = pp.examples.free_flyer()
TURNED = np.array([0.3, -0.4, 0.5, 0.1])


@pytest.mark.parametrize("backend", ["native", "reference"])
@pytest.mark.parametrize("scale", [0.0, 5e-324, 1e-160, 1e-80, 1e80, 1e155, 1e300])
def test_quaternions_without_a_rotation_name_their_joint(backend, scale):
    q = FLYER.neutral()
    q[:4] = TURNED * scale
    program = pp.compile(ops.H @ ops.phi @ ops.M @ ops.phi.T @ ops.gravity, FLYER, backend=backend)
    for call in (program, lambda x: program(np.stack([FLYER.neutral(), x]))):
        with pytest.raises(pp.errors.SingularMatrixError, match="quaternion of joint 'base'"):
            call(q)


def test_a_matrix_of_nan_is_no_error_of_numpy():
    """The singular matrix is not the cause; what made it NaN is."""
    q = FLYER.neutral()
    q[:4] = 0
    with pytest.raises(pp.errors.SingularMatrixError, match="quaternion of joint 'base'"):
        pp.operational_space_inertia(FLYER, q, ["left_tool"])


@pytest.mark.parametrize("scale", [1e-310, 1e-160, 1e-60, 1.0, 1e60, 1e155, 1e307])
def test_quaternions_of_any_length_are_followed(scale):
    """Scaling by a power of two changes no bit; where programs compute, they agree."""
    q, unit = FLYER.neutral(), FLYER.neutral()
    unit[:4] = TURNED
    q[:4] = TURNED * scale
    step = np.linspace(-1, 1, FLYER.nv)
    np.testing.assert_allclose(FLYER.integrate(q, step), FLYER.integrate(unit, step), atol=1e-14)
    np.testing.assert_allclose(
        FLYER.difference(FLYER.neutral(), q), FLYER.difference(FLYER.neutral(), unit), atol=1e-14
    )
    if 1e-77 < scale < 1e77:
        np.testing.assert_allclose(
            pp.gravity_forces(FLYER, q), pp.gravity_forces(FLYER, unit), rtol=1e-13, atol=1e-13
        )
