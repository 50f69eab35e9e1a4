"""Equal segments share the row of their constants; code knows which joints are simple."""

from dataclasses import replace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import phipsi as pp
from phipsi.core.backends.backend import has_machine_code
from phipsi.core.model.joints import Fixed, Revolute
from phipsi.core.model.points import ANY_POINTS
from phipsi.native import tables
from phipsi.operators import H, M, a, b, gravity, mass_matrix, phi, tau

FORWARD = mass_matrix.inv @ (tau - H @ phi @ (M @ phi.T @ (a + gravity) + b))


def cable(*lengths: float) -> pp.Model:
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    for k, length in enumerate(lengths):
        piece = pp.FlexibleInertia.beam(length, 1.0, (10.0, np.inf), modes=0, rotary_inertia=1e-3)
        on = {"parent": f"b{k - 1}", "port": "tip"} if k else {}
        builder.add_body(f"b{k}", joint=Fixed(), inertia=piece, **on)
    return builder.build()


def table(model: pp.Model) -> tables.Tables:
    return tables.model_tables(model, ANY_POINTS)


def rows_of(found: np.ndarray, bodies: int, width: int) -> np.ndarray:
    """Every body's row as code reads it."""
    words, heads = found.view(np.int64), tables.HEAD
    out = np.array([found[words[heads * k] // 8 :][:width] for k in range(bodies)])
    out[:, tables.SIZES : tables.PARAMS] = found[: heads * bodies].reshape(-1, heads)[:, 1:]
    return out


def test_rows_of_equal_bodies_are_there_once():
    same, one_other = table(cable(*[0.1] * 8)), table(cable(*[0.1] * 4, 0.2, *[0.1] * 5))
    for found, rows in (
        (same, 2),
        (one_other, 4),
    ):  # the first is on no port, the other's child on another one
        n, width = found.doubles.shape
        assert found.shared is not None and found.shared.size == tables.HEAD * n + rows * width
        assert_array_equal(rows_of(found.shared, n, width), found.doubles)
    sizes = same.doubles[:, tables.SIZES]
    assert len(set(sizes)) == len(sizes)  # what is outboard of a segment is its own


def test_different_bodies_and_rigid_ones_have_rows_of_their_own():
    assert table(cable(0.1, 0.2, 0.3, 0.4)).shared is None
    assert table(pp.examples.planar_arm(6)).shared is None


@pytest.mark.skipif(not has_machine_code(), reason="there is no LLVM here")
def test_shared_rows_give_the_same_bits(monkeypatch):
    model = cable(*[0.1] * 4, 0.2, *[0.1] * 5)
    rng = np.random.default_rng(1)
    q, v, effort = (s * rng.normal(size=(11, model.nv)) for s in (1e-3, 0.1, 1.0))
    shared = pp.compile(FORWARD, model, backend="native")
    assert shared.native.unit.tables.shared is not None
    monkeypatch.setattr(tables, "shared_rows", lambda doubles: None)
    apart = pp.compile(FORWARD, cable(*[0.1] * 4, 0.2, *[0.1] * 5), backend="native")
    assert apart.native.unit.tables.shared is None
    x = {"q": q, "v": v, "tau": effort}
    assert_array_equal(shared(**x), apart(**x))
    one = {name: y[0] for name, y in x.items()}
    assert_array_equal(shared(**one), apart(**one))
    reference = pp.compile(FORWARD, model, backend="reference")
    assert_allclose(shared(**x), reference(**x), rtol=1e-9, atol=1e-9)


@pytest.mark.skipif(not has_machine_code(), reason="there is no LLVM here")
def test_code_of_joints_without_placement_is_another():
    piece = pp.FlexibleInertia.beam(0.3, 1.0, (10.0, np.inf), modes=0, rotary_inertia=1e-3)
    away = pp.Pose(translation=(0.0, 0.1, 0.0))
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    builder.add_body("a", joint=Revolute((0, 1, 0)), inertia=piece)
    on = {"parent": "a", "port": "tip"}
    builder.add_body("b", joint=Revolute((0, 1, 0)), inertia=piece, **on)
    builder.add_body("c", joint=Revolute((0, 1, 0)), inertia=piece, placement=away, **on)
    builder.add_body("d", joint=Revolute((0, 1, 0)), inertia=piece.rigid, **on)  # turned onto z
    builder.add_body("e", joint=Revolute((0, 0, 1)), inertia=piece.rigid, **on)
    model = builder.build()
    found = table(model)
    placed = [found.codes[k].placed for k in found.integers[:, tables.KIND]]
    order = [model.body_names.index(x) for x in "abcde"]
    assert [placed[k] for k in order] == [False, False, True, True, False]
    rng = np.random.default_rng(2)
    q, v, effort = (s * rng.normal(size=(9, model.nv)) for s in (1e-2, 0.1, 1.0))
    native, reference = (pp.compile(FORWARD, model, backend=x) for x in ("native", "reference"))
    x = {"q": q, "v": v, "tau": effort}
    assert_allclose(native(**x), reference(**x), rtol=1e-9, atol=1e-9)


def branched(*axes: tuple[float, float, float]) -> pp.Model:
    """A flexible body on a hinge, with one on its tip for each further axis."""
    piece = pp.FlexibleInertia.beam(0.3, 1.0, (10.0, 20.0), modes=0, rotary_inertia=1e-3)
    builder = pp.ModelBuilder(gravity=(0, 0, -9.81))
    for k, axis in enumerate(axes):
        on = {"parent": "b0", "port": "tip"} if k else {}
        builder.add_body(f"b{k}", joint=Revolute(axis), inertia=piece, **on)
    return builder.build()


def states(model: pp.Model) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(3)
    q, v, effort = (s * rng.normal(size=(9, model.nv)) for s in (1e-3, 0.1, 1.0))
    return {"q": q, "v": v, "tau": effort}


def known_of(model: pp.Model) -> list[tuple[int | None, ...]]:
    found = table(model)
    return [found.codes[k].params[:3] for k in found.integers[:, tables.KIND]]


def test_axes_along_the_frame_of_a_flexible_body_are_known():
    model = branched((0, 1, 0), (1, 0, 0), (0, 0, -1), (0, 0.6, 0.8))
    assert known_of(model) == [(0, 1, 0), (1, 0, 0), (0, 0, -1), (None, None, None)]


@pytest.mark.skipif(not has_machine_code(), reason="there is no LLVM here")
def test_code_of_known_axes_computes_the_same_with_less():
    size: dict[float, int] = {}
    for tilt in (0.0, 1e-300):  # the second is no axis of the frame, and the same to all digits
        model = branched((0, 1, tilt), (1, tilt, 0), (0, tilt, -1))
        native, reference = (pp.compile(FORWARD, model, backend=x) for x in ("native", "reference"))
        x = states(model)
        found = native(**x)
        assert_allclose(found, reference(**x), rtol=1e-9, atol=1e-9)
        assert_array_equal(native(**{name: y[0] for name, y in x.items()}), found[0])
        size[tilt] = native.native.unit.emit().count("llvm.fma") // len(table(model).codes)
    assert size[0.0] < 0.95 * size[1e-300]


@pytest.mark.skipif(not has_machine_code(), reason="there is no LLVM here")
def test_the_first_child_adds_to_nothing(monkeypatch):
    model = branched((0, 1, 0), (0, 1, 0), (0, 1, 0))
    found = table(model)
    assert [found.codes[k].first for k in found.integers[:, tables.KIND]] == [False, False, True]
    x, true = states(model), pp.compile(FORWARD, model, backend="reference")
    expected = true(**x)
    native = pp.compile(FORWARD, model, backend="native")
    assert_allclose(native(**x), expected, rtol=1e-9, atol=1e-9)
    plain = tables._code  # were every child the first, the others would be lost

    def first(m, k, *which):
        code = plain(m, k, *which)
        return replace(code, key=(str(code.key), ()), first=m.parent[k] >= 0)

    monkeypatch.setattr(tables, "_code", first)
    wrong = pp.compile(FORWARD, branched((0, 1, 0), (0, 1, 0), (0, 1, 0)), backend="native")
    assert np.abs(wrong(**x) - expected).max() > 1e-3 * np.abs(expected).max()
