"""What every backend must do. A backend's test module is two lines:

    class TestReference(BackendContract):
        backend = "reference"

Every case is compiled for several forests of all joint types, with and without rotor inertia.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from random_models import ALL, branching, chain, model_from_parents, random_tree, star
from rounding import ALLOWED, RoundedOracle, applied, excess

import phipsi as pp
from phipsi.core.backends.storage_layout import vector_shape
from phipsi.core.expressions.node import Expr
from phipsi.core.expressions.spaces import Space
from phipsi.core.model.model import Model
from phipsi.core.model.points import PointSet, point_set
from phipsi.errors import InputError, SingularHingeError, SingularMatrixError
from phipsi.operators import (
    B,
    Bdot,
    D,
    D_half,
    E_phi,
    E_psi,
    G,
    H,
    Hdot,
    I,
    J,
    Jr,
    K,
    Lambda,
    M,
    Omega,
    P,
    R,
    Riccati,
    Upsilon,
    V,
    a,
    a_paper,
    b,
    b_paper,
    bd,
    cross,
    f0,
    f_ext,
    gravity,
    logdet,
    mass_matrix,
    phi,
    phi_tilde,
    pose,
    proj_bar,
    psi,
    psi_tilde,
    regress,
    shift,
    tau,
    total,
    v,
    vdot,
)

bare = Riccati(Jr=0)
acceleration = a + gravity
bias = H @ phi @ (M @ phi.T @ acceleration + b - f_ext + B @ f0)

VECTORS: dict[str, Expr] = {
    "inverse dynamics": mass_matrix @ vdot + bias,
    "forward dynamics": mass_matrix.inv @ (tau - bias),
    "reactions": phi @ (M @ phi.T @ (H.T @ vdot + acceleration) + b),
    "papers' bias": H @ phi @ (M @ phi.T @ a_paper + b_paper),
    "velocities": V,
    "Coriolis": a,
    "gyroscopic": b,
    "gravity": gravity,
    "point rates": Bdot.T @ V + J @ vdot,
    "point forces": B @ f0,
    "energy": 0.5 * v.T @ mass_matrix @ v,
    "power": V.T @ f_ext,
    "log det": logdet(mass_matrix),
    "momentum": total(M @ V, (0.1, -0.2, 0.3)),
    "energy by parameter": 0.5 * regress(V).T @ V,
}
OPERATORS: dict[str, Expr] = {
    **{str(x): x for x in (H, M, Jr, R, P, D, G, proj_bar, Upsilon, D_half, Hdot)},
    **{str(x): x for x in (phi, psi, phi_tilde, psi_tilde, E_phi, E_psi, K, shift, Omega, B, J)},
    "mass matrix": mass_matrix,
    "inverse mass matrix": mass_matrix.inv,
    "without rotors": (H @ phi @ M @ phi.T @ H.T).inv,
    "other family": bare.psi @ bare.K,
    "nested family": Riccati(E=E_psi).psi,
    "substitution": (2 * I + H @ phi @ K).inv,
    "substitution outward": (psi.T + 0.5 * phi_tilde.T).inv,
    "block inverse": (M + R).inv,
    "two products": phi @ M @ psi.T - 0.5 * psi @ R @ phi.T,
    "admittance": Lambda,
    "bd inward": bd(psi @ M @ phi.T),
    "bd outward": bd(phi.T @ M.inv @ psi),
    "cross": cross(V) @ phi.T @ cross(a),
    "regressor": H @ phi @ (regress(phi.T @ (H.T @ vdot + acceleration)) - cross(V).T @ regress(V)),
    "regressor of the accelerations": mass_matrix.inv @ H @ phi @ regress(V),
    "parameter weights": regress(V).T @ phi.T @ H.T,
    "parameter blocks": regress(a).T @ M.inv @ regress(V),
    "regress": regress(V),
    "total": total(phi @ M),
    "functional": f_ext.T @ phi.T,
    "rank one": tau @ v.T,
}
SMALL: dict[str, Expr] = {
    "point inverse": (B.T @ M.inv @ B).inv,
    "operational inertia": (Lambda + B.T @ M.inv @ B).inv @ J,
}
MODELS: dict[str, Model] = {
    "chain": chain(6, 1, armature=True),
    "tree": branching(7, 2),
    "star": star(5, 3, ["revolute", "prismatic", "helical"], armature=True),
    "forest": random_tree(4, 6, n_roots=2),
    "all joints": model_from_parents([-1, 0, 1, 1, 3, 0, 5, 5, 7, 2], 6, ALL, armature=True),
    "one body": chain(1, 7, ["free"]),
    "arm": pp.examples.seven_joint_arm(),
}


def arguments(model: Model, points: PointSet, batch: tuple[int, ...] = (), seed: int = 0) -> dict:
    rng = np.random.default_rng(seed)
    count = int(np.prod(batch, dtype=int))
    q = np.array([model.random_configuration(rng) for _ in range(count)])
    return {
        "q": q.reshape(*batch, model.nq),
        **{n: rng.standard_normal((*batch, model.nv)) for n in ("v", "vdot", "tau")},
        "f_ext": rng.standard_normal((*batch, model.n_bodies, 6)),
        "f0": rng.standard_normal((*batch, len(points), 6)),
    }


def two_points(model: Model, axes: str) -> PointSet:
    """Two points on different bodies if there are two."""
    names = dict.fromkeys([model.body_names[-1], model.body_names[model.n_bodies // 2]])
    where = [(name, (0.1 + i, -0.2, 0.3)) for i, name in enumerate(names)]
    return point_set(model, where, axes)


class State(dict[str, Any]):
    """Arguments at which values are asked for in several tests, of all backends."""

    def __init__(self, model: Model, points: PointSet) -> None:
        super().__init__(arguments(model, points))
        for value in self.values():
            value.flags.writeable = False
        self.model, self.points = model, points
        self._oracle = RoundedOracle(model, points=points, **self)

    def wanted(self, x: Expr) -> tuple[np.ndarray, np.ndarray]:
        """The value by the dense oracle, and the rounding to be expected, computed once."""
        return self._oracle.with_rounding(x)


@cache
def state_of(name: str) -> State:
    """That of a model."""
    axes = ("world", "body", "spatial")[list(MODELS).index(name) % 3]
    return State(MODELS[name], two_points(MODELS[name], axes))


_PROGRAMS: dict[Any, tuple[pp.Program, Model, dict[str, Any]]] = {}


def _name_of(option: Any) -> Any:
    if isinstance(option, PointSet):
        return id(option)
    return tuple(option) if isinstance(option, list) else option


class BackendContract:
    """Tests of one backend; a subclass says which, and where it is allowed to differ."""

    backend: str
    bits = True  # batches of any size give the same bits
    number_types = True  # complex and object arrays run (perhaps elsewhere)
    models = list(MODELS)

    # -- helpers ----------------------------------------------------------------------------------

    def compile(self, x: Any, model: Model, **options: Any) -> pp.Program:
        """The program, which several tests call: it has no memory of its calls."""
        key = (self.backend, x, id(model), *((n, _name_of(o)) for n, o in options.items()))
        if key not in _PROGRAMS:
            program = pp.compile(x, model, backend=self.backend, **options)
            _PROGRAMS[key] = program, model, options  # what is kept keeps its id
        return _PROGRAMS[key][0]

    def run(self, x: Any, model: Model, at: dict[str, Any], **options: Any) -> Any:
        program = self.compile(x, model, **options)
        return program(**{name: at[name] for name in program.inputs})

    def points(self, model: Model, axes: str = "world") -> PointSet:
        return two_points(model, axes)

    def operand(self, space: Space | None, model: Model, where: PointSet, *tail: int) -> np.ndarray:
        assert space is not None
        shape = vector_shape(space, model, where)
        return np.random.default_rng(9).standard_normal((*shape, *tail))

    def cases(self) -> Iterator[tuple[Model, PointSet, State]]:
        for state in map(state_of, self.models):
            yield state.model, state.points, state

    # -- it agrees with the dense oracle ----------------------------------------------------------

    @pytest.mark.parametrize("rewrite", ["full", "as_written"])
    @pytest.mark.parametrize("name", VECTORS)
    def test_vectors(self, name: str, rewrite: str):
        for model, where, at in self.cases():
            wanted = at.wanted(VECTORS[name])
            got = self.run(VECTORS[name], model, at, points=where, rewrite=rewrite)
            assert excess(got, *wanted) <= ALLOWED

    @pytest.mark.parametrize("rewrite", ["full", "as_written"])
    @pytest.mark.parametrize("name", [*OPERATORS, *SMALL])
    def test_operators_applied(self, name: str, rewrite: str):
        x = {**OPERATORS, **SMALL}[name]
        for model, where, at in self.cases():
            wanted = at.wanted(x)
            u = self.operand(x.takes, model, where)
            got = self.run(x, model, {**at, "x": u}, points=where, rewrite=rewrite)
            assert excess(got, *applied(*wanted, u.ravel())) <= ALLOWED

    @pytest.mark.parametrize("name", [*OPERATORS, *SMALL])
    def test_matrices(self, name: str):
        x = {**OPERATORS, **SMALL}[name]
        for model, where, at in self.cases():
            want, rounding = at.wanted(x)
            got = self.run(x, model, at, points=where, mode="dense")
            assert got.shape == want.shape
            assert excess(got, want, rounding) <= ALLOWED

    @pytest.mark.parametrize("name", ["mass matrix", "inverse mass matrix", "ψ", "admittance"])
    def test_columns(self, name: str):
        x = OPERATORS[name]
        for model, where, at in self.cases():
            u = self.operand(x.takes, model, where, 3)
            got = self.run(x, model, {**at, "x": u}, points=where, columns=True)
            for i in range(3):
                one = self.run(x, model, {**at, "x": u[..., i]}, points=where)
                assert_allclose(got[..., i], one, rtol=0, atol=1e-9 * max(1, np.abs(one).max()))

    def test_storage_layouts_go_out_and_in(self):
        blocks = {"M": M, "R": R, "P": P, "D": D, "G": G, "Upsilon": Upsilon}
        x = mass_matrix.inv @ (tau - bias)
        for model, where, at in self.cases():
            results = self.run(tuple(blocks.values()), model, at, mode="blocks")
            reference = pp.compile(
                tuple(blocks.values()), model, mode="blocks", backend="reference"
            )
            for got, want in zip(results, reference(at["q"]), strict=True):
                assert_allclose(got, want, rtol=1e-9, atol=1e-9 * max(1, np.abs(want).max()))
            want = self.run(x, model, at, points=where)
            given = dict(zip(blocks, results, strict=True))
            for name in ("P", "D", "G"):
                got = self.run(x, model, {**at, **given}, points=where, inputs=[name])
                assert_allclose(got, want, rtol=1e-8, atol=1e-8 * max(1, np.abs(want).max()))
            poses, velocities = self.run((pose, V), model, at)
            got = self.run(
                x, model, {**at, "pose": poses, "V": velocities}, points=where, inputs=["pose", "V"]
            )
            assert_allclose(got, want, rtol=1e-8, atol=1e-8 * max(1, np.abs(want).max()))

    # -- adjoints ---------------------------------------------------------------------------------

    @pytest.mark.parametrize("name", [name for name in OPERATORS if name != "functional"])
    def test_adjoint_by_dot_product(self, name: str):
        x = OPERATORS[name]
        for model, where, at in self.cases():
            u = self.operand(x.takes, model, where)
            w = self.operand(x.T.takes, model, where)
            left = self.run(x, model, {**at, "x": u}, points=where) * w
            right = u * self.run(x.T, model, {**at, "x": w}, points=where)
            _, rounding = applied(*at.wanted(x), u.ravel())
            allowed = ALLOWED * rounding @ np.abs(w.ravel())
            assert abs(left.sum() - right.sum()) <= allowed

    # -- batches ----------------------------------------------------------------------------------

    @pytest.mark.parametrize("batch", [(1,), (3,), (9,), (2, 3), (0,)], ids=str)
    def test_batches_equal_single_calls(self, batch: tuple[int, ...]):
        x = (VECTORS["forward dynamics"], VECTORS["inverse dynamics"], logdet(mass_matrix), pose)
        for name in ("chain", "forest", "all joints"):
            model = MODELS[name]
            where = self.points(model)
            at = arguments(model, where, batch)
            results = self.run(x, model, at, points=where)
            for index in np.ndindex(batch):
                alone = self.run(x, model, {n: u[index] for n, u in at.items()}, points=where)
                for whole, one in zip(results, alone, strict=True):
                    if self.bits:
                        assert_array_equal(whole[index], one)
                    else:
                        assert_allclose(whole[index], one, rtol=1e-12, atol=1e-12)

    def test_batches_broadcast(self):
        model = MODELS["tree"]
        at = arguments(model, self.points(model), (3,))
        x = mass_matrix.inv @ tau
        got = self.run(x, model, {"q": at["q"][:, None], "tau": at["tau"]})
        assert got.shape == (3, 3, model.nv)
        one = self.run(x, model, {"q": at["q"][2], "tau": at["tau"][1]})
        assert_array_equal(got[2, 1], one)

    def test_threads_give_the_same_bits(self):
        model = MODELS["all joints"]
        where = self.points(model)
        at = arguments(model, where, (50,))
        program = self.compile(VECTORS["forward dynamics"], model, points=where)
        named = {n: at[n] for n in program.inputs}
        want = program(**named)
        for threads in (2, 3, 64):
            assert_array_equal(program(**named, threads=threads), want)

    def test_out(self):
        model = MODELS["tree"]
        at = arguments(model, self.points(model), (4,))
        program = self.compile(mass_matrix.inv @ tau, model)
        want = program(at["q"], at["tau"])
        out = np.full_like(want, np.nan)
        assert program(at["q"], at["tau"], out=out) is out
        assert_array_equal(out, want)
        strided = np.full((8, model.nv), np.nan)
        program(at["q"], at["tau"], out=strided[::2])
        assert_array_equal(strided[::2], want)
        assert np.isnan(strided[1::2]).all()

    def test_memory_layout_of_inputs_does_not_matter(self):
        model = MODELS["all joints"]
        at = arguments(model, self.points(model), (5,))
        program = self.compile(mass_matrix.inv @ tau, model)
        want = program(at["q"], at["tau"])
        assert_array_equal(program(np.asfortranarray(at["q"]), at["tau"][::-1][::-1]), want)
        wide = np.zeros((5, 2 * model.nq))
        wide[:, ::2] = at["q"]
        assert_array_equal(program(wide[:, ::2], at["tau"]), want)
        assert_array_equal(program(at["q"].tolist(), at["tau"].tolist()), want)

    # -- other numbers ----------------------------------------------------------------------------

    def test_complex_step(self):
        for name in ("all joints", "forest"):
            model = MODELS[name]
            where = self.points(model)
            at = arguments(model, where)
            at.pop("f0")
            x = mass_matrix.inv @ (tau - H @ phi @ (M @ phi.T @ acceleration + b - f_ext))
            rates = np.random.default_rng(5).standard_normal(model.nv)
            ahead = {**at, "q": at["q"] + 1e-30j * model.qdot(at["q"], rates)}
            got = self.run(x, model, ahead)
            want = pp.compile(x, model, backend="reference")
            exact = want(**{n: ahead[n] for n in want.inputs})
            assert got.dtype == np.complex128
            assert_allclose(got.imag, exact.imag, rtol=1e-8, atol=1e-38)

    def test_integers_and_single_precision_are_taken_as_doubles(self):
        model = pp.examples.planar_arm(3)
        program = self.compile(mass_matrix, model)
        want = program([1.0, 2.0, 3.0], [1.0, 0.0, 2.0])
        assert_array_equal(program(np.int32([1, 2, 3]), np.float32([1, 0, 2])), want)
        assert want.dtype == np.float64

    # -- failures ---------------------------------------------------------------------------------

    def test_a_hinge_without_inertia_is_named(self):
        builder = pp.ModelBuilder()
        solid = pp.SpatialInertia(mass=1, com_B=(0.2, 0, 0), moment_about_com_B=0.1)
        builder.add_body("arm", joint=pp.joints.Revolute((0, 0, 1)), inertia=solid)
        builder.add_body("hand", parent="arm", joint=pp.joints.Revolute((1, 0, 0)))
        model = builder.build()
        program = self.compile(mass_matrix.inv, model)
        with pytest.raises(SingularHingeError, match="'hand'"):
            program([0.1, 0.2], [1.0, 1.0])
        result, status = program(np.zeros((3, 2)), np.ones((3, 2)), on_error="nan")
        assert np.isnan(result).all() and (status > 0).all()

    def test_only_failed_elements_are_masked(self):
        model = pp.examples.planar_arm(3)
        q = np.random.default_rng(0).uniform(-1, 1, (5, 3))
        inertias = pp.compile(P, model, mode="blocks", backend="reference")(q)
        inertias[3] = 0
        program = self.compile(mass_matrix.inv @ tau, model, inputs=["P"])
        result, status = program(q, np.ones(3), inertias, on_error="nan")
        assert (status != 0).tolist() == [False, False, False, True, False]
        assert np.isnan(result[3]).all() and np.isfinite(np.delete(result, 3, 0)).all()
        with pytest.raises(SingularHingeError, match=r"element \[3\] of the batch"):
            program(q, np.ones(3), inertias)

    def test_points_that_cannot_move_independently(self):
        model = pp.examples.planar_arm(3)
        program = self.compile(Lambda.inv @ J @ v, model, points=["link3"])
        with pytest.raises(SingularMatrixError, match="rank"):
            program([0.1, 0.2, 0.3], np.ones(3))
        result, status = program([0.1, 0.2, 0.3], np.ones(3), on_error="nan")
        assert np.isnan(result).all() and status != 0

    def test_numbers_that_are_not_finite(self):
        model = pp.examples.planar_arm(3)
        program = self.compile(mass_matrix.inv @ tau, model)
        q, effort = np.zeros((2, 3)), np.ones((2, 3))
        q[1, 2] = np.nan
        with pytest.raises(InputError, match="q is nan at joint 'joint3'"):
            program(q, effort)
        result, status = program(q, effort, on_error="nan")
        assert np.isfinite(result[0]).all() and np.isnan(result[1]).all()
        assert status[0] == 0 and status[1] != 0

    def test_wrong_shapes_name_the_input(self):
        program = self.compile(mass_matrix.inv @ tau, pp.examples.planar_arm(3))
        with pytest.raises(InputError, match="q has shape .*nq = 3"):
            program(np.zeros(4), np.zeros(3))
        with pytest.raises(InputError, match="tau has shape"):
            program(np.zeros(3), np.zeros((3, 1)))

    # -- nothing to do ----------------------------------------------------------------------------

    def test_models_without_bodies(self):
        model = random_tree(0, 0)
        for batch in ((), (2,)):
            q, x = np.zeros((*batch, 0)), np.zeros((*batch, 0))
            assert self.compile(mass_matrix.inv, model)(q, x).shape == (*batch, 0)
            assert self.compile(mass_matrix, model, mode="dense")(q).shape == (*batch, 0, 0)
            assert self.compile(pose, model)(q).shape == (*batch, 0, 4, 4)
            assert_array_equal(self.compile(logdet(mass_matrix), model)(q), np.zeros(batch))

    # -- size -------------------------------------------------------------------------------------

    def test_long_chains_do_not_reach_the_recursion_limit(self):
        model = chain(1500, 0, ["revolute"])
        at = arguments(model, self.points(model))
        there = self.run(mass_matrix.inv @ tau, model, at)
        back = self.run(mass_matrix @ vdot, model, {"q": at["q"], "vdot": there})
        assert_allclose(back, at["tau"], rtol=0, atol=1e-6)
