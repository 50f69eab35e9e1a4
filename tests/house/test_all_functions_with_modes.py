"""Every public function that takes a model, given flexible bodies: right, or rejected in physics.

Which of them support flexible bodies is declared (`CAPABILITIES`); the calls are those of
test_all_functions.py.
"""

import importlib.util
import warnings
from pathlib import Path

import numpy as np
import pytest

import phipsi as pp
from phipsi.core.model.capabilities import CAPABILITIES

_FILE = Path(__file__).parent / "test_all_functions.py"
_SPEC = importlib.util.spec_from_file_location("calls_of_all_functions", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
CALLS = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(CALLS)


def _arm():
    """The arm of the other test with a second link that bends."""
    builder = pp.ModelBuilder(gravity=(0, -9.81, 0))
    bar = pp.SpatialInertia.box((1, 0.1, 0.1), mass=1.0)
    beam = pp.FlexibleInertia(
        1.0, (0.5, 0, 0), (0.01, 0.34, 0.34), S1=[[0], [0.3], [0]], C0=[[0], [0], [0.2]],
        modal_mass=[[0.25]], stiffness=[[50.0]],
        ports=[pp.Port("end", position=(1, 0, 0), moves=[[0], [1], [0]], turns=[[0], [0], [1.4]])],
    )  # fmt: skip
    builder.add_body("link1", joint_name="joint1", inertia=bar)
    there = pp.Pose(translation=(1, 0, 0))
    builder.add_body("link2", joint_name="joint2", parent="link1", placement=there, inertia=beam)
    builder.add_body("link3", joint_name="joint3", parent="link2", port="end", inertia=bar)
    builder.add_frame("tip", "link3", there)
    return builder.build()


ARM = _arm()
CALLS.Q = np.array([1.0, -1.0, 0.05, -1.5])
CALLS.Q_2 = CALLS.Q + 0.1
CALLS.V = np.array([0.3, -0.2, 0.1, 0.4])
CALLS.VDOT, CALLS.TAU, CALLS.O = np.array([0.4, -0.1, 0.7, 0.2]), np.ones(4), np.zeros(4)

FUNCTIONS = dict(CALLS._public())
NOTED = {name: rows[name] for rows in CALLS.TABLE.values() for name in rows}
DECLARED = {name: CAPABILITIES[FUNCTIONS[name]].flexible for name in NOTED}
# some of them not together with loops, which the arm of this test has none of
KNOWING = [name for name, x in DECLARED.items() if x is True or getattr(x, "combined_with", "")]
NOT_YET = [name for name in NOTED if name not in KNOWING and name not in CALLS.OPERATORS]
# other points than in the calls, which are on a bending body or a mechanism of their own
OTHER = {
    "jacobian_dot_v": lambda m: pp.jacobian_dot(m, CALLS.Q, CALLS.V, ["tip"], times_v=True),
    "operational_space_inertia": lambda m: (
        pp.operational_space_inertia(m, CALLS.Q, ["tip"], on_error="mask")[0]),
    "sensitivities.operational_space_inertia_sensitivity": lambda m: (
        pp.sensitivities.operational_space_inertia_sensitivity(
            m, CALLS.Q, ["tip"], on_error="mask")[0]),
}  # fmt: skip


@pytest.fixture(autouse=True)
def interpreted(monkeypatch):
    """Nothing is compiled here."""
    monkeypatch.setenv("PHIPSI_BACKEND", "reference")


@pytest.mark.parametrize("name", KNOWING)
def test_what_knows_modes_answers(name):
    call = OTHER.get(name, NOTED[name])
    assert [np.asarray(x) for x in CALLS._flat(call(ARM))]


@pytest.mark.parametrize("name", NOT_YET)
def test_what_does_not_know_modes_says_so(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(pp.errors.InputError, match=r"is for rigid bodies, and 'link2' deforms"):
            NOTED[name](ARM)


def test_what_is_about_rigid_bodies_can_be_asked_of_the_undeformed_ones():
    energy = pp.identification.kinetic_energy_regressor
    with pytest.raises(pp.errors.InputError, match=r"(?s)invariants.*regressor.*with_rigid_bodies"):
        energy(ARM, CALLS.Q, CALLS.V)
    assert energy(ARM.with_rigid_bodies(), CALLS.Q[[0, 1, 3]], CALLS.V[[0, 1, 3]]).shape == (30,)


def test_the_basic_functions_know_modes():
    expected = {
        "poses", "velocities", "accelerations", "jacobian",
        "mass_matrix", "mass_matrix_inverse", "inverse_dynamics",
        "forward_dynamics", "bias_forces", "gravity_forces", "joint_reactions", "hybrid_dynamics",
        "kinetic_energy", "potential_energy", "momentum", "center_of_mass",
        "diagonal_dynamics.log_det_mass_matrix",
    }  # fmt: skip
    assert expected <= set(KNOWING)
