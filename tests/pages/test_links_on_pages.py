"""Every constraint and every force that couples bodies has a drawing, whoever adds one."""

import inspect
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose

import phipsi as pp
from phipsi import constraints as c
from phipsi.core.constraints.constraint import Constraint
from phipsi.pages.machine_parts import machines_of
from phipsi.pages.recorded_scene import recorded_scene
from phipsi.pages.scene import scene_description
from phipsi.simulation import forces
from phipsi.simulation.forces.force import Force, bind_forces

WHEEL = pp.SpatialInertia(1.0, (0, 0, 0), 0.01)


def machine_room():
    """Shafts beside each other, on each other and across, a slide, a planet, and a clock."""
    b = pp.ModelBuilder(gravity=(0, 0, -9.81))
    z, x = pp.joints.Revolute((0, 0, 1)), pp.joints.Revolute((1, 0, 0))
    for name, joint, place in (
        ("a", z, (0, 0, 0)), ("b", z, (0.3, 0, 0)), ("c", z, (0, 0, 0.4)), ("d", z, (0, 0, 0.8)),
        ("e", x, (0.5, 0, -0.2)), ("slide", pp.joints.Prismatic((1, 0, 0)), (0, 1, 0)),
    ):  # fmt: skip
        b.add_body(name, joint=joint, placement=pp.Pose(None, place), inertia=WHEEL)
    b.add_body("planet", parent="c", joint=z, placement=pp.Pose(None, (0.2, 0, 0)), inertia=WHEEL)
    b.add_clock()
    return b.build()


ENDS = {"a": "a", "b": ("world", (0, 0, 0))}
CONTACT = {"finger": "a", "object": "b"}
PAIR = c.Coupling(name="x", joints=("a", "b", "e"), coefficients=((1, 2, 0), (0, 1, 3)))
EXAMPLES = {
    **{n: lambda n=n: getattr(c, n)(name="x", **ENDS)
       for n in ("Weld", "Spherical", "Revolute", "Prismatic", "Cylindrical", "Universal", "Planar",
                 "PointOnLine", "PointOnPlane")},
    "PointOnCircle": lambda: c.PointOnCircle(name="x", a="a", b=("world", (1, 0, 0))),
    "Distance": lambda: c.Distance(1.0, name="x", a="a", b=("world", (1, 0, 0))),
    "Coupling": lambda: c.Coupling(name="x", joints=("a", "b", "slide"), coefficients=(1, 2, 3)),
    "PartlyLocked": lambda: PAIR.with_locked(machine_room(), {"b": 0.1}, machine_room()),
    "Gear": lambda: c.Gear(name="x", driver="a", driven="b", teeth=(20, 40)),
    "Planetary": lambda: c.Planetary(name="x", sun="a", ring="d", carrier="c", teeth=(20, 60)),
    "Differential": lambda: c.Differential(name="x", left="a", right="d", carrier="c"),
    "RackPinion": lambda: c.RackPinion(name="x", pinion="a", rack="slide", radius=0.1),
    "Screw": lambda: c.Screw(name="x", spindle="e", nut="slide", lead=0.02),
    "Belt": lambda: c.Belt(name="x", pulleys=("a", "b"), radii=(0.05, 0.1)),
    "Cam": lambda: c.Cam(lambda p, q, r: p * q - np.sin(r), name="x", joints=("a", "e", "slide")),
    "Motor": lambda: c.Motor(name="x", joint="a", angle=lambda t: t * t),
    "Rows": lambda: c.Rows(name="x", points=["a", "b"], A=np.eye(12)[:2] - np.eye(12)[6:8]),
    **{n: lambda n=n: getattr(pp.grasping, n)(name="x", **CONTACT)
       for n in ("Rigid", "Edge", "SoftFinger", "Point", "Frictionless", "SlidingFace")},
}  # fmt: skip


def classes_below(base):
    """All classes of the library that are made of it, as far as their modules are loaded."""
    for one in base.__subclasses__():
        if not inspect.isabstract(one) and one.__module__.startswith("phipsi."):
            yield one
        yield from classes_below(one)


ROOMS = {Constraint: (c, pp.grasping), Force: (forces,)}
"""What offers the classes; it loads them on first use."""


def concrete(base):
    """Names of the classes made of it that rooms offer, whatever was loaded before."""
    offered = [getattr(room, name) for room in ROOMS[base] for name in room.__all__]
    made = (x for x in classes_below(base) if not x.__subclasses__())
    return sorted({x.__name__ for x in made if x in offered})


@pytest.mark.parametrize("kind", concrete(Constraint))
def test_every_constraint_is_drawn(kind):
    """A joint between two frames by its ends; all others by solids, or by rods between joints."""
    model = machine_room()
    assert kind in EXAMPLES, f"{kind} is new: add an example, and see that pages draw it"
    one = EXAMPLES[kind]()
    assert type(one).__name__ == kind
    scene = scene_description(pp.System(model, [one]), q=np.zeros((1, model.nq)))
    (label,) = [x for x in scene["loops"] if x["name"] == "x"]
    found = [i for i, x in enumerate(scene["machines"]) if x["name"] == "x"]
    if one.closure(model).matrix is None:
        assert not found and len({end["body"] for end in label["ends"]}) == 2
        return
    (i,) = found
    machine = scene["machines"][i]
    solids = [x for x in scene["parts"] if x.get("machine") == i]
    assert solids or len(machine["ends"]) > 1
    assert (
        machine["text"] and machine["bodies"] and machine["rows"][1] == len(one.closure(model).rows)
    )
    rows = one.coordinates(model)
    assert len(machine["linear"]) == len(rows)
    q = np.arange(1.0, model.nq + 1)
    for row, (weights, offset) in zip(machine["linear"], rows, strict=True):
        assert_allclose(np.dot(row["by"], q[row["at"]]) - row["offset"], weights @ q - offset)


SPRINGS = {
    "ElasticCoupling": forces.ElasticCoupling(("a", "b"), (1, -2), stiffness=3.0, backlash=0.1),
    "Bushing": forces.Bushing("a", "b", 100.0),
    "TorsionSpring": forces.TorsionSpring("world", "a", 5.0),
    "PointSpring": forces.PointSpring("a", ("world", (0, 0, 1)), stiffness=5.0),
    "Rope": forces.Rope("a", ("world", (0, 0, 1)), 2.0, stiffness=5.0),
}
ON_ONE = {  # they act on single joints, or on bodies from nowhere
    "JointSpring", "JointDamper", "JointFriction", "StribeckFriction", "JointLimit", "GravityField",
    "Wrench", "WindDrag",
}  # fmt: skip


def test_the_classes_are_the_same_in_a_process_that_has_loaded_nothing_else():
    """Forces are loaded on first use: what other tests have used must not decide what is drawn."""
    here = Path(__file__)
    code = (
        f"import sys; sys.path.insert(0, {str(here.parent)!r}); import {here.stem} as t\n"
        "print(*t.concrete(t.Constraint), *t.concrete(t.Force))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [*concrete(Constraint), *concrete(Force)]
    assert {"JointLimit", "StribeckFriction", "Rope", "Belt", "SoftFinger"} <= {
        *done.stdout.split()
    }


def test_every_force_between_bodies_is_drawn():
    public = {x for x in concrete(Force) if hasattr(forces, x)}
    assert public == set(SPRINGS) | ON_ONE, "a new force: draw it, or say that it couples nothing"
    model = machine_room()
    given = list(SPRINGS.values())
    drawn = machines_of(model, (), given)
    assert len(drawn) == len(given)
    rigid = forces.Rope("b", ("world", (0, 0, 1)), 3.0)
    bound, still = bind_forces([*given, rigid], model), np.zeros((2, 8))
    run = pp.Trajectory(model, np.array([0.0, 0.1]), still, still, still, elements=bound)
    recorded = recorded_scene(run)["machines"]  # bound, many of a kind at once
    assert sorted(x["kind"] for x in recorded) == sorted([*(x.kind for x in drawn), "rope"])
    for x in drawn:
        assert x.parts or len(x.ends) == 2
    springs = [x for x in recorded if x["kind"] == "spring"]
    assert springs[0]["ends"][1] == {"body": -1, "position": [0, 0, 1]}


def test_a_coil_stands_beside_its_body_on_a_shaft_or_is_linked_to_the_others():
    model = machine_room()
    beside = forces.ElasticCoupling(("a", "b"), (2, -1), stiffness=3.0)
    (machine,) = machines_of(model, (), [beside])
    (part,) = machine.parts
    points = part.surface[0] @ part.pose.rotation.T + part.pose.translation
    face = np.sqrt(6 * 0.01) / 2 + 0.04 * np.sqrt(0.02)  # of the hub of the body, a wheel
    assert part.body == 0 and part.coil is not None
    outside = points[np.hypot(points[:, 0], points[:, 1]) > 0.1 * part.coil.length]
    assert outside[:, 2].min() > face - 0.05 * part.coil.length  # the wire; the shaft goes inside
    assert_allclose(points[:, 2].min(), 0.0, atol=1e-12)
    (first, end), (second, place) = machine.ends
    assert (first, second) == (-1, 1) and not place.any()
    assert_allclose(end, [0, 0, face + part.coil.length])


def test_links_of_joints_that_stand_alone_are_rings():
    """A relation of one joint, also one with time, is a ring about its axis on the carrier."""
    model = machine_room()
    lock = c.Coupling(name="lock", joints=("e",), coefficients=(1,))
    drive = c.Cam(lambda p, t: p - np.sin(t), name="drive", joints=("e",), clock="clock")
    for one in (lock, drive):
        (machine,) = machines_of(model, [one])
        (part,) = machine.parts
        assert part.body == -1 and not machine.ends
        points = part.surface[0] @ part.pose.rotation.T + part.pose.translation
        assert_allclose(points.mean(axis=0)[1:], [0, -0.2], atol=1e-12)
        assert points[:, 0].max() < 0.5 - np.sqrt(6 * 0.01) / 2 + 1e-9  # behind its body
        assert np.ptp(points[:, 0]) < np.ptp(points[:, 1])  # thin along the axis


@pytest.mark.parametrize("module", [None, 0.006])
def test_bevel_wheels_mesh_where_their_cones_touch(module):
    """A tooth of one wheel is where the other has a gap, wherever they turn; apexes are one."""
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, axis, place in (("p", (0, 0, -1), (0, 0, 0.2)), ("r", (0.6, 0, 0.8), (0.3, 0, 0.4))):
        where = pp.Pose(None, place)
        b.add_body(name, joint=pp.joints.Revolute(axis), placement=where, inertia=WHEEL)
    model = b.build()
    more = {} if module is None else {"module": module, "pressure_angle": 0.35}
    gear = c.Gear(name="g", driver="p", driven="r", teeth=(16, 24), offset=0.2, **more)
    (machine,) = machines_of(model, [gear])
    ratio = -gear.relations(model)["mesh"]["r"]
    place = machine.place[1]  # on the line of touch
    for angle in (0.0, 0.3, -2.0):
        near, heights = [], []
        for part in machine.parts:
            X = pp.poses(model, [ratio * angle + 0.2, angle])[part.body]
            points = part.surface[0] @ part.pose.rotation.T + part.pose.translation
            points = points @ X[:3, :3].T + X[:3, 3]
            back, front = np.split(points, 2)
            shrink = np.linalg.norm(front[0] - front[1]) / np.linalg.norm(back[0] - back[1])
            assert_allclose((front - shrink * back) / (1 - shrink), 0 * back, atol=1e-9)
            teeth = back[: (len(back) - 1) // 2].reshape(-1, 4, 3)
            tips = teeth[:, 1:3].mean(axis=1)
            axis = X[:3, :3] @ np.array(model.joints[part.body].params[:3])
            flat = [x - axis * (axis @ x) for x in (*tips, place)]
            turns = [np.arctan2(axis @ np.cross(flat[-1], x), flat[-1] @ x) for x in flat[:-1]]
            at = turns[int(np.argmin(np.abs(turns)))] * len(tips) / (2 * np.pi)
            near.append(at * np.sign(axis @ np.cross(flat[-1], [0, 1, 0])))
            along = np.abs(teeth @ axis) / np.linalg.norm(teeth, axis=-1)
            heights.append(np.arccos(along)[0])  # angles from the axis: root, tip, tip, root
        assert_allclose((near[0] - near[1]) % 1.0, 0.5, atol=1e-9)
        between = np.arccos(0.8)  # tips are above the roots of the other, and below its tips
        for a, b in (heights, heights[::-1]):
            assert a[1] + b[0] < between - 1e-3 and a[1] + b[1] > between + 1e-3
    wrong = c.Gear(name="g", driver="p", driven="r", ratio=-ratio)  # the twin: cones cannot
    assert (
        not machines_of(model, [wrong])[0].parts and len(machines_of(model, [wrong])[0].ends) == 2
    )


def test_arrows_of_teeth_and_belts_stand_where_they_touch():
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, x in (("motor", 0.0), ("drum", 0.5)):
        b.add_body(name, placement=pp.Pose(None, (x, 0, 0)), inertia=WHEEL)
    both = {"name": "belt", "pulleys": ("motor", "drum"), "radii": (0.1, 0.1)}
    names = []
    for more in ({"tension": 40.0}, {"tension": 0.0}, {}):
        system = pp.System(b.build(), [c.Belt(**both, **more)])
        still, tau = np.zeros((2, 2)), np.array([[3.0, -3.0]] * 2)  # in balance
        run = pp.Trajectory(system.model, np.array([0, 0.1]), still, still, tau, system=system)
        scene = recorded_scene(run)
        names.append([x for group in scene["arrows"] for x in group["labels"]])
        slack = [x for x in scene["notices"] if "slack" in x]
        assert bool(slack) is (more == {"tension": 0.0})
    assert names[0].count("belt") == names[2].count("belt") + 4 and not names[1]


def test_a_clutch_is_drawn_while_it_is_engaged(monkeypatch):
    monkeypatch.setenv("PHIPSI_BACKEND", "reference")
    b = pp.ModelBuilder(gravity=(0, 0, 0))
    for name, x in (("motor", 0.0), ("drum", 0.5)):
        b.add_body(name, placement=pp.Pose(None, (x, 0, 0)), inertia=WHEEL)
    top, model = pp.topology, b.build()
    clutch = c.Coupling(name="clutch", joints=("motor", "drum"), coefficients=(1, -3))
    pair = c.Gear(name="pair", driver="motor", driven="drum", ratio=-3.0)
    spring = forces.ElasticCoupling(("motor", "drum"), (1, 1), stiffness=0.01)
    run = pp.simulate(
        pp.System(model), [0.0, 0.0], [3.0, 0.0], 0.4, integrator="rk4", dt=0.02, forces=[spring],
        events=[top.at(0.1, top.Attach(clutch, as_is=True)), top.at(0.2, top.Detach("clutch")),
                top.at(0.3, top.Attach(pair, as_is=True))],
    )  # fmt: skip
    scene = recorded_scene(run)
    coil, link, gear = scene["machines"]
    assert_allclose(link["shown"], [[0.1, 0.2]], rtol=1e-12)
    assert_allclose(gear["shown"], [[0.3, 0.4]], rtol=1e-12)
    assert len(link["ends"]) == 2
    assert coil["kind"] == "elastic coupling" and coil["value"] == "twist"
    parts = [x for x in scene["parts"] if x["machine"] == 2]
    assert parts and all(x["shown"] == gear["shown"] for x in parts)
    assert {x["body"] for x in scene["solids"]} >= {0, 1}  # wheels have their own shape besides
    labels = {x["name"]: x["shown"] for x in scene["loops"] if "shown" in x}
    assert labels == {"clutch": link["shown"], "pair": gear["shown"]}
