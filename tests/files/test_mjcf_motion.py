"""What an MJCF file says beyond the mechanism, against MuJoCo: friction, ground, flags, warnings.

Every line that a warning gives to paste is run, and the accelerations are MuJoCo's.
"""

import struct
import warnings
import zlib
from pathlib import Path

import gymnasium
import mujoco
import numpy as np
import pytest
from robot_files import mjcf_file as written, pasted as made

import phipsi as pp
from phipsi.core.model.model import Model
from phipsi.errors import FileError, ModelError, PhipsiWarning
from phipsi.files.conventions import to_mujoco
from phipsi.files.load import load
from phipsi.files.mjcf import checked_files

ASSETS = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
BALL = '<geom size="0.1"/>'


def quiet(path: Path, **options) -> Model:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)
        return load(path, **options)


def one(path: Path, words: str):
    """The one problem of a file, which `load` warns of."""
    with pytest.warns(PhipsiWarning, match=words):
        model = load(path)
    (finding,) = (f for f in model.diagnosis if f.is_problem)
    return model, finding


# ---- friction of pairs ---------------------------------------------------------------------------


def balls(rng: np.random.Generator) -> str:
    """Balls that all overlap, with every number that decides how two of them rub."""
    out = ""
    for i in range(7):
        friction = " ".join(str(x) for x in rng.uniform(-0.1, 1, 3).round(3))
        geom = (
            f'<geom name="g{i}" size="5" friction="{friction}" condim="{rng.choice([1, 3, 4, 6])}" '
            f'priority="{rng.choice([0, 0, 0, 1, 2])}"/>'
        )
        out += geom if i == 0 else f'<body name="b{i}"><freejoint/>{geom}</body>'
    return out


def rubbing(peer: mujoco.MjModel) -> dict[frozenset[str], tuple[float, ...]]:
    """What MuJoCo computes for every contact: friction, torsion and rolling that act."""
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    out = {}
    for k in range(data.ncon):
        names = frozenset(peer.geom(int(i)).name for i in data.contact.geom[k])
        acting = data.contact.dim[k] > np.array([1, 3, 4])
        out[names] = tuple(np.where(acting, data.contact.friction[k][[0, 2, 3]], 0.0))
    return out


def ours(model: Model, **options) -> dict[frozenset[str], tuple[float, ...]]:
    return {
        frozenset((p.a.name, p.b.name)): (
            p.material.friction,
            p.material.torsional_friction,
            p.material.rolling_friction,
        )
        for p in pp.Contacts(model, **options).pairs
    }


OVERRIDE = '<option o_friction="0.7 0.7 0.2 0.1 0.1"><flag override="enable"/></option>'
PAIR = '<contact><pair geom1="g1" geom2="g2" friction="0.4 0.4 0.3 0.2 0.2" condim="4"/></contact>'


@pytest.mark.parametrize("head", ["", PAIR, OVERRIDE + PAIR])
def test_every_pair_rubs_as_in_mujoco(tmp_path: Path, head: str):
    rng = np.random.default_rng(0)
    for _ in range(5):
        path = written(tmp_path, balls(rng), head=head)
        found, theirs = ours(load(path)), rubbing(mujoco.MjModel.from_xml_path(str(path)))
        assert found.keys() == theirs.keys() and len(found) == 21
        for names, numbers in theirs.items():  # MuJoCo's least friction is 1e-5, ours 0
            np.testing.assert_allclose(found[names], numbers, rtol=0, atol=1.001e-5)


GYMNASIUM = ("ant", "half_cheetah", "hopper", "humanoid", "humanoidstandup", "walker2d")


@pytest.mark.parametrize("name", GYMNASIUM)
def test_files_of_gymnasium_rub_as_in_mujoco(name: str):
    path = ASSETS / f"{name}.xml"
    model, peer = quiet(path), mujoco.MjModel.from_xml_path(str(path))
    floor = mujoco.mj_name2id(peer, mujoco.mjtObj.mjOBJ_GEOM, "floor")
    for frame in range(40):  # drop it into the ground until every geom has touched it
        data = mujoco.MjData(peer)
        data.qpos[2 if peer.jnt_type[0] == 0 else 1] -= 0.05 * frame
        mujoco.mj_forward(peer, data)
        with_floor = [k for k in range(data.ncon) if floor in data.contact.geom[k]]
        if len({int(max(data.contact.geom[k])) for k in with_floor}) == peer.ngeom - 1:
            break
    theirs = {
        int(max(data.contact.geom[k])): data.contact.friction[k][0] * (data.contact.dim[k] > 1)
        for k in range(data.ncon)
        if floor in data.contact.geom[k]
    }
    found = {p.a.name: p.material.friction for p in pp.Contacts(model).pairs if p.b.name == "floor"}
    shapes = [shape.name for shape in pp.Contacts(model).shapes]
    assert len(found) == len(theirs) >= 4
    for k, friction in theirs.items():
        assert found[shapes[k]] == friction
    wanted = {"hopper": {1.0, 2.0}, "humanoid": {1.0}, "walker2d": {0.9, 1.9}}
    assert set(found.values()) == wanted.get(name, set(found.values()))


def test_a_rule_of_the_user_replaces_that_of_the_file(tmp_path: Path):
    inside = (
        '<geom name="floor" type="plane" size="0 0 1" friction="0.4" priority="3"/>'
        '<body name="a"><freejoint/><geom name="a" size="0.1" friction="0.9" condim="1"/></body>'
    )
    model = load(written(tmp_path, inside))
    (pair,) = pp.Contacts(model).pairs
    assert pair.material == pp.Material(0.4)  # the floor has the higher priority
    (pair,) = pp.Contacts(model, combine="geometric").pairs
    assert pair.material.friction == pytest.approx(0.6)
    mixed = model.with_shape("own", "a", pp.shapes.Sphere(0.2), material=pp.Material(2.0))
    found = {p.name: p.material.friction for p in pp.Contacts(mixed).pairs}
    assert found == {"own|floor": 0.4, "a|floor": 0.4}
    ball = written(tmp_path, '<body name="a"><freejoint/><geom name="a" size="0.1"/></body>')
    (pair,) = pp.Contacts(load(ball), ground=True).pairs
    assert pair.material.friction == 1.0  # MuJoCo's rule: the larger of 1 and 0.5


def test_friction_of_two_directions_is_told(tmp_path: Path):
    inside = (
        '<geom name="floor" type="plane" size="0 0 1"/><body name="a" pos="0 0 1"><freejoint/>'
        '<geom name="a" size="0.1"/></body>'
    )
    pair = '\n<contact><pair name="p" geom1="a" geom2="floor" friction="0.2 0.7"/></contact>'
    model, finding = one(written(tmp_path, inside, head=pair), "0.2 and 0.7 in two directions")
    assert (finding.element, finding.line) == ("pair 'p'", 2)
    assert pp.Contacts(model).pairs[0].material.friction == 0.2
    option = '<option o_friction="0.5 0.6"><flag override="enable"/></option>'
    _, finding = one(written(tmp_path, inside, head=option), "0.5 and 0.6 in two directions")
    assert finding.element == "<option>"


# ---- height fields -------------------------------------------------------------------------------


def ground_heights(model: Model, peer: mujoco.MjModel, rng: np.random.Generator) -> None:
    """A small ball of ours over the field, and MuJoCo's rays."""
    data = mujoco.MjData(peer)
    mujoco.mj_forward(peer, data)
    contacts = pp.Contacts(model)
    (pair,) = contacts.pairs
    field = pair.b.shape
    assert isinstance(field, pp.shapes.HeightField)
    heights, (dx, dy), X = np.array(field.heights), field.spacing, pair.b.placement
    n, m = heights.shape
    geom = np.zeros(1, np.int32)
    for x, y in rng.uniform(0.01, 0.99, (40, 2)) * [n - 1, m - 1]:
        i, j = int(x), int(y)
        fx, fy = x - i, y - j
        a, b, c, d = (heights[i + s, j + t] for s, t in ((0, 0), (1, 0), (0, 1), (1, 1)))
        z = a + fx * (b - a) + fy * (d - b) if fx > fy else a + fy * (c - a) + fx * (d - c)
        at = np.array([(x - (n - 1) / 2) * dx, (y - (m - 1) / 2) * dy, 9.0])
        start, up = X.rotation @ at + X.translation, X.rotation[:, 2]
        only_ground = np.array([1, 0, 0, 0, 0, 0], np.uint8)
        ray = mujoco.mj_ray(peer, data, start, -up, only_ground, 1, -1, geom)
        assert ray == pytest.approx(9.0 - z, abs=1e-5)  # its heights are in single precision


def gray_png(pixels: np.ndarray) -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        check = zlib.crc32(kind + data)
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", check)

    rows = b"".join(b"\0" + row.tobytes() for row in pixels)
    head = struct.pack(">IIBBBBB", pixels.shape[1], pixels.shape[0], 8, 0, 0, 0, 0)
    parts = chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + parts


def field_file(folder: Path, asset: str) -> Path:
    inside = (
        '<geom name="hills" type="hfield" hfield="h" pos="0.3 -0.2 0.1" euler="0 10 20" '
        'friction="0.3" condim="4"/><body name="a" pos="0 0 3"><freejoint/><geom name="a" '
        'size="0.1" group="1" friction="0.2"/></body>'
    )
    return written(folder, inside, head=f"<asset>{asset}</asset>")


@pytest.mark.parametrize("shape", [(3, 5), (2, 2), (2, 4)])
def test_height_fields_are_those_of_mujoco(tmp_path: Path, shape: tuple[int, int]):
    rng = np.random.default_rng(1)
    numbers = " ".join(map(str, rng.uniform(1, 4, shape).ravel()))
    rows, columns = shape
    sizes = f'nrow="{rows}" ncol="{columns}" size="2 1.5 0.8 0.1"'
    path = field_file(tmp_path, f'<hfield name="h" {sizes} elevation="{numbers}"/>')
    model = load(path)
    ground_heights(model, mujoco.MjModel.from_xml_path(str(path)), rng)
    assert pp.Contacts(model).pairs[0].material == pp.Material(0.3, torsional_friction=0.005)
    again = Model.from_dict(model.to_dict())
    assert pp.Contacts(again) == pp.Contacts(model)


def test_height_fields_of_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    rng = np.random.default_rng(2)
    heights = rng.uniform(0, 1, (4, 3)).astype("<f4")
    (tmp_path / "hills.bin").write_bytes(struct.pack("<ii", 4, 3) + heights.tobytes())
    path = field_file(tmp_path, '<hfield name="h" file="hills.bin" size="2 1.5 0.8 0.1"/>')
    ground_heights(load(path), mujoco.MjModel.from_xml_path(str(path)), rng)
    (tmp_path / "hills.png").write_bytes(gray_png(rng.integers(0, 255, (5, 4), dtype=np.uint8)))
    path = field_file(tmp_path, '<hfield file="hills.png" name="h" size="2 1.5 0.8 0.1"/>')
    ground_heights(load(path), mujoco.MjModel.from_xml_path(str(path)), rng)
    monkeypatch.setattr(checked_files, "MAX_FIELD_POINTS", 19)
    with pytest.raises(FileError, match="hfield 'h': the height fields .* more than 19 points"):
        load(path)


def test_a_ball_rests_on_a_height_field_of_a_file(tmp_path: Path):
    flat = '<hfield name="h" nrow="3" ncol="3" size="1 1 1 1" elevation="0 0 0 0 0 0 0 0 1"/>'
    inside = (
        '<geom type="hfield" hfield="h"/><body name="a" pos="-0.5 -0.5 0.15"><freejoint/>'
        f"{BALL}</body>"
    )
    model = load(written(tmp_path, inside, head=f"<asset>{flat}</asset>"))
    system = pp.System(model, contacts=pp.Contacts(model))
    sim = pp.Simulator(system, dt=5e-3, integrator="time_stepping")
    run = sim.rollout(sim.initial_state(model.neutral()), steps=100)
    assert run.q[-1, 6] == pytest.approx(-0.05, abs=1e-6)  # fell by 5 cm, to its radius


# ---- joints --------------------------------------------------------------------------------------

HIPS = (
    '<body name="a"><joint name="x" axis="1 0 0" frictionloss="0.3" actuatorfrcrange="-1 3"/>'
    '<joint name="y" axis="0 1 0" frictionloss="0.7"/>' + BALL + "</body>"
)


def test_joints_of_one_body_keep_their_friction_and_efforts(tmp_path: Path):
    model = load(written(tmp_path, HIPS))
    rating = model.joint_properties["x+y"]
    assert (rating.friction, rating.effort) == ((0.3, 0.7), (3.0, np.inf))
    assert rating.lower_effort == (-1.0, -np.inf)
    (friction,) = pp.forces.from_model(model, exact=True)
    assert list(friction.friction) == [0.3, 0.7]
    assert Model.from_dict(model.to_dict()).joint_properties == model.joint_properties
    cut = pp.control.Saturated(lambda t, q, v: [-5.0, -5.0], model)
    assert cut(0.0, np.zeros(2), np.zeros(2)).tolist() == [-1.0, -5.0]
    assert cut.saturated.tolist() == [1, 0]
    cut = pp.control.Saturated(lambda t, q, v: [5.0, 5.0], model)
    assert cut(0.0, np.zeros(2), np.zeros(2)).tolist() == [3.0, 5.0]


def test_uneven_efforts_act_in_compiled_runs(tmp_path: Path):
    model = load(written(tmp_path, HIPS)).with_gravity((0, 0, 0))
    pull = pp.control.Saturated(pp.control.PDGravity(model, model.neutral(), 1e3, 0.0), model)
    sim = pp.Simulator(model, [pull], dt=1e-4)
    run = sim.rollout(sim.initial_state([1.0, 0.0]), steps=1, record=("q", "tau"))
    assert run["tau"][0].round(9).tolist() == [-1.0, 0.0]


def test_limits_beside_a_ball_joint_are_kept(tmp_path: Path):
    inside = (
        '<body name="a"><joint name="s" type="slide" axis="1 0 0" range="-0.5 0.7"/>'
        f'<joint name="b" type="ball"/>{BALL}</body>'
    )
    model = load(written(tmp_path, inside))
    assert model.joint("s").limits == ((-0.5,), (0.7,)) and model.joint("b").joint.nv == 3


FLAGS = {
    "equality": lambda model: not model.constraints,
    "constraint": lambda model: (
        not model.constraints
        and not np.isfinite(model.upper).any()
        and not model.joint_properties["i"].friction
        and not pp.Contacts(model).pairs
    ),
    "damper": lambda model: not model.damping.any(),
    "frictionloss": lambda model: not model.joint_properties["i"].friction,
    "limit": lambda model: not np.isfinite(model.upper).any(),
    "contact": lambda model: not pp.Contacts(model).pairs,
    "filterparent": lambda model: len(pp.Contacts(model).pairs) == 6,
    "spring": lambda model: all("spring" not in f.message for f in model.diagnosis),
    "actuation": lambda model: all("ctrl" not in f.message for f in model.diagnosis),
}


@pytest.mark.parametrize("flag", FLAGS)
def test_what_a_flag_switches_off_is_not_there(tmp_path: Path, flag: str):
    inside = (
        '<geom name="floor" size="5"/><body name="a"><joint name="i" damping="1" range="-1 1" '
        'frictionloss="0.2" stiffness="3"/><geom name="a" size="5"/><body name="b"><joint '
        'name="j"/><geom name="b" size="5"/><body name="c"><joint name="k"/><geom name="c" '
        'size="5"/></body></body></body>'
    )
    head = (
        '<equality><joint name="e" joint1="i" joint2="j"/></equality>'
        '<actuator><motor joint="i"/></actuator><option><flag {}/></option>'
    )
    path = written(tmp_path, inside, head=head.format(f'{flag}="disable"'))
    model = quiet(path)
    assert FLAGS[flag](model)
    theirs = rubbing(mujoco.MjModel.from_xml_path(str(path)))
    assert {frozenset((p.a.name, p.b.name)) for p in pp.Contacts(model).pairs} == theirs.keys()
    assert not FLAGS[flag](quiet(written(tmp_path, inside, head=head.format('energy="enable"'))))


# ---- what is left out, and what to write instead -------------------------------------------------


def passive(model: Model, lines: list[str], q: np.ndarray, v: np.ndarray) -> np.ndarray:
    """Accelerations with the damping of the model, and what the warnings say to write."""
    laws = [made(line) for line in lines]
    sim = pp.Simulator(model, [*pp.forces.from_model(model), *laws], dt=1e-6)
    run = sim.rollout(sim.initial_state(q, v), steps=1, record=("q", "vdot"))
    return to_mujoco(model, q, v, run["vdot"][0]).vdot


PASSIVE = {
    "spring": '<joint name="j" stiffness="5" springref="20"/>',
    "polynomial spring": '<joint name="j" stiffness="0 5 7" springref="10"/>',
    "polynomial damping": '<joint name="j" damping="1 2 3"/>',
    "springs of two joints": '<joint name="i" axis="1 0 0" stiffness="2 3 1" springref="30"/>'
    '<joint name="j" axis="0 1 0" stiffness="5" damping="0.1 0.2"/>',
    "polynomial damping of a ball joint": '<joint name="j" type="ball" damping="0.1 0.2 0.3"/>',
    "slide and ball": '<joint name="i" type="slide" axis="1 0 0" stiffness="2"/>'
    '<joint name="j" type="ball" stiffness="3" damping="0.1 0.2"/>',
    "spring of a ball joint": '<joint name="j" type="ball" stiffness="3"/>',
    "slide with a reference": '<joint name="j" type="slide" ref="0.3" springref="0.1" '
    'stiffness="4"/>',
}


@pytest.mark.parametrize("case", PASSIVE)
def test_what_to_write_for_springs_and_dampers_is_what_mujoco_does(tmp_path: Path, case: str):
    inside = f'<body name="a">\n{PASSIVE[case]}<geom size="0.1" pos="0.2 0.1 0.3" mass="1"/></body>'
    path = written(tmp_path, inside)
    with pytest.warns(PhipsiWarning, match=r"robot\.xml:4: joint '[ij]': its "):
        model = load(path)
    lines = [f.message.rpartition("\n")[2].strip() for f in model.diagnosis if f.is_problem]
    rng = np.random.default_rng(5)
    peer = mujoco.MjModel.from_xml_path(str(path))
    for _ in range(3):
        q, v = model.random_configuration(rng), rng.normal(size=model.nv)
        state = to_mujoco(model, q, v)
        data = mujoco.MjData(peer)
        data.qpos, data.qvel = state.q, state.v
        mujoco.mj_forward(peer, data)
        np.testing.assert_allclose(passive(model, lines, q, v), data.qacc, rtol=1e-7, atol=1e-7)
        bare = to_mujoco(model, q, v, pp.forward_dynamics(model, q, v, -model.damping * v)).vdot
        assert np.abs(bare - data.qacc).max() > 1e-2  # it does change the motion


ACTUATORS = {
    "motor": ('<motor name="m" joint="j" gear="150"/>', 0.3),
    "servo": ('<position name="m" joint="j" kp="20" kv="2" gear="3"/>', 0.3),
    "in a composite": ('<general name="m" joint="k" gainprm="4" biastype="affine" '
                       'biasprm="1 -2 -3"/>', 0.5),
    "control range": ('<motor name="m" joint="j" gear="5" ctrlrange="-6 6"/>', 30.0),
    "no control range": ('<motor name="m" joint="j" ctrllimited="false" ctrlrange="-6 6"/>', 30.0),
    "force range": ('<position name="m" joint="j" kp="90" gear="3" forcerange="-20 2"/>', 5.0),
    "both, composite": ('<position name="m" joint="k" kp="9" kv="3" gear="2" ctrlrange="-1 1" '
                        'forcerange="-4 20"/>', -7.0),
    "neither reached": ('<position name="m" joint="k" kp="9" kv="3" gear="2" ctrlrange="-1 1" '
                        'forcerange="-40 40"/>', 0.2),
    "unclamped by a flag": ('<motor name="m" joint="j" ctrlrange="-6 6"/></actuator><option>'
                            '<flag clampctrl="disable"/></option><actuator>', 30.0),
    "range of the joint": ('<motor name="m" joint="h" gear="5"/>', -3.0),
}  # fmt: skip


@pytest.mark.parametrize("case", ACTUATORS)
def test_what_to_write_for_an_actuator_is_what_mujoco_does(tmp_path: Path, case: str):
    text, ctrl = ACTUATORS[case]
    inside = (
        f'<body name="a"><joint name="j" axis="0 1 0"/>{BALL}<body name="b" pos="0.3 0 0">'
        f'<joint name="i" axis="1 0 0"/><joint name="k" axis="0 1 0"/>{BALL}</body></body>'
        f'<body name="c"><joint name="h" axis="0 1 0" actuatorfrcrange="-4 1"/>{BALL}</body>'
    )
    path = written(tmp_path, inside, head=f"\n<actuator>\n{text}</actuator>")
    model, finding = one(path, r"robot\.xml:3: actuator 'm': it is not part of the model")
    line = finding.message.rpartition("\n")[2].strip().replace("ctrl=0.0", f"ctrl={ctrl}")
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos, data.qvel, data.ctrl = [0.2, 0.4, 0.6, 0.1], [0.3, -0.5, 0.8, 0.2], ctrl
    mujoco.mj_forward(peer, data)
    found = passive(model, [line], np.array(data.qpos), np.array(data.qvel))
    np.testing.assert_allclose(found, data.qacc, rtol=1e-7)


def test_a_limit_that_actuators_of_a_joint_share_is_told(tmp_path: Path):
    inside = f'<body name="a"><joint name="j" actuatorfrcrange="-4 1"/>{BALL}</body>'
    head = '<actuator><motor joint="j"/><motor joint="j" gear="2"/></actuator>'
    for finding in quiet(written(tmp_path, inside, head=head)).diagnosis:
        assert "limits the sum of the actuators of this joint to -4.0, 1.0" in finding.message
        assert "np.clip" not in finding.message


@pytest.mark.parametrize("name", ["half_cheetah", "humanoid", "point"])
def test_files_of_gymnasium_accelerate_as_in_mujoco_with_what_the_findings_say(name: str):
    path = ASSETS / f"{name}.xml"
    model, peer = quiet(path), mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit
    peer.opt.disableflags |= int(off.mjDSBL_CONTACT) | int(off.mjDSBL_LIMIT)
    lines = [f.message.rpartition("\n")[2].strip() for f in model.diagnosis]
    lines = [x for x in lines if x.startswith(("pp.law", "pp.forces.JointSpring"))]
    laws = [made(x.replace("ctrl=0.0", "ctrl=0.2")) for x in lines]
    elements = [x for x in pp.forces.from_model(model) if not isinstance(x, pp.forces.JointLimit)]
    with pytest.warns(PhipsiWarning, match="the floor of the robot file.* does not act"):
        sim = pp.Simulator(model, [*elements, *laws], dt=1e-6)
    rng = np.random.default_rng(6)
    data = mujoco.MjData(peer)
    q, v = model.random_configuration(rng), rng.normal(size=model.nv)
    data.qpos, data.qvel, *_ = to_mujoco(model, q, v)
    data.ctrl = 0.2
    mujoco.mj_forward(peer, data)
    run = sim.rollout(sim.initial_state(q, v), steps=1, record=("q", "vdot"))
    found = to_mujoco(model, q, v, run["vdot"][0]).vdot
    np.testing.assert_allclose(found, data.qacc, rtol=0, atol=1e-11 * np.abs(data.qacc).max())


def test_gravity_compensation_can_be_written_as_the_warning_says(tmp_path: Path):
    inside = (
        '<body name="a"><joint name="j" axis="0 1 0" pos="0 0 0.1"/><geom size="0.1" '
        'pos="0.3 0 0"/><body name="b" pos="0.5 0 0" gravcomp="0.7"><joint name="k" '
        'axis="0 1 0" pos="0.1 0 0"/><geom size="0.2" pos="0.2 0 0.1"/></body></body>'
    )
    path = written(tmp_path, inside)
    model, finding = one(path, "body 'b': gravity compensation")
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos = [0.2, 0.4]
    mujoco.mj_forward(peer, data)
    line = finding.message.rpartition("\n")[2].strip()
    found = passive(model, [line], np.array(data.qpos), np.zeros(2))
    np.testing.assert_allclose(found, data.qacc, rtol=1e-7)


def test_the_range_of_a_ball_joint_is_told_and_can_be_written(tmp_path: Path):
    inside = (
        '<body name="a">\n<joint name="b" type="ball" range="0 40" damping="0.5"/>'
        '<geom size="0.1" pos="0 0 0.3"/></body>'
    )
    model, finding = one(written(tmp_path, inside), r"robot\.xml:4: joint 'b': its range")
    stop = made(finding.message.rpartition("\n")[2].strip())
    start = np.array([np.cos(0.05), np.sin(0.05), 0, 0])
    for laws, beyond in (([stop], 0.05), ([], 1.0)):
        sim = pp.Simulator(model, [*pp.forces.from_model(model), *laws], dt=2e-3)
        run = sim.rollout(sim.initial_state(start), steps=800)
        turn = 2 * np.arccos(np.clip(np.abs(run.q[:, 0]), 0, 1)).max()
        assert (turn < np.deg2rad(40) + 0.1) == bool(laws) and turn > np.deg2rad(40) - 0.01
        assert turn > np.deg2rad(40) + beyond or laws


LEFT_OUT = {
    "free friction": ('<body name="a">\n<joint name="f" type="free" frictionloss="0.4"/>'
                      f"{BALL}</body>", "", "f", 4, "frictionloss acts along the axes"),
    "limit softness": ('<body name="a"><joint name="j" range="-1 1"\nsolreflimit="0.1 1"/>'
                       f"{BALL}</body>", "", "", 3, "solreflimit or solimplimit of 1 joint"),
    "limit margin": ('<body name="a"><joint name="j" range="-1 1" margin="0.1"/>'
                     f"{BALL}</body>", "", "", 3, "margin of 1 joint"),
    "friction softness": ('<body name="a"><joint name="j" frictionloss="1" '
                          f'solreffriction="0.1 1"/>{BALL}</body>', "", "", 3, "solreffriction"),
    "contact softness": ('<body name="a"><joint name="j"/><geom size="1"/></body>',
                         '<default>\n<geom solref="0.1 1"/></default>', "", 2, "1 geom"),
    "contact margin": ('<body name="a"><joint name="j"/><geom size="1" margin="1"/></body>',
                       "", "", 3, "margin of 1 geom"),
    "adhesion": ('<body name="a"><joint name="j"/><geom size="1" adhesion="1"/></body>',
                 "", "", 3, "adhesion"),
    "conveyor": ('<body name="a"><joint name="j"/><geom size="1" surfacevel="1 0 0"/></body>',
                 "", "", 3, "surfacevel"),
    "tendon": ('<body name="a"><joint name="j"/><geom size="1"/></body>',
               '\n<tendon>\n<fixed name="t" damping="1" armature="2"><joint joint="j" coef="1"/>'
               "</fixed></tendon>", "t", 3, "its damping and armature are not part"),
    "tendon limits": ('<body name="a"><joint name="j"/><geom size="1"/></body>',
                      '\n<tendon>\n<fixed range="-1 1"><joint joint="j" coef="1"/></fixed>'
                      "</tendon>", "", 3, "its limits are not part"),
    "equality softness": ('<body name="a"><joint name="j"/><geom size="1"/></body>'
                          '<body name="b"><joint name="i"/><geom size="1"/></body>',
                          '\n<equality><joint name="e" joint1="i" joint2="j" solref="0.1 1"/>'
                          "</equality>", "e", 2, "holds exactly here"),
    "fluid": ('<body name="a"><joint name="j"/><geom size="1"/></body>',
              '\n\n<option density="1.2" wind="1 0 0"/>', "", 3, "the fluid"),
}  # fmt: skip


@pytest.mark.parametrize("case", LEFT_OUT)
def test_what_changes_the_motion_and_is_left_out_is_told(tmp_path: Path, case: str):
    inside, head, name, line, words = LEFT_OUT[case]
    path = written(tmp_path, inside, head=head)
    _, finding = one(path, words)
    assert (finding.body, finding.line) == (name, line)
    last = finding.message.rpartition("\n    ")[2] if "\n    " in finding.message else ""
    if last.startswith("pp."):
        assert isinstance(made(last), pp.forces.Force)
    with pytest.raises(ModelError, match="strict=True"):
        load(path, strict=True)


def test_armature_and_damping_of_an_actuator_are_told(tmp_path: Path):
    inside = f'<body name="a"><joint name="j" axis="0 1 0"/>{BALL}</body>'
    head = '<actuator><motor joint="j" gear="3" armature="0.5" damping="0.7"/></actuator>'
    path = written(tmp_path, inside, head=head)
    model = quiet(path)
    message = model.diagnosis[-1].message
    assert "armature and damping are not" in message
    added = message[message.index("<joint ") + 7 : -2]  # what it says to add to the joint
    path.write_text(path.read_text().replace('name="j" axis', f'name="j" {added} axis'))
    again, peer = quiet(path), mujoco.MjModel.from_xml_string(
        path.read_text().replace(added, "")
    )  # fmt: skip
    data = mujoco.MjData(peer)
    data.qvel = [0.3]
    mujoco.mj_forward(peer, data)
    found = passive(again, [], np.zeros(1), np.array([0.3]))
    np.testing.assert_allclose(found, data.qacc, rtol=1e-9)


def test_a_file_without_any_of_it_has_no_findings(tmp_path: Path):
    inside = (
        '<geom type="plane" size="0 0 1"/><body name="a" pos="0 0 1"><freejoint/><geom size="0.1" '
        'friction="0.5 0.01 0.001" condim="6" priority="2"/><body name="b"><joint name="j" '
        'range="-1 1" damping="0.2" frictionloss="0.1" armature="0.1"/><geom size="0.1"/></body>'
        "</body>"
    )
    assert load(written(tmp_path, inside), strict=True).diagnosis == ()
