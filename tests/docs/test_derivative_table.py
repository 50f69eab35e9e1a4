"""The table of what can be differentiated in docs/derivatives.md: every cell is executed."""

from pathlib import Path

import numpy as np
import pytest
from comparers import tight as close
from random_models import random_tree
from random_systems import KINDS, admissible, random_system

import phipsi as pp
from phipsi.core.calculus.families import Family
from phipsi.core.expressions.kinds import Op
from phipsi.core.operators.inputs import leaves_of
from phipsi.core.spatial import inertia_of
from phipsi.core.sweeps.request import NEEDS_ROWS
from phipsi.errors import SpaceError

PAGE = Path(__file__).parents[2] / "docs" / "derivatives.md"
COLUMNS = {"by q": "q", "by v": "v", "by tau": "tau", "by inertia": "inertia"}
DIRECTIONS = {"q": "dq", "v": "dv", "tau": "dtau", "inertia": "dinertia"}
STEP = 1e-30


def rows():
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("| expression | by q"))
    names = [cell.strip() for cell in lines[head].strip("|").split("|")]
    for line in lines[head + 2 :]:
        if not line.startswith("|"):
            return
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert len(cells) == len(names), line
        yield cells[0].strip("`"), dict(zip(names[1:], cells[1:], strict=True))


CELLS = [(text, name, cells[name]) for text, cells in rows() for name in cells]


class Bench:
    """A mechanism in a random state, on which an expression makes sense."""

    def __init__(self, expr):
        rng = np.random.default_rng(5)
        self.system, self.points = None, None
        if {x.name for x in leaves_of(expr)} & NEEDS_ROWS:
            self.system, q = random_system(2, 5, KINDS[:3], independent=True)
            self.model = self.system.model
            v = admissible(self.system, q, rng)
        else:
            self.model = random_tree(4, 5, armature=True, frames=True)
            q = self.model.random_configuration(rng)
            v = rng.standard_normal(self.model.nv)
            self.points = [(self.model.body_names[-1], (0.1, -0.2, 0.3))]
        count = 0 if self.system is None else len(self.system.jacobian(q))
        drawn = {"tau": self.model.nv, "vdot": self.model.nv, "Udot": count, "f0": (1, 6)}
        self.values = {"q": q, "v": v, **{n: rng.standard_normal(s) for n, s in drawn.items()}}
        parameters = (self.model.n_bodies, 10)
        self.u = {n: rng.standard_normal(parameters if n == "inertia" else self.model.nv)
                  for n in DIRECTIONS}  # fmt: skip

    def run(self, expr, values=None, **options):
        mode = "apply" if expr.is_vector or options.pop("apply", False) else "dense"
        where = {} if self.system is not None else {"points": self.points}
        program = pp.compile(expr, self.system or self.model, mode=mode, backend="reference",
                             **where, **options)  # fmt: skip
        values = {**self.values, **(values or {})}
        return program(**{name: values[name] for name in program.inputs})

    def expected(self, expr, wrt):
        u = self.u[wrt]
        if wrt == "inertia":
            moved = {"M": self.model.inertia_matrices + 1j * STEP * inertia_of(u)}
            return self.run(expr, moved, inputs=("M",)).imag / STEP
        change = self.model.qdot(self.values["q"], u) if wrt == "q" else u
        return self.run(expr, {wrt: self.values[wrt] + 1j * STEP * change}).imag / STEP


@pytest.mark.parametrize(("text", "column", "said"), CELLS, ids=lambda x: str(x))
def test_cell(text, column, said):
    expr = pp.parse(text)
    if column == "`vjp`":
        return check_gradients(expr, said)
    wrt = COLUMNS[column]
    if said == "error":
        for along in (None, DIRECTIONS[wrt]):
            with pytest.raises(SpaceError, match="no derivative is known"):
                pp.diff(expr, wrt, along=along)
        return None
    found, along = pp.diff(expr, wrt), pp.diff(expr, wrt, along=DIRECTIONS[wrt])
    whole = found.expr if isinstance(found, Family) else found
    if said == "0":
        assert whole.op is Op.ZERO and along.op is Op.ZERO
        return None
    assert isinstance(found, Family) == (said == "family")
    bench = Bench(expr)
    u, expected = bench.u[wrt], bench.expected(expr, wrt)
    assert np.abs(expected).max() > 1e-6  # something does change
    close(bench.run(along, {DIRECTIONS[wrt]: u}), expected)
    if said == "operator":
        close(bench.run(found, {"x": u}, apply=True), expected)
    else:
        close(bench.run(found.contract(DIRECTIONS[wrt]), {DIRECTIONS[wrt]: u}), expected)
    return None


def check_gradients(expr, said):
    names = tuple(COLUMNS.values())
    if said == "error":
        with pytest.raises(SpaceError):
            pp.vjp(expr, pp.examples.planar_arm(2), names)
        return
    assert said == "yes"
    bench = Bench(expr)
    where = {} if bench.system is not None else {"points": bench.points}
    program = pp.vjp(expr, bench.system or bench.model, names, backend="reference", **where)
    c = np.random.default_rng(1).standard_normal(np.shape(bench.run(expr)))
    c = np.ones(()) if expr.is_scalar else c
    values = {**bench.values, "x": c}
    for wrt, g in zip(names, program(**{n: values[n] for n in program.inputs}), strict=True):
        moves = pp.diff(expr, wrt, along=DIRECTIONS[wrt]).op is not Op.ZERO
        expected = bench.expected(expr, wrt) if moves else 0 * c
        close(np.sum(g * bench.u[wrt]), np.sum(c * expected))
