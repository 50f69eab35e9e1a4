"""Beams: frequencies, statics, integrals by a second route, axes, rejected input."""

import math
from typing import Any

import numpy as np
import pytest
from flexible_oracle import Points
from scipy.linalg import expm
from scipy.optimize import brentq

import phipsi as pp

CANTILEVER = np.array([1.8751040687, 4.6940911330, 7.8547574382]) ** 2
INF = math.inf


@pytest.mark.parametrize(
    ("modes", "errors"),
    [
        (0, [4.8e-3, 0.58]),
        (1, [3.5e-4, 4.2e-3, 0.90]),
        (2, [5.8e-5, 1.1e-3, 3.7e-3]),
        (4, [5.4e-6, 1.4e-4, 7.2e-4]),
    ],
)
def test_frequencies_of_a_cantilever(modes, errors):
    """The table of the theory page: relative errors with 2 static modes and `modes` normal ones."""
    beam = pp.FlexibleInertia.beam(2.0, 3.0, (5.0, INF), modes=modes)
    unit = math.sqrt(5.0 / 3.0 / 2.0**4)
    found = beam.frequencies[: len(errors)] / unit / CANTILEVER[: len(errors)] - 1
    np.testing.assert_allclose(found, errors, rtol=0.02)


def test_frequencies_of_a_clamped_rod():
    """π c / 2L with c² = EA/ρA for stretch and GJ/ρJ for torsion; errors fall as 1/modes³."""
    unit = math.pi / 2 / 2.0
    for modes, error in ((0, 0.103), (2, 1.1e-3), (8, 2.8e-5)):
        beam = pp.FlexibleInertia.beam(
            2.0, 3.0, INF, EA=12.0, GJ=0.5, stretch_modes=modes, twist_modes=modes,
            rotary_inertia=0.01,
        )  # fmt: skip
        lowest = beam.frequencies[[0, np.flatnonzero(np.abs(beam.C0[0]) > 1e-9)[0]]]
        found = lowest / unit / [2.0, 5.0] - 1
        assert (found > 0).all() and (found < error).all()
        assert not beam.S1[1:].any()


def test_tip_loads_are_exact_in_statics():
    L, EI, EA, GJ, shear = 2.0, (5.0, 7.0), 11.0, 13.0, (17.0, 19.0)
    beam = pp.FlexibleInertia.beam(
        L, 3.0, EI, EA, GJ, modes=2, rotary_inertia=0.01, shear_stiffness=shear, ports={"half": 0.5}
    )
    tip = beam.port("tip")
    flexibility = np.vstack([tip.rotation_modes, tip.translation_modes])
    flexibility = flexibility @ np.linalg.solve(beam.stiffness, flexibility.T)
    expected = np.diag([L / GJ, L / EI[1], L / EI[0], L / EA, 0, 0])
    for k, plane in ((4, 0), (5, 1)):
        expected[k, k] = L**3 / (3 * EI[plane]) + L / shear[plane]
    expected[2, 4] = expected[4, 2] = L**2 / 2 / EI[0]
    expected[1, 5] = expected[5, 1] = -(L**2) / 2 / EI[1]
    np.testing.assert_allclose(flexibility, expected, atol=1e-9)
    half = beam.port("half").translation_modes @ np.linalg.solve(
        beam.stiffness, tip.translation_modes.T
    )
    x = L / 2
    assert half[1, 1] == pytest.approx(x**2 * (3 * L - x) / (6 * EI[0]) + x / shear[0], rel=1e-9)


def test_frequency_of_a_timoshenko_beam():
    """Against the roots of the exact equations, integrated by a matrix exponential."""
    L, m, EI, shear, rotary = 1.0, 2.0, 3.0, 40.0, 0.02

    def mismatch(w):  # [v, θ, bending moment, shear force]: v' = θ + Q/kGA, θ' = M/EI
        A = np.zeros((4, 4))
        A[0, 1], A[0, 3], A[1, 2] = 1, 1 / shear, 1 / EI
        A[2, 1], A[2, 3], A[3, 0] = -rotary * w * w, -1, -m * w * w
        return np.linalg.det(expm(A * L)[2:, 2:])

    beam = pp.FlexibleInertia.beam(
        L, m, (EI, INF), modes=20, shear_stiffness=shear, rotary_inertia=rotary
    )
    slender = pp.FlexibleInertia.beam(L, m, (EI, INF), modes=20)
    for k in range(2):
        w = float(beam.frequencies[k])
        exact = brentq(mismatch, 0.97 * w, 1.03 * w)
        assert w == pytest.approx(exact, rel=1e-4)
        assert slender.frequencies[k] > 1.03 * w


def test_integrals_by_sums_over_many_ports():
    """Displacements, slopes and shortening as the ports show them, summed by the midpoint rule."""
    pieces, L = 500, 2.0
    x = (np.arange(pieces) + 0.5) / pieces
    names = {f"p{k}": float(s) for k, s in enumerate(x)}
    beam = pp.FlexibleInertia.beam(
        L, 3.0, (5.0, 7.0), 11.0, 13.0, modes=1, rotary_inertia=(0.02, 0.03), ports=names,
        axis=(1, 2, -2), bending_axis=(0, 1, 1), stretch_modes=1,
    )  # fmt: skip
    ports = [beam.port(name) for name in names]
    axis = np.array([1, 2, -2]) / 3
    lateral = np.array([0, 1, 1]) / math.sqrt(2)
    turns = np.stack([port.rotation_modes for port in ports])
    slopes = np.cross(turns, axis, axisa=1, axisc=1)  # θ × axis
    squares = np.einsum("kai,kaj->kij", slopes, slopes) * L / pieces
    short = -axis[:, None, None] * (np.cumsum(squares, axis=0) - squares / 2)[:, None]
    np.testing.assert_allclose([port.second_order for port in ports], short, atol=1e-3)
    frame = np.stack([axis, lateral, np.cross(axis, lateral)], axis=1)
    section = frame @ np.diag([0.05, 0.03, 0.02]) @ frame.T
    points = Points(
        np.full(pieces, 3.0 * L / pieces),
        np.outer(x * L, axis),
        np.stack([port.translation_modes for port in ports]),
        short,
        np.tile(section * L / pieces, (pieces, 1, 1)),
        turns,
    )
    eta = np.random.default_rng(0).uniform(-0.3, 0.3, beam.modes)
    expected = points.inertia(eta)
    np.testing.assert_allclose(beam.inertia_at(eta), expected, atol=3e-5 * np.abs(expected).max())
    moved = np.gradient(points.shapes, L / pieces, axis=0)
    lateral_part = moved - np.einsum("a,b,kbi->kai", axis, axis, moved)
    np.testing.assert_allclose(lateral_part[1:-1], slopes[1:-1], atol=1e-3)


def test_modes_are_orthonormal_and_damped():
    beam = pp.FlexibleInertia.beam(
        2.0, 3.0, (5.0, 7.0), 11.0, 13.0, rotary_inertia=0.01, damping_ratio=0.02
    )
    np.testing.assert_allclose(beam.modal_mass, np.eye(beam.modes), atol=1e-10)
    np.testing.assert_allclose(np.diag(beam.damping), 0.04 * beam.frequencies, rtol=1e-9)
    assert (np.diff(beam.frequencies) >= 0).all()


def test_max_frequency_leaves_out_modes():
    every = pp.FlexibleInertia.beam(2.0, 3.0, (5.0, 7.0), 11.0)
    few = pp.FlexibleInertia.beam(2.0, 3.0, (5.0, 7.0), 11.0, max_frequency=10.0)
    assert few.frequencies.tolist() == pytest.approx([w for w in every.frequencies if w <= 10.0])
    assert 0 < few.modes < every.modes


def test_without_stiffening_nothing_is_of_second_order():
    beam = pp.FlexibleInertia.beam(2.0, 3.0, 5.0, stiffening=False)
    assert not beam.S2.any() and not beam.port("tip").second_order.any()
    assert pp.FlexibleInertia.beam(2.0, 3.0, 5.0).S2.any()


def test_the_default_planes():
    for axis, lateral in (((1, 0, 0), 1), ((0, 1, 0), 2), ((0, 0, 1), 0), ((0, 0, -1), 0)):
        beam = pp.FlexibleInertia.beam(1.0, 1.0, (1.0, INF), axis=axis)
        moved = np.flatnonzero(np.abs(beam.port("tip").translation_modes).max(axis=1))
        assert moved.tolist() == [lateral]
        np.testing.assert_allclose(beam.port("tip").position, axis)


def test_the_picture_shows_the_tip():
    beam = pp.FlexibleInertia.beam(1.0, 1.0, 1.0)
    assert beam.shape is not None
    eta = np.arange(beam.modes) / 100
    drawn = beam.shape.deformed(eta)
    np.testing.assert_allclose(
        drawn[-1], [1, 0, 0] + beam.port("tip").translation_modes @ eta, atol=1e-12
    )
    assert beam.shape.segments[-1].tolist() == [len(drawn) - 2, len(drawn) - 1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"length": 0.0}, "length must be positive and finite, not 0"),
        ({"mass_per_length": INF}, "mass_per_length must be positive and finite"),
        ({"EI": -1.0}, "EI must be positive, not -1"),
        ({"EI": (1.0, 2.0, 3.0)}, "EI must be one number or a pair"),
        ({"EI": "stiff"}, "EI must be a number, not 'stiff'"),
        ({"EI": INF}, "nothing can deform"),
        ({"modes": 1.5}, "modes must be an integer ≥ 0"),
        ({"modes": 51}, "modes=51 is more than 50.*\\n.*length / 10"),
        ({"stiffening": "yes"}, "stiffening='yes' must be True or False"),
        ({"ports": ["middle"]}, "ports must be places by name"),
        ({"ports": {"tip": 0.5}}, "port 'tip' is the end of the beam"),
        ({"GJ": 1.0}, "twist has stiffness but no inertia.*rotary_inertia"),
        ({"max_frequency": 1e-3}, "no mode is left. The lowest of 8 modes"),
        ({"damping_ratio": -0.1}, "damping_ratio must be at least 0"),
        ({"axis": (0, 0, 0)}, "axis must be three finite numbers"),
        ({"bending_axis": (2, 0, 0)}, "bending_axis is parallel to the axis"),
        ({"ports": {"far": 2.0}}, "port 'far' is at 2 of the length"),
        ({"rotary_inertia": -1.0}, "rotary_inertia must be at least 0"),
    ],
)
def test_bad_beams_are_rejected(change, message):
    good: dict[str, Any] = {"length": 1.0, "mass_per_length": 1.0, "EI": 1.0}
    pp.FlexibleInertia.beam(**good)
    with pytest.raises(pp.errors.ModelError, match=message):
        pp.FlexibleInertia.beam(**good | change)
