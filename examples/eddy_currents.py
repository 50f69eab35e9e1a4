"""Conducting bodies that turn in a magnetic field: an operator written outside the library.

python examples/eddy_currents.py

Currents in a conducting sphere that turns at ω in a field B resist the turn by k B × (ω × B). So
they are a damping E(k) = k (B·B 1 − B B*) between motions and forces, which turns with the body.
"""

import numpy as np

import phipsi as pp
from phipsi import extensions
from phipsi.operators import H, V, mass_matrix, phi

entries = extensions.entries

FIELD, STRENGTH = (0.3, 0.0, 0.4), 2e-3  # T in world axes, N·m·s/T²


@extensions.operation(
    "eddy_currents", rows="6", cols="6", kind="symmetric", cost=40, form="E({0~})",
    meaning="damping by the currents of a body that turns in a magnetic field",
)  # fmt: skip
def eddy_currents(a, x):
    mul, turn = entries.mul, a.rigid(x.args[0])[0]  # from the body to the world
    b = entries.matvec(entries.transpose_rows(turn), [a.number(c) for c in FIELD])
    lower = [entries.neg(mul(b[i], b[j])) for i in range(3) for j in range(i + 1)]
    for diagonal in (0, 2, 5):
        lower[diagonal] = entries.add(entries.dot(b, b), lower[diagonal])
    return a.symmetric([*(mul(a.number(STRENGTH), c) for c in lower), *[0] * 15], 6)


def matrix(at):
    out = at.zeros(at.size, at.size)
    for k in range(at.model.n_bodies):
        b, start = at.turn(k)[:3, :3].T @ FIELD, at.six(k).start
        out[start : start + 3, start : start + 3] = STRENGTH * (b @ b * np.eye(3) - np.outer(b, b))
    return out


def change(x, d):
    turned = x @ d.cross(d.motion)  # the field turns back as the body turns
    return turned + turned.T


EDDY = extensions.leaf(
    "eddy", "motions -> forces", home=__name__, needs="q", meaning="damping by eddy currents",
    symmetric=True, six_rows=True, differential=change, matrix=matrix,
    blocks=lambda low, x: low.on_rigid_rows(low.builder.apply("eddy_currents", low.pose())),
)  # fmt: skip


if __name__ == "__main__":
    satellite = pp.examples.free_flyer()
    extensions.check(EDDY, satellite)
    print(pp.explain("H φ eddy V"))

    q, v = satellite.random_configuration(0), np.ones(satellite.nv)
    power = pp.compile(V.T @ EDDY @ V, satellite)
    print(f"power: {-power(q, v):.4e} W")
    slope = pp.compile(pp.diff(V.T @ EDDY @ V, "q", along="dq"), satellite)
    h, along = 1e-6, np.linspace(-1, 1, satellite.nv)
    ahead, behind = (power(satellite.integrate(q, s * h * along), v) for s in (1, -1))
    print(f"its slope: {slope(q, v, along):.6e}, and by differences {(ahead - behind) / 2 / h:.6e}")
    damping = H @ phi @ EDDY @ phi.T @ H.T
    rates = np.linalg.eigvals(pp.compile(mass_matrix.inv @ damping, satellite, mode="dense")(q))
    print(f"fastest decay: {rates.real.max():.3e} 1/s")
