"""What an MJCF file says that the model does not have: findings, with what to write instead.

Everything that changes the motion is a problem, which `load` warns of: springs, polynomials of
damping, limits of ball joints, tendons, actuators, gravity compensation, fluids, and the parameters
that make contacts, limits and constraints soft or act at a distance.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from phipsi.core.model import WORLD_NAME
from phipsi.files.files import SourceLocation
from phipsi.files.mjcf.checked_files import MjcfFiles
from phipsi.files.mjcf.geom_shapes import pose_of, touching_geoms
from phipsi.files.parsed_robot import ParsedRobot
from phipsi.files.xml_document import XMLElement, shortened

_FREE, _BALL = 0, 1
_NQ, _NV = (7, 4, 1, 1), (6, 3, 1, 1)
_FIXED_GAIN, _NO_BIAS, _AFFINE_BIAS, _NO_DYNAMICS = 0, 0, 1, 0
_ON_JOINT = (0, 1)  # also "jointinparent", which differs for ball and free joints only
_USUAL_SOLREF = (0.02, 1.0)
_USUAL_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
_SDF_GEOM = 8
_SHOWN = 3


def note_what_is_left_out(
    m: Any, robot: ParsedRobot, found: MjcfFiles, names: Mapping[int, str]
) -> None:
    """Record it in the findings of `robot`; `names` are those of the bodies, by MuJoCo's number."""
    notes = _Notes(m, robot, found, names)
    for k in range(m.njnt):
        notes.joint(k)
    for k in range(m.ntendon):
        notes.tendon(k)
    for k in range(m.nu):
        notes.actuator(k)
    for i in range(1, m.nbody):
        notes.body(i)
    notes.contacts()
    notes.softness()
    notes.whole_file()


class _Home(NamedTuple):
    """The joint of ours that a joint of MuJoCo's is: its name, and where in it its numbers are."""

    name: str
    q: int
    v: int
    nq: int
    nv: int


@final
class _Notes:
    def __init__(
        self, m: Any, robot: ParsedRobot, found: MjcfFiles, names: Mapping[int, str]
    ) -> None:
        self.m, self.robot, self.found, self.names = m, robot, found, names
        self.stated: dict[tuple[str, str], XMLElement] = {}
        self.inside: dict[str, list[XMLElement]] = {}
        for element in found.elements():
            self.stated.setdefault((element.tag, element.name), element)
            if element.tag in ("tendon", "actuator", "equality", "contact"):
                self.inside.setdefault(element.tag, []).extend(element.children)

    # ---------------------------------------------------------------- places

    def _member(self, group: str, k: int, name: str, tags: Sequence[str] = ()) -> SourceLocation:
        """The k-th element inside of <actuator>, <tendon> …; by its name if it has one."""
        listed = [e for e in self.inside.get(group, []) if not tags or e.tag in tags]
        named = [e for e in listed if name and e.name == name]
        return (named or listed[k : k + 1] or [self.found.root])[0]

    def _joint_place(self, k: int) -> SourceLocation:
        name, body = self.m.names["joint"][k], int(self.m.jnt_bodyid[k])
        for key in (name, name.rstrip("0123456789")):  # copies by <replicate> have numbers
            for tag in ("joint", "freejoint"):
                if key and (tag, key) in self.stated:
                    return self.stated[tag, key]
        host = self.stated.get(("body", self.m.names["body"][body]))
        own = [] if host is None else [e for e in host.children if e.tag in ("joint", "freejoint")]
        place = k - int(self.m.body_jntadr[body])
        return own[place] if place < len(own) else host or self.found.root

    def _with_attribute(self, tags: Sequence[str], *attributes: str) -> SourceLocation:
        """The first element that states one of the attributes, such as that of a <default>."""
        for element in self.found.elements():
            if element.tag in tags and any(x in element.attributes for x in attributes):
                return element
        return self.found.root

    def _home(self, k: int) -> _Home | None:
        """The joint of ours that has joint k; None if `base` replaced it."""
        m, body = self.m, int(self.m.jnt_bodyid[k])
        first = int(m.body_jntadr[body])
        rows = range(first, first + int(m.body_jntnum[body]))
        own = [m.names["joint"][i] or f"{self.names[body]}_joint{i - first + 1}" for i in rows]
        kinds = [int(m.jnt_type[i]) for i in rows]
        name, place = own[k - first], k - first
        if name not in self.robot.joints:  # one of several in a composite joint
            before, name = kinds[:place], "+".join(own)
            q, v = sum(_NQ[x] for x in before), sum(_NV[x] for x in before)
            sizes = sum(_NQ[x] for x in kinds), sum(_NV[x] for x in kinds)
            return _Home(name, q, v, *sizes)
        if not self.robot.joints[name].joint.nv:
            return None
        return _Home(name, 0, 0, _NQ[kinds[place]], _NV[kinds[place]])

    def _note(
        self, who: str, name: str, at: SourceLocation, message: str, instead: str = "",
        kind: str = "ignored",
    ) -> None:  # fmt: skip
        self.robot.note(kind, who, name, f"{message}{_paste(instead)}", at, True)

    # ---------------------------------------------------------------- joints

    def joint(self, k: int) -> None:
        """Springs, polynomials, the range of a ball joint, the friction of a free joint."""
        m, home, at = self.m, self._home(k), self._joint_place(k)
        if home is None:
            return
        who = f"joint {shortened(m.names['joint'][k] or home.name)}"
        kind, rate = int(m.jnt_type[k]), int(m.jnt_dofadr[k])
        if m.jnt_stiffness[k] or np.any(m.jnt_stiffnesspoly[k]):
            self._spring(k, home, who, at)
        if np.any(m.dof_dampingpoly[rate]):
            square, cube = (_on(home, float(x), _NV[kind]) for x in m.dof_dampingpoly[rate])
            law = _law("v", f"-({square} * v * np.abs(v) + {cube} * v**3)", home)
            self._note(
                who, home.name, at,
                "its damping is a polynomial of the rate, of which the model has the linear term. "
                "Add the others as a law of a Simulator"
                + (", along the axes of the world." if kind == _FREE else ":"),
                "" if kind == _FREE else law,
            )  # fmt: skip
        if kind == _BALL and m.jnt_limited[k]:
            most, w, x = float(m.jnt_range[k][1]), f"q[{home.q}]", f"q[{home.q + 1}:{home.q + 4}]"
            turn = f"2 * np.arctan2(np.linalg.norm({x}), np.abs({w}))"
            push = f"-1e3 * np.maximum({turn} - {most!r}, 0) * np.sign({w}) * {x}"
            push += f" / (np.linalg.norm({x}) + 1e-12)"
            if home.nv > _NV[_BALL]:
                after = home.nv - home.v - _NV[_BALL]
                push = f"np.concatenate([np.zeros({home.v}), {push}, np.zeros({after})])"
            self._note(
                who, home.name, at,
                f"its range, a rotation of at most {most:g} rad, is not part of the model and is "
                "left out. Limit it by a law of a Simulator, with a stiffness of your choice:",
                _law("q", push, home),
            )  # fmt: skip
        if kind == _FREE and np.any(m.dof_frictionloss[rate : rate + 6]):
            size = float(m.dof_frictionloss[rate])
            self._note(
                who, home.name, at,
                "its frictionloss acts along the axes of the world, which are not those of the "
                "rates of a free joint, and is left out. Along the axes of the body, it is",
                f"pp.forces.JointFriction({home.name!r}, {size!r})",
            )  # fmt: skip

    def _spring(self, k: int, home: _Home, who: str, at: SourceLocation) -> None:
        m, kind, first = self.m, int(self.m.jnt_type[k]), int(self.m.jnt_qposadr[k])
        linear = float(m.jnt_stiffness[k])
        square, cube = (float(x) for x in np.broadcast_to(m.jnt_stiffnesspoly[k], 2))
        rest = [float(x) for x in m.qpos_spring[first : first + _NQ[kind]]]
        what = "its spring is not part of the model and is left out."
        if m.jnt_springyield[k]:
            what += " (It yields beyond a force, which springs here do not.)"
        if kind == _FREE or (kind == _BALL and (square or cube)):
            self._note(who, home.name, at, f"{what} Write it as a law of a Simulator (pp.law).")
            return
        if square or cube:
            x = f"(q - {_on(home, rest[0])})"
            terms = ((linear, x), (square, f"{x}**2"), (cube, f"{x}**3"))
            force = " + ".join(f"{_on(home, c)} * {power}" for c, power in terms if c)
            self._note(
                who, home.name, at, f"{what} Add it as a law of a Simulator:",
                _law("q", f"-({force})", home),
            )  # fmt: skip
            return
        stiffness: Any = [0.0] * home.nv
        stiffness[home.v : home.v + _NV[kind]] = [linear] * _NV[kind]
        whole = self._neutral(k, home)
        whole[home.q : home.q + _NQ[kind]] = rest
        stiffness = linear if home.nv == _NV[kind] else stiffness
        line = f"pp.forces.JointSpring({home.name!r}, {stiffness!r}, rest={_few(whole)})"
        self._note(who, home.name, at, f"{what} Add it to the forces of a simulation:", line)

    def _neutral(self, k: int, home: _Home) -> list[float]:
        """Neutral coordinates of the joint of ours that has joint k."""
        m, body = self.m, int(self.m.jnt_bodyid[k])
        first, out = int(m.body_jntadr[body]), list[float]()
        for i in range(first, first + int(m.body_jntnum[body])) if home.nv > 1 else (k,):
            out += [1.0, 0.0, 0.0, 0.0] if int(m.jnt_type[i]) == _BALL else [0.0]
        return out[: home.nq] if len(out) >= home.nq else [0.0] * home.nq

    # ---------------------------------------------------------------- tendons and actuators

    def tendon(self, k: int) -> None:
        """A tendon that pulls, drags or is limited; others have no effect by themselves."""
        m, name = self.m, self.m.names["tendon"][k]
        at = self._member("tendon", k, name, ("spatial", "fixed"))
        who = _called("tendon", name)
        words = [
            word
            for word, arrays in (
                ("stiffness", ("tendon_stiffness", "tendon_stiffnesspoly")),
                ("damping", ("tendon_damping", "tendon_dampingpoly")),
                ("frictionloss", ("tendon_frictionloss",)),
                ("armature", ("tendon_armature",)),
                ("limits", ("tendon_limited",)),
            )
            if any(np.any(getattr(m, array)[k]) for array in arrays)
        ]
        if not words:
            self.robot.note_left_out("it", who, name, at, False)
            return
        message = f"its {_listed(words)} {_is(words)} not part of the model and {_is(words)} left"
        self._note(
            who, name, at,
            f"{message} out. Write it as a law; a spatial tendon between two sites is a spring or "
            "a rope:",
            "pp.forces.PointSpring('site1', 'site2', stiffness=1e3, rest_length=0.5)\n"
            "    pp.forces.Rope('site1', 'site2', length=0.5)",
        )  # fmt: skip

    def actuator(self, k: int) -> None:
        """Its effort is not part of the model, nor are its armature and damping."""
        m, name = self.m, self.m.names["actuator"][k]
        at = self._member("actuator", k, name)
        who = _called("actuator", name) if name else _label(at, "actuator")
        on_joint = int(m.actuator_trntype[k]) in _ON_JOINT
        joint = int(m.actuator_trnid[k][0]) if on_joint else -1
        home = self._home(joint) if on_joint else None
        what = "it is not part of the model and is left out"
        simple = (int(m.actuator_dyntype[k]), int(m.actuator_gaintype[k])) == (
            _NO_DYNAMICS, _FIXED_GAIN,
        )  # fmt: skip
        bias = int(m.actuator_biastype[k])
        gear = float(m.actuator_gear[k][0])
        scalar = home is not None and _NV[int(m.jnt_type[joint])] == 1
        if home is None or not scalar or not simple or bias not in (_NO_BIAS, _AFFINE_BIAS):
            message = f"{what}. Write its force as a law (pp.law)."
            self._note(who, name, at, message, kind="actuator")
        else:
            force = self._actuator_force(k, home)
            bounds, shared = self._effort_bounds(joint)
            if bounds and not shared:
                force = f"np.clip({force}, {bounds})"
            elif bounds:
                what += f". MuJoCo limits the sum of the actuators of this joint to {bounds}"
            used = [x for x in ("q", "v") if re.search(rf"\b{x}\b", force)]
            self._note(
                who, name, at, f"{what}. Give its effort as tau, or as a law of a Simulator:",
                _law(", ".join([*used, "ctrl"]), force, home, ".bind(ctrl=0.0)"), "actuator",
            )  # fmt: skip
        passive = [
            word
            for word in ("armature", "damping")
            if np.any(getattr(m, f"actuator_{word}")[k])
            or (word == "damping" and np.any(m.actuator_dampingpoly[k]))
        ]
        if passive:
            place = "" if home is None else f", at joint {shortened(home.name)}"
            sizes = [gear**2 * float(getattr(m, f"actuator_{x}")[k]) for x in passive]
            written = " ".join(f'{x}="{n:g}"' for x, n in zip(passive, sizes, strict=True))
            self._note(
                who, name, at,
                f"its {_listed(passive)} {_is(passive)} not part of the model, which has those of "
                f"joints. Add {_both(passive)} there{place}:  <joint {written}/>",
            )  # fmt: skip

    def _actuator_force(self, k: int, home: _Home) -> str:
        """The formula of its effort at the joint, with the limits of control and force."""
        m, gear = self.m, float(self.m.actuator_gear[k][0])
        ctrl = "ctrl"
        if m.actuator_ctrllimited[k]:
            ctrl = f"np.clip(ctrl, {_range(m.actuator_ctrlrange[k])})"
        constant, by_q, by_v = (float(x) for x in m.actuator_biasprm[k][:3])
        if int(m.actuator_biastype[k]) == _NO_BIAS:
            constant = by_q = by_v = 0.0
        terms = [
            (float(m.actuator_gainprm[k][0]), ctrl), (constant, ""),
            (gear * by_q, "q"), (gear * by_v, "v"),
        ]  # fmt: skip
        if not m.actuator_forcelimited[k]:
            parts = [(gear * c, f" * {x}" if x else "") for c, x in terms if gear * c]
            return " + ".join(f"{_on(home, c)}{x}" for c, x in parts) or f"0.0 * {ctrl}"
        place = {"q": f"q[{home.q}]", "v": f"v[{home.v}]"} if home.nv > 1 else {}
        parts = [f"{c!r}{f' * {place.get(x, x)}' if x else ''}" for c, x in terms if c]
        force = " + ".join(parts) or f"0.0 * {ctrl}"
        factor = "" if gear == 1.0 and home.nv == 1 else f"{_on(home, gear)} * "
        return f"{factor}np.clip({force}, {_range(m.actuator_forcerange[k])})"

    def _effort_bounds(self, joint: int) -> tuple[str, bool]:
        """The range of what actuators do at a joint ("" for none); whether several share it."""
        m = self.m
        if not m.jnt_actfrclimited[joint]:
            return "", False
        kinds, at = np.asarray(m.actuator_trntype), np.asarray(m.actuator_trnid)[:, 0]
        own = np.isin(kinds, _ON_JOINT) & (at == joint)
        others = ~np.isin(kinds, _ON_JOINT)  # tendons and sites may act on it too
        return _range(m.jnt_actfrcrange[joint]), bool(own.sum() + others.sum() > 1)

    # ---------------------------------------------------------------- bodies

    def body(self, i: int) -> None:
        """Gravity compensation, and mocap bodies."""
        m, name = self.m, self.names[i]
        at, who = self.stated.get(("body", name), self.found.root), f"body {shortened(name)}"
        part = float(m.body_gravcomp[i])
        if part:
            lift = (-part * float(m.body_mass[i]) * m.gravity).tolist()
            place = pose_of(m.body_iquat[i], m.body_ipos[i]).translation.tolist()
            frame = f"{name}_frame"
            host = frame if any(f.name == frame for f in self.robot.frames) else name
            self._note(
                who, name, at,
                "gravity compensation is not part of the model and is left out. Add the force that "
                "lifts it to those of a simulation:",
                f"pp.forces.Wrench(({host!r}, {_few(place)}), {_few([0.0, 0.0, 0.0, *lift])})",
            )  # fmt: skip
        if m.body_mocapid[i] >= 0:
            message = "a mocap body is fixed in the world here."
            self.robot.note("ignored", who, name, message, at)

    # ---------------------------------------------------------------- contacts

    def _geom_names(self, which: Iterable[int]) -> str:
        named = [self.m.names["geom"][k] or f"geom {k}" for k in which]
        shown = ", ".join(map(shortened, named[:_SHOWN]))
        return f"{len(named)} geom(s), {shown}{', …' if len(named) > _SHOWN else ''}"

    def contacts(self) -> None:
        """Margins, soft contacts, sticky and moving surfaces, friction of two directions."""
        m = self.m
        touching = np.flatnonzero(touching_geoms(m)).tolist()
        for what, tags, rows, of_pairs, message, line in (
            (
                "margin", ("geom", "pair"),
                [k for k in touching if m.geom_margin[k]], m.pair_margin,
                "makes forces at a distance: bodies rest so far apart. It is left out; make shapes "
                "larger by it instead.", "",
            ),
            (
                "solref or solimp", ("geom", "pair"),
                [k for k in touching if _is_soft(m.geom_solref[k], m.geom_solimp[k])],
                [_is_soft(*x) for x in zip(m.pair_solref, m.pair_solimp, strict=True)],
                "sets how soft contacts are, and is left out: contacts are rigid here. For a "
                "compliant one give the body a shape of its own, and exclude that of the file:",
                self._own_shape(touching),
            ),
            (
                "adhesion", ("geom", "pair"),
                [k for k in touching if m.geom_adhesion[k]], m.pair_adhesion,
                "pulls at contacts, and is left out: contacts only push here.", "",
            ),
            (
                "surfacevel", ("geom",),
                [k for k in touching if np.any(m.geom_surfacevel[k])], (),
                "moves a surface, and is left out. Put the geom on a body, and prescribe its "
                "motion (prescribed=).", "",
            ),
        ):  # fmt: skip
            count = int(np.count_nonzero(np.asarray(of_pairs)))
            listed = [self._geom_names(rows)] * bool(rows) + [f"{count} pair(s)"] * bool(count)
            if not listed:
                continue
            place = self._with_attribute(tags, *what.split(" or "))
            said = f"{what} of {' and '.join(listed)} {message}"
            self._note(_label(place, "geom"), "", place, said, line)
        for k in range(len(m.names["pair"])):
            self._two_directions(m.pair_friction[k], int(m.pair_dim[k]), "pair", k)
        if len(m.o_friction) and touching:
            self._two_directions(m.o_friction, int(m.geom_condim[touching].max()), "option", 0)
        for k in touching:
            if int(m.geom_type[k]) >= _SDF_GEOM:
                name = m.names["geom"][k]
                at = self.stated.get(("geom", name), self.found.root)
                message = "its shape, a signed distance function, is left out. Use a mesh."
                self._note(_called("geom", name), name, at, message)

    def _own_shape(self, touching: Sequence[int]) -> str:
        host = self.names[int(self.m.geom_bodyid[touching[-1]])] if touching else WORLD_NAME
        return (
            f"model.with_shape('own', {host!r}, pp.shapes.Sphere(0.1), "
            "material=pp.Material(0.9, stiffness=1e5, damping=1e3))"
        )

    def _two_directions(self, friction: np.ndarray, condim: int, tag: str, k: int) -> None:
        slide, across, _, roll, roll_across = (float(x) for x in friction)
        for word, x, y, least in (
            ("friction", slide, across, 3), ("rolling friction", roll, roll_across, 6)
        ):  # fmt: skip
            if x == y or condim < least:
                continue
            name = self.m.names["pair"][k] if tag == "pair" else ""
            at = self._with_attribute((tag,), "o_friction")
            if tag == "pair":
                at = self._member("contact", k, name, ("pair",))
            self._note(
                _called(tag, name), name, at,
                f"its {word} is {x:g} and {y:g} in two directions; the model has {x:g} in both. "
                "Write one number twice, such as the smaller.",
            )  # fmt: skip

    # ---------------------------------------------------------------- softness, and the rest

    def softness(self) -> None:
        """Parameters that make limits, friction and constraints of joints soft."""
        m = self.m
        limited = [k for k in range(m.njnt) if m.jnt_limited[k] and int(m.jnt_type[k]) > _BALL]
        rubbing = [k for k in range(m.njnt) if m.dof_frictionloss[int(m.jnt_dofadr[k])]]
        rate = m.jnt_dofadr
        for what, which, message, element in (
            (
                "solreflimit or solimplimit",
                [k for k in limited if _is_soft(m.jnt_solref[k], m.jnt_solimp[k])],
                "sets how soft limits are, and is left out. Choose the stiffness of a stop:",
                "JointLimit({!r}, stiffness=1e4, dissipation=0.1)",
            ),
            (
                "margin", [k for k in limited if m.jnt_margin[k]],
                "lets limits act before they are reached, and is left out. Give limits that are "
                "narrower by it:", "JointLimit({!r}, stiffness=1e4, lower=-1.0, upper=1.0)",
            ),
            (
                "solreffriction or solimpfriction",
                [k for k in rubbing if _is_soft(m.dof_solref[rate[k]], m.dof_solimp[rate[k]])],
                "sets how soft friction is, and is left out. Choose its velocity scale:",
                "JointFriction({!r}, 0.1, velocity_scale=1e-2)",
            ),
        ):  # fmt: skip
            homes = [home for k in which if (home := self._home(k)) is not None]
            if homes:
                place = self._with_attribute(("joint",), *what.split(" or "))
                shown = ", ".join(shortened(home.name) for home in homes[:_SHOWN])
                more = ", …" if len(homes) > _SHOWN else ""
                said = f"{what} of {len(homes)} joint(s), {shown}{more} {message}"
                line = "pp.forces." + element.format(homes[0].name)
                self._note(_label(place, "joint"), "", place, said, line)
        soft = [
            k for k in range(m.neq)
            if m.eq_active0[k] and _is_soft(m.eq_solref[k], m.eq_solimp[k])
        ]  # fmt: skip
        for k in soft:
            name = m.names["equality"][k]
            self._note(
                _called("equality", name), name, self._member("equality", k, name),
                "solref or solimp sets how soft it is, and is left out: it holds exactly here. A "
                "soft connection of two frames is",
                "pp.forces.Bushing('frame1', 'frame2', stiffness=1e4, damping=1e2)",
            )  # fmt: skip

    def whole_file(self) -> None:
        """The fluid, flags that leave nothing to touch, and the time step."""
        m = self.m
        at = self._with_attribute(("option",), "timestep")
        if isinstance(at, XMLElement) and "timestep" in at.attributes:
            dt = float(at.attributes["timestep"])
            message = f"the time step is an argument of simulations: dt={dt!r}."
            self.robot.note("timestep", "<option>", "", message, at, numbers=(dt,))
        if m.fluid[:2].any():
            at = self._with_attribute(("option",), "density", "viscosity")
            density = float(m.fluid[0]) or 1.2
            body = self.names.get(1, "body")
            self._note(
                "<option>", "", at,
                "the fluid (density, viscosity) is not part of the model and is left out. Drag "
                "acts on points that you choose:",
                f"pp.forces.WindDrag({body!r}, area=0.01, density={density!r}, "
                f"wind={_few(m.fluid[2:].tolist())})",
            )  # fmt: skip
        if "contact" in m.disabled and m.ngeom:
            at = self._with_attribute(("flag",), "contact", "constraint")
            message = "contacts are switched off, so that geoms are only drawn and touch nothing."
            self.robot.note("ignored", "<flag>", "", message, at)


# ---- words ---------------------------------------------------------------------------------------


def _is_soft(solref: np.ndarray, solimp: np.ndarray) -> bool:
    """Whether a constraint has other parameters than MuJoCo's usual ones."""
    return not (np.array_equal(solref, _USUAL_SOLREF) and np.array_equal(solimp, _USUAL_SOLIMP))


def _called(tag: str, name: str) -> str:
    return f"{tag} {shortened(name)}" if name else f"<{tag}>"


def _label(place: SourceLocation, tag: str) -> str:
    """How messages call an element that states an attribute; <tag> if no element does."""
    return place.label if isinstance(place, XMLElement) and place.attributes else f"<{tag}>"


def _paste(line: str) -> str:
    return f"\n    {line}" if line else ""


def _law(given: str, formula: str, home: _Home, bound: str = "") -> str:
    return f"pp.law(lambda {given}: {formula}){bound}.on({home.name!r})"


def _on(home: _Home, number: float, count: int = 1) -> str:
    """A number on `count` rates of a joint: itself, or an array with zeros for the others."""
    if home.nv == count:
        return repr(number)
    own = range(home.v, home.v + count)
    return f"np.array({[number if i in own else 0.0 for i in range(home.nv)]!r})"


def _range(bounds: Sequence[float]) -> str:
    """Limits as arguments of np.clip."""
    return f"{float(bounds[0])!r}, {float(bounds[1])!r}"


def _few(numbers: Sequence[float]) -> str:
    return repr(numbers[0]) if len(numbers) == 1 else repr([x + 0.0 for x in numbers])


def _listed(words: Sequence[str]) -> str:
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _both(words: Sequence[str]) -> str:
    return "both" if len(words) > 1 else "it"


def _is(words: Sequence[str]) -> str:
    return "are" if len(words) > 1 or words[0] == "limits" else "is"
