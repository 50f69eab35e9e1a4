"""Lowered programs as text: what the compiler makes of the papers' equations.

A change of these files is a change of what the library computes; look at the difference, then

    PHIPSI_UPDATE_GOLDEN=1 pytest tests/core/sweeps/test_golden.py
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from program_text import directions, kinds, program_text

import phipsi as pp
from phipsi.core.expressions.node import Expr
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.joints import Free, Revolute
from phipsi.core.model.model import Model
from phipsi.operators import (
    B,
    D,
    G,
    H,
    I,
    J,
    Jr,
    K,
    Lambda,
    M,
    P,
    R,
    Upsilon,
    V,
    a,
    b,
    bd,
    f0,
    frame_pose,
    gravity,
    logdet,
    mass_matrix,
    moved,
    phi,
    pose,
    proj_bar,
    psi,
    psi_tilde,
    tau,
    to_com,
    total,
    v,
    vdot,
)

FOLDER = Path(__file__).parent / "golden"
UPDATE = bool(os.environ.get("PHIPSI_UPDATE_GOLDEN"))
compiled = partial(pp.compile, backend="reference")


def two_arms() -> Model:
    """A free base with two arms of two joints each, with rotor inertia."""
    inertia = SpatialInertia(mass=1.0, com_B=(0.1, 0, 0), moment_about_com_B=0.1)
    builder = ModelBuilder()
    builder.add_body("base", joint=Free(), inertia=inertia)
    for side in ("left", "right"):
        parent = "base"
        for part in ("upper", "lower"):
            name = f"{side}_{part}"
            builder.add_body(
                name, parent=parent, joint=Revolute((0, 0, 1)), inertia=inertia, armature=0.1
            )
            parent = name
    return builder.build()


MODEL = two_arms()
HANDS = ["left_lower", "right_lower"]
acceleration = a + gravity
whiten = I - H @ psi @ K
load = b + B @ f0
bias = H @ phi @ (M @ phi.T @ acceleration + load)
nu4 = D.inv @ (whiten @ tau - H @ psi_tilde @ P @ acceleration - H @ psi @ load)
FD1 = whiten.T @ D.inv @ whiten @ (tau - bias)
FD2 = (
    FD1,
    psi.T @ H.T @ D.inv @ whiten @ (tau - bias) + phi.T @ acceleration,
)
FD3 = whiten.T @ D.inv @ (tau - H @ psi @ (K @ tau + M @ phi.T @ acceleration + load))
FD4 = whiten.T @ nu4 - K.T @ psi.T @ proj_bar.T @ acceleration - G.T @ acceleration
INVERSE_DYNAMICS = H @ phi @ (M @ phi.T @ (H.T @ vdot + acceleration) + load) + Jr @ vdot


@dataclass
class Case:
    """An expression, how it is compiled, and the directed sweeps (U, D) and steps it must take."""

    x: Expr | tuple[Expr, ...]
    sweeps: str
    steps: list[str] = field(default_factory=list)
    options: dict[str, Any] = field(default_factory=dict)

    def program(self) -> Any:
        return compiled(self.x, MODEL, points=HANDS, **self.options)


def dense(x: Expr, sweeps: str, *steps: str) -> Case:
    return Case(x, sweeps, list(steps), {"mode": "dense"})


def as_written(x: Expr | tuple[Expr, ...], sweeps: str) -> Case:
    return Case(x, sweeps, options={"rewrite": "as_written"})


CASES = {
    "velocities": Case(V, "D"),
    "poses": Case(pose, "D"),
    "frame_poses": Case(frame_pose, "D"),
    "moved": Case(moved, ""),
    "centroidal_momentum_matrix": dense(to_com @ total(M @ phi.T @ H.T), "DU"),
    "momentum": Case(total(M @ V), "D"),
    "inverse_dynamics": Case(INVERSE_DYNAMICS, "DU"),
    "forward_dynamics": Case(mass_matrix.inv @ (tau - bias), "DUD"),
    "FD1": as_written(FD1, "DUD"),  # the papers' two U sweeps fuse
    "FD2": as_written(FD2, "DUD"),
    "FD3": as_written(FD3, "DUD"),
    "FD4": as_written(FD4, "DUD"),
    "mass_matrix": Case(mass_matrix, "DU"),
    "mass_matrix_inverse": Case(mass_matrix.inv, "UD"),
    "mass_matrix_dense": dense(mass_matrix, "U", "tip_to_base", "path"),
    "mass_matrix_inverse_dense": dense(mass_matrix.inv, "UD"),
    "articulated": Case((P, D, G), "U", options={"mode": "blocks"}),
    "composite": Case(R, "U", options={"mode": "blocks"}),
    "upsilon": Case(Upsilon, "UD", options={"mode": "blocks"}),
    "bd_of_omega": Case(bd(psi.T @ H.T @ D.inv @ H @ psi), "UD", options={"mode": "blocks"}),
    "log_det": Case(logdet(mass_matrix), "U"),
    "jacobian": Case(J, "D"),
    "jacobian_dense": dense(J, "D", "base_to_tip", "path"),
    "admittance": Case(Lambda, "DUD"),
    "admittance_dense": dense(Lambda, "UD", "pairs"),
    "operational_inertia": Case(Lambda.inv, "UD", ["pairs", "small"]),
    "reactions": Case(phi @ (M @ phi.T @ (H.T @ vdot + acceleration) + b), "DU"),
    "kinetic_energy": Case(0.5 * v.T @ mass_matrix @ v, "DU"),
    "two_solves": Case((mass_matrix.inv, mass_matrix), "DUD"),
}


@pytest.mark.parametrize("name", CASES)
def test_lowered_program_is_the_golden_one(name: str):
    path, text = FOLDER / f"{name}.txt", program_text(CASES[name].program())
    if UPDATE:
        path.write_text(text, encoding="utf-8")
    assert path.exists(), f"{path.name} is missing; see the text of this module"
    assert text == path.read_text(encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_number_and_direction_of_the_sweeps(name: str):
    case = CASES[name]
    program = case.program()
    assert directions(program) == case.sweeps, kinds(program)
    assert set(case.steps) <= set(kinds(program))


def test_there_is_no_golden_file_without_a_case():
    assert {path.stem for path in FOLDER.glob("*.txt")} == set(CASES)


def test_the_text_does_not_depend_on_what_was_compiled_before():
    first = program_text(compiled(mass_matrix.inv, two_arms()))
    compiled(INVERSE_DYNAMICS, MODEL, points=HANDS)
    assert program_text(compiled(mass_matrix.inv, two_arms())) == first


def test_the_text_does_not_depend_on_the_mechanism():
    """Only on whether there is rotor inertia; the bodies are a loop."""
    builder = ModelBuilder()
    inertia = SpatialInertia(mass=1.0, com_B=(0, 0, 0.1), moment_about_com_B=0.1)
    builder.add_body("link", joint=Revolute((0, 1, 0)), inertia=inertia, armature=0.2)
    small = builder.build()
    for x in (mass_matrix.inv, INVERSE_DYNAMICS):
        one, other = (compiled(x, m, points=[m.body_names[-1]] * 2) for m in (small, MODEL))
        assert program_text(one) == program_text(other)


def test_the_two_forms_of_upsilon_are_one_program():
    one, other = (program_text(CASES[name].program()) for name in ("upsilon", "bd_of_omega"))
    assert [line.split(" # ")[0].rstrip() for line in one.split("\n")] == [
        line.split(" # ")[0].rstrip() for line in other.split("\n")
    ]
