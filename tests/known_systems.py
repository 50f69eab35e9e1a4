"""Mechanisms with loops that the field uses to compare codes, and a few with exact answers."""

from __future__ import annotations

import numpy as np

import phipsi as pp
from phipsi import constraints as c

X, Y, Z = (1, 0, 0), (0, 1, 0), (0, 0, 1)
ROD = pp.SpatialInertia(1.0, (0.5, 0, 0), (0, 1 / 12, 1 / 12))


def at(x=0.0, y=0.0, z=0.0, rotation=None) -> pp.Pose:
    return pp.Pose(rotation, (x, y, z))


def four_bar(
    lengths=(0.5, 1.2, 1.0), ground=1.1, closure: str = "Revolute", mass: float = 1.0
) -> pp.System:
    """Crank, coupler and rocker along x at q = 0, hinged about z; the last one ends on ground."""
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    parent, reach = "world", 0.0
    for name, length in zip(("crank", "coupler", "rocker"), lengths, strict=True):
        b.add_body(
            name,
            parent=parent,
            joint=pp.joints.Revolute(Z),
            placement=at(reach),
            inertia=pp.SpatialInertia(mass, (length / 2, 0, 0), mass * length**2 / 12),
        )
        parent, reach = name, length
    kind = getattr(c, closure)
    arguments = (Z,) if closure in ("Revolute", "Cylindrical", "Planar", "PointOnLine") else ()
    ends = {"a": ("rocker", (lengths[-1], 0, 0)), "b": ("world", (ground, 0, 0))}
    return pp.System(b.build(), [kind(*arguments, name="pin", **ends)])


def n_four_bar(n: int) -> tuple[pp.System, np.ndarray, np.ndarray]:
    """A02: n + 1 vertical rods on the ground, n couplers between their tops; with its start."""
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    loops = []
    for i in range(n + 1):
        b.add_body(f"rod{i}", joint=pp.joints.Revolute(Z), placement=at(i), inertia=ROD)
        if i < n:
            b.add_body(
                f"coupler{i}",
                parent=f"rod{i}",
                joint=pp.joints.Revolute(Z),
                placement=at(1),
                inertia=ROD,
            )
            ends = {"a": (f"coupler{i}", X), "b": (f"rod{i + 1}", X)}
            loops.append(c.Revolute(Z, name=f"pin{i}", **ends))
    model = b.build()
    q, v = np.zeros(model.nq), np.zeros(model.nv)
    for i in range(n + 1):
        q[model.q_slice(f"rod{i}")], v[model.v_slice(f"rod{i}")] = np.pi / 2, -1.0
    for i in range(n):
        q[model.q_slice(f"coupler{i}")], v[model.v_slice(f"coupler{i}")] = -np.pi / 2, 1.0
    return pp.System(model, loops), q, v


def bricard() -> pp.System:
    """A04: five rods, six revolutes; closed at q = 0, where Grübler counts 0 freedoms."""
    points = np.array([(0, 0, 0), (1, 0, 0), (1, -1, 0), (1, -1, 1), (0, -1, 1), (0, 0, 1.0)])
    axes = [Y, Z, X, Y, Z, X]
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    parent = "world"
    for i in range(5):
        along = points[i + 1] - points[i]
        moments = np.where(np.abs(along) > 0.5, 1 / 600, 1.01 / 12)
        b.add_body(
            f"rod{i}",
            parent=parent,
            joint=pp.joints.Revolute(axes[i]),
            placement=pp.Pose(translation=points[i] - (points[i - 1] if i else 0)),
            inertia=pp.SpatialInertia(1.0, along / 2, np.diag(moments)),
        )
        parent = f"rod{i}"
    end = c.Revolute(X, name="P5", a=("rod4", points[5] - points[4]), b=("world", points[5]))
    return pp.System(b.build(), [end])


# A03, Andrews' squeezing mechanism (the data of the IVP test set)
ANDREWS = {
    "m": (0.04325, 0.00365, 0.02373, 0.00706, 0.07050, 0.00706, 0.05498),
    "I": (2.194e-6, 4.410e-7, 5.255e-6, 5.667e-7, 1.169e-5, 5.667e-7, 1.912e-5),
    "A": (-0.06934, -0.00227), "B": (-0.03635, 0.03273), "C": (0.014, 0.072),
    "d": 0.028, "da": 0.0115, "e": 0.02, "ea": 0.01421, "rr": 0.007, "ra": 0.00092,
    "ss": 0.035, "sa": 0.01874, "sb": 0.01043, "sc": 0.018, "sd": 0.02, "ta": 0.02308,
    "tb": 0.00916, "u": 0.04, "ua": 0.01228, "ub": 0.00449, "zf": 0.02, "zt": 0.04, "fa": 0.01421,
    "c0": 4530.0, "l0": 0.07785, "drive": 0.033,
    "start": (-0.0617138900142764496, 0.0, 0.455279819163070380, 0.222668390165885885,
              0.487364979543842550, -0.222668390165885885, 1.23054744454982119),
}  # fmt: skip
