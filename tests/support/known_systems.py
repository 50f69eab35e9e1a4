"""Mechanisms with loops that the field uses to compare codes, and a few with exact answers."""

from __future__ import annotations

from typing import Any

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


def pinned_arm(links: int = 3, closure: str = "Revolute", arm: pp.Model | None = None) -> pp.System:
    """A planar arm of the examples with its tip on a pin at (1.5, 0, 0); of three links a four-bar.

    A hinge closes a planar loop in space: three of its five rows are always zero.
    """
    kind = getattr(c, closure)
    axis = (Z,) if closure == "Revolute" else ()
    pin = kind(*axis, name="pin", a="tip", b=("world", (1.5, 0, 0)))
    return pp.System(arm or pp.examples.planar_arm(links), [pin])


def pinned_four_bar() -> tuple[pp.System, np.ndarray]:
    """The arm of three links on a pin, with a configuration that closes it."""
    system = pinned_arm()
    return system, system.assemble([1.0, -1.0, -1.5])


def add_four_bar(
    b: pp.ModelBuilder, name: str = "", turn=None, scale=1.0, mass=1.0, at=(0, 0, 0), closure=None
) -> c.Constraint:
    """The same in a plane of any direction and of any size: adds its bodies, returns its pin.

    The pin is a `Revolute`, of whose five rows three are implied; `closure=c.PointOnLine` leaves
    these out.
    """
    R = np.eye(3) if turn is None else np.asarray(turn)
    axis, where, parent = R @ Z, np.asarray(at, dtype=float), "world"
    for part, length in zip(("crank", "coupler", "rocker"), (0.5, 1.2, 1.0), strict=True):
        size = length * scale
        b.add_body(
            name + part,
            parent=parent,
            joint=pp.joints.Revolute(axis),
            placement=pp.Pose(translation=where),
            inertia=pp.SpatialInertia(
                mass, R @ (size / 2, 0, 0), mass * size**2 / 12 * R @ np.diag([0.01, 1, 1]) @ R.T
            ),
        )
        parent, where = name + part, R @ (size, 0, 0)
    ends = {"a": (parent, where), "b": ("world", np.asarray(at) + R @ (1.1 * scale, 0, 0))}
    return (closure or c.Revolute)(axis, name=name + "pin", **ends)


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


def parallelogram() -> tuple[pp.System, np.ndarray]:
    """Three equal cranks under one bar: ten rows of which three are independent."""
    x, z = (1, 0, 0), (0, 0, 1)
    rod = pp.SpatialInertia(1.0, (0.5, 0, 0), (0.01, 0.1, 0.1))
    b = pp.ModelBuilder(gravity=(0, -9.81, 0))
    b.add_body("crank0", joint=pp.joints.Revolute(z), inertia=rod)
    b.add_body(
        "bar", parent="crank0", joint=pp.joints.Revolute(z), placement=pp.Pose(None, x),
        inertia=pp.SpatialInertia(1.0, (1, 0, 0), 0.3),
    )  # fmt: skip
    pins = []
    for i in (1, 2):
        b.add_body(
            f"crank{i}", joint=pp.joints.Revolute(z), placement=pp.Pose(None, (i, 0, 0)),
            inertia=rod,
        )  # fmt: skip
        pins.append(c.Revolute(z, name=f"pin{i}", a=(f"crank{i}", x), b=("bar", (i, 0, 0))))
    return pp.System(b.build(), pins), np.array([0.8, -0.8, 0.8, 0.8])


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


def andrews() -> tuple[pp.System, np.ndarray, pp.forces.Force]:
    """A03 with its start and its spring; angles as in the data, E closed three times."""
    d = ANDREWS
    m, inertia = d["m"], d["I"]
    A, B, C = (np.array([*d[k], 0.0]) for k in "ABC")
    # name, parent, joint place, mass centre; E is where K2, K3, K4 and K6 meet
    bodies = [
        ("K1", "world", (0, 0, 0), (d["ra"], 0)),
        ("K2", "K1", (d["rr"], 0, 0), (-d["da"], 0)),
        ("K3", "world", B, (d["sa"], d["sb"])),
        ("K5", "world", A, (d["ta"], d["tb"])),
        ("K4", "K5", (d["zt"], 0, 0), (0, -(d["e"] - d["ea"]))),
        ("K7", "world", A, (d["ua"], d["ub"])),
        ("K6", "K7", (0, -d["u"], 0), (d["zf"] - d["fa"], 0)),
    ]
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, parent, place, com in bodies:
        k = int(name[1]) - 1
        b.add_body(
            name,
            parent=parent,
            joint=pp.joints.Revolute(Z),
            placement=pp.Pose(translation=place),
            inertia=pp.SpatialInertia(m[k], (*com, 0), inertia[k]),
        )
    E = {"K3": (0, -d["ss"], 0), "K4": (0, -d["e"], 0), "K6": (d["zf"], 0, 0)}
    loops = [
        c.Revolute(Z, name=f"E{k[1]}", a=("K2", (-d["d"], 0, 0)), b=(k, x)) for k, x in E.items()
    ]
    model = b.build()
    q = np.zeros(7)
    for name, angle in zip(("K1", "K2", "K3", "K4", "K5", "K6", "K7"), d["start"], strict=True):
        q[model.q_slice(name)] = angle
    spring = pp.forces.PointSpring(
        ("K3", (d["sd"], -d["sc"], 0)), ("world", C), stiffness=d["c0"], rest_length=d["l0"]
    )
    return pp.System(model, loops), q, spring


def andrews_equations(t: float, y: np.ndarray) -> np.ndarray:
    """A03 in the equations of Hairer and Wanner (VII.7), the constraints differentiated twice."""
    d = ANDREWS
    m1, m2, m3, m4, m5, m6, m7 = d["m"]
    I1, I2, I3, I4, I5, I6, I7 = d["I"]
    names = "d da e ea rr ra ss sa sb sc sd ta tb u ua ub zf zt fa"
    dd, da, e, ea, rr, ra, ss, sa, sb, sc, sd, ta, tb, u, ua, ub, zf, zt, fa = (
        d[k] for k in names.split()
    )
    be, th, ga, ph, de, om, ep = y[:7]
    bep, thp, gap, php, dep, omp, epp = y[7:]
    sin, cos = np.sin, np.cos
    M = np.zeros((7, 7))
    M[0, 0] = m1 * ra**2 + m2 * (rr**2 - 2 * da * rr * cos(th) + da**2) + I1 + I2
    M[1, 0] = M[0, 1] = m2 * (da**2 - da * rr * cos(th)) + I2
    M[1, 1] = m2 * da**2 + I2
    M[2, 2] = m3 * (sa**2 + sb**2) + I3
    M[3, 3] = m4 * (e - ea) ** 2 + I4
    M[4, 3] = M[3, 4] = m4 * ((e - ea) ** 2 + zt * (e - ea) * sin(ph)) + I4
    M[4, 4] = m4 * (zt**2 + 2 * zt * (e - ea) * sin(ph) + (e - ea) ** 2)
    M[4, 4] += m5 * (ta**2 + tb**2) + I4 + I5
    M[5, 5] = m6 * (zf - fa) ** 2 + I6
    M[6, 5] = M[5, 6] = m6 * ((zf - fa) ** 2 - u * (zf - fa) * sin(om)) + I6
    M[6, 6] = m6 * ((zf - fa) ** 2 - 2 * u * (zf - fa) * sin(om) + u**2)
    M[6, 6] += m7 * (ua**2 + ub**2) + I6 + I7
    xd, yd = sd * cos(ga) + sc * sin(ga) + d["B"][0], sd * sin(ga) - sc * cos(ga) + d["B"][1]
    length = np.hypot(xd - d["C"][0], yd - d["C"][1])
    force = -d["c0"] * (length - d["l0"]) / length
    fx, fy = force * (xd - d["C"][0]), force * (yd - d["C"][1])
    f = np.array(
        [
            d["drive"] - m2 * da * rr * thp * (thp + 2 * bep) * sin(th),
            m2 * da * rr * bep**2 * sin(th),
            fx * (sc * cos(ga) - sd * sin(ga)) + fy * (sd * cos(ga) + sc * sin(ga)),
            m4 * zt * (e - ea) * dep**2 * cos(ph),
            -m4 * zt * (e - ea) * php * (php + 2 * dep) * cos(ph),
            -m6 * u * (zf - fa) * epp**2 * cos(om),
            m6 * u * (zf - fa) * omp * (omp + 2 * epp) * cos(om),
        ]
    )
    G = np.zeros((6, 7))
    both, both_p = be + th, bep + thp
    for row in (0, 2, 4):
        G[row, :2] = -rr * sin(be) + dd * sin(both), dd * sin(both)
        G[row + 1, :2] = rr * cos(be) - dd * cos(both), -dd * cos(both)
    G[0, 2], G[1, 2] = -ss * cos(ga), -ss * sin(ga)
    G[2, 3:5] = -e * cos(ph + de), -e * cos(ph + de) + zt * sin(de)
    G[3, 3:5] = -e * sin(ph + de), -e * sin(ph + de) - zt * cos(de)
    G[4, 5:7] = zf * sin(om + ep), zf * sin(om + ep) - u * cos(ep)
    G[5, 5:7] = -zf * cos(om + ep), -zf * cos(om + ep) - u * sin(ep)
    x = -rr * cos(be) * bep**2 + dd * cos(both) * both_p**2
    z = -rr * sin(be) * bep**2 + dd * sin(both) * both_p**2
    fp, op = php + dep, omp + epp
    gamma = np.array(
        [
            x + ss * sin(ga) * gap**2,
            z - ss * cos(ga) * gap**2,
            x + e * sin(ph + de) * fp**2 + zt * cos(de) * dep**2,
            z - e * cos(ph + de) * fp**2 + zt * sin(de) * dep**2,
            x + zf * cos(om + ep) * op**2 + u * sin(ep) * epp**2,
            z + zf * sin(om + ep) * op**2 - u * cos(ep) * epp**2,
        ]
    )
    kkt = np.block([[M, G.T], [G, np.zeros((6, 6))]])
    size = np.concatenate([1 / np.sqrt(np.diag(M)), np.full(6, 1e-2)])
    solved = size * np.linalg.solve(kkt * np.outer(size, size), size * np.concatenate([f, -gamma]))
    return np.concatenate([y[7:], solved[:7]])


def governor(slider_joint: bool = True) -> tuple[pp.System, np.ndarray, np.ndarray, list]:
    """A05 with start and springs; the slider on a joint of the tree, or free with a constraint."""
    rho = 3000.0
    shaft_mass = rho * 1.0 * 0.01**2
    rod_mass = shaft_mass
    thin, thick = 0.01**2 / 6, (1 + 0.01**2) / 12
    b = pp.ModelBuilder(gravity=(0, 0, -9.81))
    b.add_body(
        "shaft",
        joint=pp.joints.Revolute(Z),
        inertia=pp.SpatialInertia(
            shaft_mass, (0, 0, 0.5), shaft_mass * np.array([thick, thick, thin])
        ),
    )
    cube = rho * 0.1**3
    mover = {"inertia": pp.SpatialInertia(cube, (0, 0, 0), cube * 0.01 / 6)}
    if slider_joint:
        b.add_body("slider", parent="shaft", joint=pp.joints.Prismatic(Z), **mover)
    else:
        b.add_body("slider", joint=pp.joints.Free(), **mover)
    moments = rod_mass * np.array([thin, thick, thick])
    springs = []
    for side, name in ((1, "right"), (-1, "left")):
        rod = pp.SpatialInertia(rod_mass, (side * 0.5, 0, 0), moments)
        ball = pp.SpatialInertia(5.0, (side * 1.0, 0, 0), 0)
        b.add_body(
            name,
            parent="shaft",
            joint=pp.joints.Revolute((0, side, 0)),
            placement=at(0.05 * side, 0, 1.0),
            inertia=rod + ball,
        )
        springs.append(
            pp.forces.PointSpring(
                (name, (0.5 * side, 0, 0)), ("slider", (0.05 * side, 0, 0)), 8e5, 0.5, 4e4
            )
        )
    model = b.build()
    q, v = model.neutral(), np.zeros(model.nv)
    for name in ("right", "left"):
        q[model.q_slice(name)] = np.deg2rad(30)
    v[model.v_slice("shaft")] = 2 * np.pi
    slide = []
    if slider_joint:
        q[model.q_slice("slider")] = 0.5
    else:
        q[model.q_slice("slider")] = [1, 0, 0, 0, 0, 0, 0.5]
        v[model.v_slice("slider")][2] = 2 * np.pi
        slide = [c.Prismatic(Z, name="slide", a="shaft", b="slider")]
    return pp.System(model, slide), q, v, springs


def stewart() -> tuple[pp.System, np.ndarray]:
    """Stewart platform: six legs (universal, slide) from the ground to a free plate, by balls."""
    b = pp.ModelBuilder()
    plate = pp.SpatialInertia(5.0, (0, 0, 0), (0.2, 0.2, 0.4))
    b.add_body("plate", joint=pp.joints.Free(), inertia=plate)
    loops = []
    for i in range(6):
        base = np.deg2rad(60 * (i // 2 * 2) + (10 if i % 2 else -10))
        top = np.deg2rad(60 * (i // 2 * 2) + (50 if i % 2 else -50))
        foot = np.array([np.cos(base), np.sin(base), 0])
        ball = 0.6 * np.array([np.cos(top), np.sin(top), 0])
        along = ball + [0, 0, 0.9] - foot
        along = along / np.linalg.norm(along)
        x = np.cross((0, 0, 1), along)
        x = x / np.linalg.norm(x)
        R = np.column_stack([x, np.cross(along, x), along])
        cylinder = pp.SpatialInertia(1.0, (0, 0, 0.25), (0.02, 0.02, 0.002))
        piston = pp.SpatialInertia(0.5, (0, 0, -0.25), (0.01, 0.01, 0.001))
        b.add_body(
            f"cylinder{i}",
            joint=pp.joints.Universal(X, Y),
            placement=pp.Pose(R, foot),
            inertia=cylinder,
        )
        b.add_body(
            f"piston{i}", parent=f"cylinder{i}", joint=pp.joints.Prismatic(Z), inertia=piston
        )
        loops.append(c.Spherical(name=f"ball{i}", a=f"piston{i}", b=("plate", ball)))
    model = b.build()
    q = model.neutral()
    q[model.q_slice("plate")] = [1, 0, 0, 0, 0, 0, 0.9]
    for i in range(6):
        q[model.q_slice(f"piston{i}")] = 1.0
    return pp.System(model, loops), q


def twin_gears() -> pp.System:
    """Two couplings of the same joints; the second asks for twice what the first asks for."""
    arm = pp.examples.planar_arm(3)
    first, second, _ = arm.joint_names
    return pp.System(
        arm,
        [
            c.Coupling(name="gear", joints=[first, second], coefficients=[1, -1]),
            c.Coupling(name="twin", joints=[first, second], coefficients=[2, -2]),
        ],
    )


BICYCLE = {"w": 1.02, "c": 0.08, "lambda": np.pi / 10, "g": 9.81, "rear": 0.3, "front": 0.35}


def bicycle() -> pp.System:
    """The benchmark bicycle of Meijaard, Papadopoulos, Ruina and Schwab (2007), z down.

    Each wheel has a tree of its own: a frame at its contact point that slides in the plane and
    turns about the vertical, leans, and carries the wheel's hub, with the wheel and the frame or
    fork on it. The contact frame does not turn with the wheel, so that a disc that rolls without
    slipping has constant rows: v_x + r (ω_wheel − ω_lean)_y = 0, v_y = 0. The steering axis closes
    the loop. Seven positions are free, three rates.
    """
    d = BICYCLE
    b = pp.ModelBuilder(gravity=(0, 0, d["g"]))
    loops: list[c.Constraint] = []
    nothing = pp.SpatialInertia(0, (0, 0, 0), 0)
    wheels = {
        "rear": (0.0, 2, (0.0603, 0.12, 0.0603)),
        "front": (d["w"], 3, (0.1405, 0.28, 0.1405)),
    }
    # mass, mass centre, moments about it (xx, yy, zz) and xz
    parts = {
        "rear": ("frame", 85, (0.3, -0.9), (9.2, 11, 2.8), 2.4),
        "front": ("fork", 4, (0.9, -0.7), (0.05892, 0.06, 0.00708), -0.00756),
    }
    ends = {}
    axis = np.array([np.sin(d["lambda"]), 0, np.cos(d["lambda"])])
    for end, (x, mass, moments) in wheels.items():
        hub, r = at(0, 0, -d[end]), d[end]
        contact, lean, wheel = (f"{end}_{part}" for part in ("contact", "lean", "wheel"))
        b.add_body(contact, joint=pp.joints.Planar(), placement=at(x), inertia=nothing)
        b.add_body(lean, parent=contact, joint=pp.joints.Revolute(X), inertia=nothing)
        spin = {"joint": pp.joints.Revolute(Y), "placement": hub, "parent": lean}
        b.add_body(wheel, inertia=pp.SpatialInertia(mass, (0, 0, 0), moments), **spin)
        name, mass, (x_com, z_com), moments, xz = parts[end]
        inertia = np.diag(np.array(moments, dtype=float))
        inertia[0, 2] = inertia[2, 0] = xz
        b.add_body(
            name, inertia=pp.SpatialInertia(mass, (x_com - x, 0, z_com + r), inertia), **spin
        )
        ends["ab"[end == "front"]] = (name, (d["w"] + d["c"] - x, 0, r))
        rows = np.zeros((2, 18))
        rows[0, [3, 7, 13]] = 1, -r, r
        rows[1, 4] = 1
        loops.append(
            c.Rows(name=f"{end}_rolls", points=[contact, lean, wheel], A=rows, axes="body")
        )
    loops.append(c.Revolute(axis, name="steering", **ends))
    return pp.System(b.build(), loops)


def riding(system: pp.System, speed: float) -> tuple[np.ndarray, np.ndarray]:
    """The state of the bicycle upright and straight on."""
    model, v = system.model, np.zeros(system.model.nv)
    for end in ("rear", "front"):
        v[model.v_slice(f"{end}_contact")] = [0, speed, 0]
        v[model.v_slice(f"{end}_wheel")] = -speed / BICYCLE[end]
    return model.neutral(), v


def bicycle_matrices() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """M, C1, K0, K2 of its equations for lean and steer, as published (eq. A.1–A.4).

    M ẍ + v C1 ẋ + (g K0 + v² K2) x = 0.
    """
    return (
        np.array([[80.81722, 2.31941332208709], [2.31941332208709, 0.29784188199686]]),
        np.array([[0, 33.86641391492494], [-0.85035641456978, 1.68540397397560]]),
        np.array([[-80.95, -2.59951685249872], [-2.59951685249872, -0.80329488458618]]),
        np.array([[0, 76.59734589573222], [0, 2.65431523794604]]),
    )


def on_ground(
    solid: pp.shapes.Sphere | pp.shapes.Box, mass: float = 1.0, **contacts: Any
) -> pp.System:
    """A free "ball" or "box" with a shape of that name over the plane z = 0."""
    builder = pp.ModelBuilder()
    if isinstance(solid, pp.shapes.Sphere):
        name, inertia = "ball", pp.SpatialInertia.sphere(solid.radius, mass=mass)
    else:
        name, inertia = "box", pp.SpatialInertia.box(solid.size, mass=mass)
    builder.add_body(name, joint=pp.joints.Free(), inertia=inertia)
    builder.add_shape(name, name, solid)
    model = builder.build()
    return pp.System(model, contacts=pp.Contacts(model, ground=True, **contacts))


def rolling_ball() -> pp.System:
    """A ball of 1 kg and 0.1 m over a plane with friction."""
    return on_ground(pp.shapes.Sphere(0.1))
