"""Rows that a feature outside the library registers: leaves, operations and joints.

The feature is examples/eddy_currents.py: an operator with its operation, differential and matrix.
"""

import importlib.util
import itertools
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flexible_oracle import random_flexible_tree
from geared_trees import geared_tree
from numpy.testing import assert_allclose
from random_models import random_tree

import phipsi as pp
from phipsi import extensions, operators as ops
from phipsi.core.expressions.row import REGISTERED
from phipsi.core.model.joint import AdditiveJoint
from phipsi.core.model.scalar_linalg import rotation_about
from phipsi.core.sweeps.ir import Operation
from phipsi.errors import InputError, LoweringError, ModelError, ParseError
from phipsi.operators import H, M, V, mass_matrix, phi

_FILE = Path(__file__).parents[3] / "examples" / "eddy_currents.py"
_SPEC = importlib.util.spec_from_file_location("eddy_currents", _FILE)
assert _SPEC is not None and _SPEC.loader is not None
eddy_currents = importlib.util.module_from_spec(_SPEC)
sys.modules["eddy_currents"] = eddy_currents  # where pickle looks for its row
_SPEC.loader.exec_module(eddy_currents)
EDDY = eddy_currents.EDDY
_numbers = itertools.count()
dot, mul = extensions.entries.dot, extensions.entries.mul


def fresh(name: str = "new") -> str:
    """A name that nothing has."""
    return f"{name}_{next(_numbers)}"


def skew() -> pp.Model:
    model = geared_tree(0, skew=True)[0]
    assert model.has_more_rows and not model.is_flexible
    return model


# ---- the operator --------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_programs_matrix_and_differential_agree(seed):
    extensions.check(EDDY, random_tree(seed, 6, armature=True))


def test_they_agree_with_rotors_on_skew_axes():
    extensions.check(EDDY, skew())


def test_they_agree_with_flexible_bodies():
    extensions.check(EDDY, random_flexible_tree(11, bodies=4, modes=(2, 0, 1, 2)).build())


@pytest.mark.parametrize("backend", ["reference", "native"])
def test_it_is_compiled_with_other_operators(backend):
    model = random_tree(4, 5, frames=True)
    rng = np.random.default_rng(0)
    q, v = model.random_configuration(rng, (9,)), rng.standard_normal((9, model.nv))
    damped = (mass_matrix + 0.1 * H @ phi @ EDDY @ phi.T @ H.T).inv @ H @ phi @ EDDY @ V
    program = pp.compile(damped, model, backend=backend)
    assert program.backend == backend
    found = program(q, v)
    for i in range(9):
        assert_allclose(
            found[i], pp.evaluate_dense(damped, model, q[i], v[i]), rtol=1e-9, atol=1e-12
        )


def test_its_derivatives_are_those_of_differences():
    model = random_tree(5, 5)
    rng = np.random.default_rng(1)
    q, v, h = model.random_configuration(rng), rng.standard_normal(model.nv), 1e-6
    power, efforts = V.T @ EDDY @ V, H @ phi @ EDDY @ V
    by_q = pp.compile(pp.diff(efforts, "q"), model, mode="dense")(q, v)
    gradient = pp.vjp(power, model, "q")
    assert np.abs(by_q).max() > 1e-5
    for i, e in enumerate(np.eye(model.nv)):
        ahead, behind = (model.integrate(q, s * h * e) for s in (1, -1))
        slope = (
            (
                pp.evaluate_dense(efforts, model, ahead, v)
                - pp.evaluate_dense(efforts, model, behind, v)
            )
            / 2
            / h
        )
        assert_allclose(by_q[:, i], slope, atol=1e-9)
        slope = (
            (pp.evaluate_dense(power, model, ahead, v) - pp.evaluate_dense(power, model, behind, v))
            / 2
            / h
        )
        values = {"q": q, "v": v, "x": 1.0}
        found = gradient(**{name: values[name] for name in gradient.inputs})
        assert_allclose(found[i], slope, atol=1e-9)


def test_it_takes_energy_away():
    model = random_tree(6, 4)
    rng = np.random.default_rng(2)
    q, v = model.random_configuration(rng, (50,)), rng.standard_normal((50, model.nv))
    assert (pp.compile(V.T @ EDDY @ V, model)(q, v) > 0).all()


def test_own_operators_have_other_names():
    with pytest.raises(
        InputError, match=r"the name 'eddy' already belongs to an operator .* \(damping by eddy"
    ):
        pp.custom.operator("eddy", "motions -> forces", 1.0)


def test_texts_name_it_and_recursions_print_it():
    assert pp.parse("H φ eddy V") is H @ phi @ EDDY @ V
    assert "eddy(k) = E(W(k))" in str(pp.explain("H phi eddy V"))


def test_it_survives_pickling():
    assert pickle.loads(pickle.dumps(EDDY)) is EDDY
    assert pickle.loads(pickle.dumps(H @ phi @ EDDY)) is H @ phi @ EDDY
    row = Operation.named("eddy_currents")
    assert pickle.loads(pickle.dumps(row)) is row


def test_its_value_can_be_given():
    model = random_tree(7, 4)
    rng = np.random.default_rng(3)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    blocks = np.stack([np.diag(rng.uniform(size=6)) for _ in range(model.n_bodies)])
    program = pp.compile(H @ phi @ EDDY @ V, model, inputs=["eddy"])
    wanted = pp.evaluate_dense(H @ phi @ EDDY @ V, model, q, v, inputs={"eddy": blocks})
    assert_allclose(program(q=q, v=v, eddy=blocks), wanted, atol=1e-12)


# ---- other leaves --------------------------------------------------------------------------------


def leaf(name: str, spaces: str = "motions -> forces", **words):
    """A leaf of this module with all formulas, unless they are given."""
    usual = {
        "home": __name__, "needs": "q", "differential": lambda x, d: x - x,
        "matrix": lambda at: at.diagonal(lambda k: np.eye(6)),
        "blocks": lambda low, x: low.builder.apply("angular"),
    }  # fmt: skip
    return extensions.leaf(name, spaces, **{**usual, **words})


def test_a_vector_with_an_operation_of_its_own_name():
    name = fresh("twist")

    @extensions.operation(name, rows="6", cols="1", meaning="sin(ω · v) ω", cost=20)
    def body(a, x):
        u = a.column(x.args[0])
        factor = a.sin(dot(u[:3], u[3:]))
        return a.dense([[mul(factor, c)] for c in u[:3]] + [[0]] * 3)

    def matrix(at):
        raise AssertionError("not needed here")

    twist = leaf(
        name, "forces", needs="q v", matrix=matrix,
        blocks=lambda low, x: low.builder.apply(name, low.vector(V)),
    )  # fmt: skip
    model = random_tree(8, 5)
    rng = np.random.default_rng(4)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    u = pp.evaluate_dense(V, model, q, v).reshape(-1, 6)
    wanted = np.zeros_like(u)
    wanted[:, :3] = np.sin((u[:, :3] * u[:, 3:]).sum(-1))[:, None] * u[:, :3]
    for backend in ("reference", "native"):
        assert_allclose(pp.compile(twist, model, backend=backend)(q, v), wanted, atol=1e-12)


def test_a_leaf_with_a_definition_needs_nothing_more():
    name = fresh("weight")
    weight = extensions.leaf(
        name, "forces -> forces", home=__name__, definition=lambda x: M @ ops.angular @ M.inv
    )
    model = random_tree(9, 4)
    q = model.random_configuration(0)
    assert_allclose(
        pp.evaluate_dense(weight, model, q),
        pp.evaluate_dense(M @ ops.angular @ M.inv, model, q),
        atol=1e-12,
    )
    extensions.check(weight, model)


def test_a_leaf_that_sums_over_the_bodies():
    whole = leaf(
        fresh("whole"), "forces -> world_force", move=("", "total"),
        blocks=lambda low, x: low.pose(), matrix=lambda at: None,
        differential=lambda x, d: -(x @ d.cross(d.motion).T),
    )  # fmt: skip
    model = random_tree(10, 5)
    rng = np.random.default_rng(5)
    q, v = model.random_configuration(rng), rng.standard_normal(model.nv)
    for backend in ("reference", "native"):
        found = pp.compile(whole @ M @ V, model, backend=backend)(q, v)
        assert_allclose(found, pp.compile("total M V", model)(q, v), atol=1e-12)
    u = pp.compile(whole.T, model)(q, np.arange(6.0))
    assert_allclose(u, pp.compile("total*", model)(q, np.arange(6.0)), atol=1e-12)


def test_a_module_may_register_again():
    name = fresh()
    one, other = leaf(name), leaf(name)
    assert one is not other and pp.parse(name) is other and REGISTERED[name] is other.row


def test_an_operation_that_is_registered_again_is_compiled_again(tmp_path, monkeypatch):
    monkeypatch.setenv("PHIPSI_CACHE", str(tmp_path))
    name, model = fresh("constant"), random_tree(11, 3)
    q = model.random_configuration(0)
    for number in (2, 3):

        @extensions.operation(name, rows="6", cols="1", meaning="a multiple", cost=6)
        def body(a, x, number=number):
            return a.dense([[mul(a.number(number), c)] for c in a.column(x.args[0])])

        vector = leaf(
            name, "forces", needs="q v",
            blocks=lambda low, x: low.builder.apply(name, low.vector(V)),
        )  # fmt: skip
        for backend in ("reference", "native"):
            program = pp.compile(vector, model, backend=backend)
            v = np.ones(model.nv)
            wanted = number * pp.evaluate_dense(V, model, q, v).reshape(-1, 6)
            assert_allclose(program(q, v), wanted, atol=1e-12)


# ---- refused -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"name": "phi"}, r"'phi' is the name of an operator or input already \(rigid propagation"),
        ({"name": "q"}, "'q' is the name of an operator or input already"),
        ({"name": "cross"}, "'cross' is the name of an operator or input already"),
        ({"name": "eddy"}, r"'eddy' is .* already \(damping by eddy currents\)\. Choose another"),
        ({"symbol": "ψ"}, "'ψ' is the name of an operator or input already"),
        ({"name": "2x"}, "'2x': a name must be an ASCII identifier"),
        ({"differential": None}, "reads q and has no differential, so it cannot be"),
        (
            {"matrix": None},
            "has no formula for pp.evaluate_dense, which programs are checked against",
        ),
        ({"blocks": None}, "has no blocks for programs. Register an operation of this name"),
        ({"spaces": "motions -> force"}, "'force' is no space. Did you mean 'forces'"),
        ({"spaces": "a -> b -> c"}, "must read 'motions -> forces', or 'forces'"),
        ({"spaces": "forces -> forces", "symmetric": True}, "body forces, and a symmetric one"),
        ({"needs": "w"}, "needs='w' is not one of 'q', 'v'"),
    ],
)
def test_leaves_that_are_refused(words, message):
    before = dict(REGISTERED)
    with pytest.raises(InputError, match=message):
        leaf(**{"name": fresh(), **words})
    assert before == REGISTERED


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ({"name": "mul"}, r"the name 'mul' already belongs to an operation \(a product, of phipsi"),
        ({"name": "eddy_currents"}, r"'eddy_currents' already belongs to .* of eddy_currents\)"),
        ({"name": "a b"}, "operation 'a b': a name must be an ASCII identifier"),
        ({"kind": "diagonal"}, "kind='diagonal' is not one of 'general', 'symmetric'"),
        ({"domain": "joint"}, "domain='joint' is not one of 'body', 'point'"),
        ({"cost": -1}, "cost=-1 must be a number of operations"),
    ],
)
def test_operations_that_are_refused(words, message):
    usual = {"rows": "6", "cols": "6", "meaning": "nothing", "cost": 1, "name": fresh()}
    with pytest.raises(InputError, match=message):
        extensions.operation(**{**usual, **words})(lambda a, x: a.zeros(x))


def test_an_operation_without_a_body_is_refused():
    with pytest.raises(InputError, match="has no body: write @extensions.operation"):
        extensions.operation(fresh(), rows="6", cols="6", meaning="", cost=1)(None)  # type: ignore


def test_formulas_that_disagree_are_found():
    model = random_tree(12, 4)
    turn = {"blocks": lambda low, x: low.builder.apply("angular"), "symmetric": True}

    def angular(at):
        return at.diagonal(lambda k: np.diag([1.0, 1, 1, 0, 0, 0]))

    extensions.check(leaf(fresh(), matrix=angular, **turn), model)
    with pytest.raises(
        InputError, match=r"the program of new_\d+ \(reference\) differs by .* from"
    ):
        extensions.check(leaf(fresh(), matrix=lambda at: 2 * angular(at), **turn), model)
    wrong = leaf(fresh(), matrix=angular, differential=lambda x, d: x, **turn)
    reason = r"the derivative of new_\d+ with respect to q differs by .* from"
    with pytest.raises(InputError, match=reason):
        extensions.check(wrong, model)
    with pytest.raises(InputError, match="check supports leaves of bodies and joints"):
        extensions.check(leaf(fresh(), "point_forces -> forces"), model)


def test_a_leaf_says_what_it_reads():
    silent = leaf(fresh("silent"), "forces", blocks=lambda low, x: low.vector(M @ V))
    with pytest.raises(InputError, match=r"silent_\d+' reads v and does not say so: needs=\"q v\""):
        pp.compile(H @ phi @ silent, random_tree(13, 3))


def test_leaves_of_six_rows_say_so():
    """A leaf that knows nothing of rows beyond six is refused where there are some."""
    rigid = leaf(fresh())
    model = skew()
    with pytest.raises(LoweringError, match="is known for rigid bodies only"):
        pp.compile(H @ phi @ rigid @ V, model)


# ---- joints --------------------------------------------------------------------------------------


def test_a_class_of_joints_is_stored_by_its_name():
    class Winch(AdditiveJoint):
        __slots__ = ()
        kind, nq, nv, coordinate_names = "winch", 1, 1, ("theta",)

        def __init__(self, lift: float = 0.1) -> None:
            self._set(_arguments={"lift": float(lift)}, params=(float(lift),))

        def transform(self, params, q, ops):
            return rotation_about((0, 0, 1), q[0], ops), [0, 0, params[0] * q[0]]

        def hinge_axes(self, params, q, ops):
            return [[0], [0], [1], [0], [0], [params[0]]]

        def hinge_axes_rate(self, params, q, v, ops):
            return [[0]] * 6

    builder = pp.ModelBuilder()
    builder.add_body("drum", joint=Winch(0.3), inertia=pp.SpatialInertia(1.0, (0, 0, 0), 1.0))
    stored = builder.build().to_dict()
    with pytest.raises(ParseError, match="(?s)'Winch', which does not exist.*once the module"):
        pp.Model.from_dict(stored)
    assert extensions.joint(Winch) is Winch
    assert pp.Model.from_dict(stored) == builder.build()
    other = type("Revolute", (Winch,), {"__slots__": ()})
    reason = "a class of joints Revolute is registered already, that of phipsi"
    with pytest.raises(ModelError, match=reason):
        extensions.joint(other)
    with pytest.raises(InputError, match="takes a class derived from Joint"):
        extensions.joint(dict)  # type: ignore


# ---- what is loaded ------------------------------------------------------------------------------

_LOADED = """
import sys
import phipsi as pp
builder, disk = pp.ModelBuilder(), pp.SpatialInertia(1.0, (0, 0, 0), 1.0)
builder.add_body("a", joint=pp.joints.Revolute((1, 0, 0)), inertia=disk)
builder.add_body("b", parent="a", inertia=disk)
%s
pp.forward_dynamics(builder.build(), [0.1, 0.2], [0, 0], [0, 0])
print(*sorted(x for x in sys.modules if x.startswith("phipsi.transmissions.")))
"""


@pytest.mark.parametrize(
    ("line", "there", "missing"),
    [
        ("", "", "rotor"),
        ('builder.add_rotor("m", joint="b", ratio=9, moment=1e-3)', "rotors", "rotor_operations"),
        ('builder.add_rotor("m", joint="b", ratio=9, moment=1e-3, axis=(1, 0, 1))',
         "rotor_operations", "dense_rotors"),
    ],
)  # fmt: skip
def test_rotors_are_loaded_when_a_mechanism_has_them(line, there, missing):
    command = [sys.executable, "-c", _LOADED % line]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert there in done.stdout and missing not in done.stdout
