"""Mechanisms whose motion is known."""

import numpy as np

from phipsi.core.model import joints
from phipsi.core.model.builder import ModelBuilder
from phipsi.core.model.inertia import SpatialInertia
from phipsi.core.model.model import Model
from phipsi.core.model.pose import Pose

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)


def pendulum() -> Model:
    """A01 of the library of benchmark problems: 1 kg on a massless bar of 1 m, gravity −y."""
    b = ModelBuilder(gravity=(0, -9.81, 0))
    b.add_body("bob", joint=joints.Revolute(Z), inertia=SpatialInertia(1, X, 0))
    return b.build()


def slider(mass: float = 1.0, gravity: float = 0.0) -> Model:
    """One body that slides along z."""
    b = ModelBuilder(gravity=(0, 0, -gravity))
    b.add_body("block", joint=joints.Prismatic(Z), inertia=SpatialInertia(mass, (0, 0, 0), 1.0))
    return b.build()


def floating_body(moments=(1.0, 2.0, 3.0)) -> Model:
    """One free body without gravity."""
    b = ModelBuilder(gravity=(0, 0, 0))
    b.add_body("body", joint=joints.Free(), inertia=SpatialInertia(2.0, (0, 0, 0), moments))
    return b.build()


# The chaotic "baby boot" of Kane: SI, gravity −z, rod along −z at q_A = 0.
M_A, L_A, I_AX = 0.010, 0.075, 50e-7
M_B, L_B = 0.100, 0.20
I_BX, I_BY, I_BZ = 2500e-7, 500e-7, 2000e-7


def jointed_flyer() -> Model:
    """A free body, a ball joint and a hinge, with the same body on each."""
    b = ModelBuilder()
    ball = SpatialInertia(1, com_B=(0.1, 0.2, 0), moment_about_com_B=1)
    b.add_body("base", joint=joints.Free(), inertia=ball)
    b.add_body("ball", parent="base", joint=joints.Spherical(), inertia=ball)
    b.add_body("arm", parent="ball", joint=joints.Revolute((0, 1, 0)), inertia=ball)
    return b.build()


G = 9.81


def baby_boot() -> Model:
    b = ModelBuilder(gravity=(0, 0, -G))
    b.add_body(
        "rod",
        joint=joints.Revolute(X),
        inertia=SpatialInertia(M_A, (0, 0, -L_A), (I_AX, I_AX, 0)),
    )
    b.add_body(
        "plate",
        parent="rod",
        joint=joints.Revolute(Z),
        placement=Pose(translation=(0, 0, -L_B)),
        inertia=SpatialInertia(M_B, (0, 0, 0), (I_BX, I_BY, I_BZ)),
    )
    return b.build()


BOOT_START = np.deg2rad([90.0, 1.0])


def boot_series(order: int, step: str, steps: int, digits: int):
    """q (steps + 1, 2) of the baby boot by power series in mpmath, from its own equations.

    (I + IBx cos²B + IBy sin²B) Ä = −(mA LA + mB LB) g sin A + (IBx − IBy) sin 2B Ȧ Ḃ
    IBz B̈ = −½ (IBx − IBy) sin 2B Ȧ²
    """
    from mpmath import mp, mpf

    with mp.workdps(digits):
        h = mpf(step)
        inertia = mpf("0.01") * mpf("0.075") ** 2 + mpf("0.1") * mpf("0.2") ** 2 + mpf("50e-7")
        weight = (mpf("0.01") * mpf("0.075") + mpf("0.1") * mpf("0.2")) * mpf("9.81")
        bx, by, bz = mpf("2500e-7"), mpf("500e-7"), mpf("2000e-7")
        A, dA, B, dB = mp.pi / 2, mpf(0), mp.pi / 180, mpf(0)
        out = [(A, B)]
        for _ in range(steps):
            a, b, u, w = [A], [B], [dA], [dB]  # series of A, B and their rates
            s, c = [mp.sin(A)], [mp.cos(A)]
            s2, c2 = [mp.sin(2 * B)], [mp.cos(2 * B)]
            uw, uu = [], []
            left = []  # series of the inertia about the pivot, (bx + by)/2 + (bx − by)/2 cos 2B
            ua, wb = [], []  # Ä, B̈
            for n in range(order):
                uw.append(_product(u, w, n))
                uu.append(_product(u, u, n))
                left.append((inertia + (bx + by) / 2 if n == 0 else 0) + (bx - by) / 2 * c2[n])
                right = -weight * s[n] + (bx - by) * _product(s2, uw, n)
                right -= sum(left[k] * ua[n - k] for k in range(1, n + 1))
                ua.append(right / left[0])
                wb.append(-(bx - by) / 2 * _product(s2, uu, n) / bz)
                a.append(u[n] / (n + 1))
                b.append(w[n] / (n + 1))
                u.append(ua[n] / (n + 1))
                w.append(wb[n] / (n + 1))
                # d/dt sin x = cos x · ẋ
                rates = [(k + 1) * a[k + 1] for k in range(n + 1)]
                s.append(_product(c, rates, n) / (n + 1))
                c.append(-_product(s, rates, n) / (n + 1))
                twice = [2 * (k + 1) * b[k + 1] for k in range(n + 1)]
                s2.append(_product(c2, twice, n) / (n + 1))
                c2.append(-_product(s2, twice, n) / (n + 1))
            A, B, dA, dB = (mp.polyval(x[::-1], h) for x in (a, b, u, w))
            out.append((A, B))
        return np.array(out, dtype=float)


def _product(x, y, n):
    return sum(x[k] * y[n - k] for k in range(n + 1))
