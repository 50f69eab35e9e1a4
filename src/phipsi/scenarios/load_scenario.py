"""`load_scenario`: a TOML file as a `Scenario`, checked from top to bottom before anything runs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from phipsi import examples
from phipsi.algorithms import motions
from phipsi.core.model import Model, Pose
from phipsi.core.spatial import quat_to_matrix
from phipsi.errors import InputError, PhipsiWarning, did_you_mean, shown
from phipsi.files import AllowedFolders, PackageDirs, Rejected, initial_state, load, with_values
from phipsi.scenarios.scenario import Scenario, checked_output
from phipsi.scenarios.toml_tables import KINDS, TomlTable, are_numbers, kind, read_toml
from phipsi.simulation import METHODS, Event, Force, controllers, forces, references
from phipsi.studies import Distributions
from phipsi.support import import_optional

Array = NDArray[Any]

_ROBOT_SUFFIXES = (".urdf", ".sdf", ".world", ".mjcf", ".xml")
_UNIT = 1e-6  # how far from unit length a quaternion in a file may be


def load_scenario(
    path: str | os.PathLike[str],
    *,
    package_dirs: PackageDirs | None = None,
    coordinates: Mapping[str, Sequence[float]] | None = None,
    velocities: Mapping[str, Sequence[float]] | None = None,
) -> Scenario:
    r"""Read a scenario file (TOML) with everything a simulation needs; see docs/scenarios.md.

    Paths in it are relative to it. The robot file must be in its folder or package, as for files
    that a robot file names, and what is written goes into its folder.

    Parameters
    ----------
    path : str or path
        The file.
    package_dirs : path or sequence of path, optional
        Further folders it may refer to, as for `load`.
    coordinates, velocities : mapping of str to sequence of float, optional
        By joint, changes of the initial state.

    Returns
    -------
    Scenario
        The scenario.

    Raises
    ------
    ModelError
        If the file is wrong, with file and line.

    Examples
    --------
    >>> import tempfile, pathlib, phipsi as pp
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "fall.toml"
    >>> _ = file.write_text('model = "seven_joint_arm"\nduration = 0.1\n')
    >>> scenario = pp.load_scenario(file)
    >>> scenario.simulate().complete
    True
    """
    top = read_toml(os.fspath(path))
    stated = top.read(
        "title: text?; model: raw?; duration: positive = 5.0; initial: raw?; integrator: raw?; "
        "forces: raw?; controller: raw?; events: raw?; output: raw?; study: raw?"
    )
    folders = AllowedFolders.of(os.fspath(path), package_dirs, call="pp.load_scenario")
    model, source = _model(top, folders, package_dirs)
    initial = top.table("initial") or TomlTable(top.file, top.lines, ("initial",), {}, "initial")
    initial.read("q: raw?; v: raw?")

    def reject(key: str, joint: str, reason: str) -> Any:
        initial.reject((key, joint), reason)

    in_file = initial.by_joint("q"), initial.by_joint("v"), reject
    q0, v0 = initial_state(model, in_file, (coordinates or {}, velocities or {}, None))
    return Scenario(
        model,
        q0,
        v0,
        stated["duration"],
        **_integrator(top),
        **_output(top, folders, source),
        controller=_controller(top.table("controller"), model, q0),
        forces=_forces(top, model),
        events=[_event(one, model) for one in top.tables("events")],
        title=stated.get("title", ""),
        study=_study(top.table("study")),
    )


# ---- the model -----------------------------------------------------------------------------------


def _model(
    top: TomlTable, folders: AllowedFolders, package_dirs: PackageDirs | None
) -> tuple[Model, str]:
    """The model, and the file it is from or nothing."""
    if isinstance(name := top.data.get("model"), str):
        if name.lower().endswith(_ROBOT_SUFFIXES) or "/" in name:
            return _from_file(top, "model", name, folders, {"package_dirs": package_dirs})
        return _shipped(top, "model", name), ""
    one = top.table("model")
    if one is None:
        top.reject(
            "",
            f"'model' is missing. For example:  model = \"arm.urdf\"   or one that ships with "
            f'phipsi:  model = "{examples.ROBOTS[-1]}"',
        )
    given = one.read(
        "file: text?; robot: text?; base: fixed|free?; name: text?; gravity: 3 numbers?"
    )
    if ("file" in one) == ("robot" in one):
        one.reject("", 'write either  file = "arm.urdf"  or  robot = "humanoid", one of the two.')
    if "robot" in one:
        for key in ("base", "name"):
            if key in one:
                one.reject(
                    key,
                    f"{key!r} applies only to files; a robot that ships with phipsi has its own.",
                )
        model, source = _shipped(one, "robot", given["robot"]), ""
    else:
        options = {"package_dirs": package_dirs, "base": given.get("base")}
        options["model"] = given.get("name")
        model, source = _from_file(one, "file", given["file"], folders, options)
    if "gravity" in given:
        model = model.with_gravity(given["gravity"])
    return model, source


def _shipped(one: TomlTable, key: str, name: str) -> Model:
    if name not in examples.ROBOTS:
        one.reject(
            key,
            f"no robot {name!r} ships with phipsi. {did_you_mean(name, examples.ROBOTS)} "
            f"A robot file has a suffix, such as {name + '.urdf'!r}.",
        )
    return getattr(examples, name)()


def _from_file(
    one: TomlTable, key: str, name: str, folders: AllowedFolders, options: dict[str, Any]
) -> tuple[Model, str]:
    try:
        found = folders.locate(name)
    except Rejected as error:
        text = (
            str(error).replace("robot's package", "scenario's").replace("folder folder", "folder")
        )
        one.reject(key, f"{name!r}: {text}")
    if found is None:
        one.reject(key, f"there is no file {name!r} in {folders.folder}.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PhipsiWarning)  # `phipsi check` is for the robot file
        return load(found, **options), found


# ---- forces --------------------------------------------------------------------------------------


@kind("point", '"tool"   or   { on = "tool", offset = [0, 0, 0.1] }')
def _point(one: TomlTable, key: str, example: str) -> Any:
    """The name of a body or frame, or a table with `on` and `offset`."""
    if not isinstance(one.data[key], dict):
        return KINDS["text"][0](one, key, example)
    inner = one.table(key)
    assert inner is not None
    place = inner.read('on: text = "tool"; offset: 3 numbers?')
    return place["on"], tuple(place.get("offset", (0.0, 0.0, 0.0)))


@kind("times", "[0.0, 1.0]")
def _times(one: TomlTable, key: str, example: str) -> Any:
    found = KINDS["numbers"][0](one, key, example)
    if len(found) < 2 or (np.diff(found) <= 0).any():
        one.reject(key, "times must be two or more increasing numbers, in s.")
    return found


@kind("wrenches", str([0.0] * 6))
def _wrenches(one: TomlTable, key: str, example: str) -> Any:
    """Six numbers, or as many of them as there are times."""
    found, times = one.data[key], one.data.get("times")
    if times is None:
        return KINDS["6 numbers"][0](one, key, example)
    if (
        not isinstance(found, list)
        or len(found) != len(times)
        or not all(are_numbers(row, 6) for row in found)
    ):
        one.wrong(key, f"{len(times)} lists of 6 finite numbers")
    return found


def _wrench(point: Any, wrench: Any, times: Any = None, **axes: str) -> Force:
    if times is None:
        return forces.Wrench(point, wrench, **axes)
    columns = np.array(wrench).T
    return forces.Wrench(point, lambda t: [np.interp(t, times, x) for x in columns], **axes)


# How each is built, and its keys.
FORCES: dict[str, tuple[Callable[..., Any], str]] = {
    "JointSpring": (forces.JointSpring, "joints: names?; stiffness: gains; rest: gains?"),
    "JointDamper": (forces.JointDamper, "joints: names?; damping: gains"),
    "JointFriction": (
        forces.JointFriction,
        "joints: names?; friction: gains; velocity_scale: gains?",
    ),
    "JointLimit": (
        forces.JointLimit,
        "joints: names?; stiffness: stiffnesses; dissipation: gains?; lower: gains?; "
        "upper: gains?; restitution: gains?",
    ),
    "ElasticCoupling": (
        forces.ElasticCoupling,
        "joints: names; coefficients: gains; stiffness: number; damping: number?; "
        "backlash: number?; dissipation: number?; offset: number?",
    ),
    "PointSpring": (
        forces.PointSpring,
        "a: point; b: point; stiffness: number; rest_length: number?; damping: number?",
    ),
    "Rope": (
        forces.Rope,
        "a: point; b: point; length: number; stiffness: stiffness; damping: number?; "
        "restitution: number?",
    ),
    "StribeckFriction": (
        forces.StribeckFriction,
        "joints: names?; static: gains; sliding: gains; stribeck_velocity: gains; "
        "viscous: gains?; velocity_scale: gains?",
    ),
    "Bushing": (forces.Bushing, "a: point; b: point; stiffness: gains; damping: gains?"),
    "TorsionSpring": (
        forces.TorsionSpring,
        "a: point; b: point; stiffness: number; rest: number?; damping: number?",
    ),
    "WindDrag": (
        forces.WindDrag,
        "point: point; area: number; coefficient: number?; density: number?; wind: 3 numbers?",
    ),
    "GravityField": (
        forces.GravityField.inverse_square,
        "mu: number = 3.986e14; center: 3 numbers?",
    ),
    "Wrench": (_wrench, "point: point; times: times?; wrench: wrenches; axes: world|body?"),
    "from_model": (
        forces.from_model,
        "limit_time: positive?; dissipation: number?; velocity_scale: positive?",
    ),
}


def _forces(top: TomlTable, model: Model) -> list[Force]:
    """All elements of [[forces]], each looked up in the model."""
    out: list[Force] = []
    for one in top.tables("forces"):
        word = one.choice("type", FORCES)
        one.name = f"{one.name} ({word})"
        make, keys = FORCES[word]
        with one.attributed_to():
            given = one.read(f"type: raw; {keys}")
            del given["type"]
            if keys.startswith("joints:"):
                given.setdefault("joints", None)  # all of them
            made = make(model, **given) if word == "from_model" else [make(**given)]
            for element in made:
                element.bind(model)  # unknown joints and impossible numbers show here
        out += made
    return out


# ---- the controller ------------------------------------------------------------------------------


@kind("components", '"pose"')
def _components(one: TomlTable, key: str, example: str) -> Any:
    found = one.data[key]
    if isinstance(found, str):
        return one.choice(key, ("pose", "position", "rotation"))
    if (
        not are_numbers(found)
        or not found
        or any(x not in range(6) for x in found)
        or len(set(found)) < len(found)
    ):
        one.reject(
            key,
            (
                "components must be different integers from 0 to 5: rotations about x, y, z are 0, "
                "1, 2 and positions x, y, z are 3, 4, 5."
            ),
        )
    return tuple(int(x) for x in found)


@kind("efforts", "100.0")
def _efforts(one: TomlTable, key: str, example: str) -> Any:
    """None for the largest efforts of `model.joint_properties`."""
    return None if one.data[key] == "joint_properties" else KINDS["gains"][0](one, key, example)


_IN_JOINTS = {
    "ComputedTorque": (controllers.ComputedTorque, "; compensate_damping: flag?"),
    "PDGravity": (controllers.PDGravity, ""),
}
_CONTROLLERS: dict[str, tuple[Callable[..., Any], str]] = _IN_JOINTS | {
    "OperationalSpace": (
        controllers.OperationalSpace,
        "; compensate_damping: flag?; frame: point; components: components?; null_space: raw?; "
        "null_damping: number?; singularity: positive?",
    )
}


def _controller(
    one: TomlTable | None, model: Model, q0: Array, known: Mapping[str, Any] = _CONTROLLERS
) -> Any:
    """One of `phipsi.control` with its reference, or None if the scenario has none."""
    if one is None:
        return None
    word = one.choice("type", known)
    make, keys = known[word]
    with one.attributed_to():
        given = one.read(
            "type: raw; kp: gains; kd: gains; hold: raw?; path: raw?; largest_effort: efforts?; "
            "actuated: names?" + keys
        )
        for key in ("type", "hold", "path"):
            given.pop(key, None)
        if "hold" in one and "path" in one:
            one.reject("path", "write either a pose to hold or a path, not both.")
        if word == "OperationalSpace":
            reference = _pose_reference(one, model, q0, given["frame"])
            given["null_space"] = _controller(one.table("null_space"), model, q0, _IN_JOINTS)
        else:
            reference = _joint_reference(one, model, q0)
        is_limited, efforts = "largest_effort" in given, given.pop("largest_effort", None)
        made = make(model, reference=reference, **given)
        return controllers.Saturated(made, model, efforts) if is_limited else made


def _joint_reference(one: TomlTable, model: Model, q0: Array) -> Any:
    """A configuration to hold, or a path; joints that are not named stay where they were."""

    def configuration(table: TomlTable, key: str, start: Array) -> Array:
        def reject(_: str, joint: str, reason: str) -> Any:
            table.reject((key, joint), reason)

        return with_values(model, "q", start, table.by_joint(key), reject)

    if "path" not in one:
        return configuration(one, "hold", q0)
    times, points = [], [q0]
    for stop in _stops(one, "{ time = 0, q = {} }, { time = 1, q = { elbow = 0.5 } }"):
        times.append(stop.read("time: number; q: raw?")["time"])
        points.append(configuration(stop, "q", points[-1]))
    return references.JointPath(model, np.array(points[1:]), times)


def _pose_reference(one: TomlTable, model: Model, q0: Array, frame: Any) -> Any:
    """A pose to hold, or a path of poses; position or quaternion stay if they are not given."""
    body, X = model.resolve_point(frame)
    at = X.matrix if body < 0 else motions.poses(model, q0)[body] @ X.matrix
    start = Pose(at[:3, :3], at[:3, 3])
    if "path" not in one:
        hold = one.table("hold")
        return start if hold is None else _moved(start, **hold.read(_PLACE))
    times, poses = [], [start]
    for stop in _stops(one, "{ time = 0 }, { time = 1, position = [0.4, 0, 0.5] }"):
        given = stop.read(f"time: number; {_PLACE}")
        times.append(given.pop("time"))
        poses.append(_moved(poses[-1], **given))
    return references.CartesianPath(poses[1:], times)


def _moved(start: Pose, position: Any = None, quaternion: Any = None) -> Pose:
    rotation = start.rotation if quaternion is None else quat_to_matrix(quaternion)
    return Pose(rotation, start.translation if position is None else position)


@kind("quaternion", "[1.0, 0.0, 0.0, 0.0]")
def _quaternion(one: TomlTable, key: str, example: str) -> Any:
    found = np.array(KINDS["4 numbers"][0](one, key, example))
    length = float(np.linalg.norm(found))
    if abs(length - 1) > _UNIT:
        one.reject(
            key,
            f"the quaternion (w, x, y, z) has length {length:.6g}, but rotations have unit "
            f"quaternions; no rotation is [1, 0, 0, 0].",
        )
    return found


_PLACE = "position: 3 numbers?; quaternion: quaternion?"


def _stops(one: TomlTable, example: str) -> list[TomlTable]:
    stops = one.tables("path")
    if len(stops) < 2:
        one.reject("path", f"a path needs at least two waypoints:  path = [{example}]")
    return stops


# ---- events --------------------------------------------------------------------------------------

_DIRECTIONS = {"both": 0, "rising": 1, "falling": -1}


def _event(one: TomlTable, model: Model) -> Event:
    """A joint's coordinate or rate crosses a value."""
    given = one.read(
        'joint: text = "elbow"; value: number; of: coordinate|rate?; entry: number?; '
        "direction: both|rising|falling?; action: record|stop?; name: text?"
    )
    joint, value, entry = given["joint"], given["value"], given.get("entry", 0)
    if joint not in model.joint_names:
        one.reject(
            "joint", f"there is no joint {joint!r}. {did_you_mean(joint, model.joint_names)}"
        )
    is_rate = given.get("of") == "rate"
    where = model.v_slice(joint) if is_rate else model.q_slice(joint)
    size = where.stop - where.start
    if entry != int(entry) or not 0 <= entry < size:
        one.reject("entry", f"joint {joint!r} has {size} of them; entry must be 0 … {size - 1}.")
    index = where.start + int(entry)
    return Event(
        lambda t, q, v: (v if is_rate else q)[index] - value,
        _DIRECTIONS[given.get("direction", "both")],
        "stop" if given.get("action") == "stop" else None,
        given.get("name", f"{joint} = {value:g}"),
    )


# ---- a study -------------------------------------------------------------------------------------

_DISTRIBUTIONS = {
    "normal": ("norm", "mean and standard deviation"),
    "uniform": ("uniform", "least and largest value"),
    "lognormal": ("lognorm", "median and standard deviation of the logarithm"),
    "triangular": ("triang", "least, likeliest and largest value"),
}
"""Words of files: the name in SciPy, and the numbers that follow."""


def _study(one: TomlTable | None) -> dict[str, Any] | None:
    """The arguments of `pp.Study`."""
    if one is None:
        return None
    given = one.read(
        "distributions: raw; runs: number? = 1000; seed: number?; block: number?; "
        "record_every: number?; "
        "sampling: random|sobol|latin_hypercube|saltelli?; record: names?; save: names?; "
        "reproducible: flag?"
    )
    for key in ("runs", "seed", "block", "record_every"):
        if key in given and given[key] != int(given[key]):
            one.wrong(key, "an integer")
        given |= {key: int(given[key])} if key in given else {}
    for key in ("record", "save"):
        if isinstance(given.get(key), str):
            given[key] = [given[key]]
    table = one.table("distributions")
    assert table is not None
    given["distributions"] = {name: _distribution(table, name) for name in table.data}
    return given


def _distribution(table: TomlTable, name: str) -> Any:
    """A list of values, or a distribution of SciPy."""
    value = table.data[name]
    if isinstance(value, list):
        return value
    example = f'"{name}" = {{ normal = [0.0, 0.1] }}   or a list of values'
    if not isinstance(value, dict) or len(value) != 1:
        table.reject(name, f"{shown(name)} must be a distribution with its numbers, {example}.")
    (word,) = value
    if word not in _DISTRIBUTIONS:
        hint = did_you_mean(word, list(_DISTRIBUTIONS))
        table.reject((name, word), f"{word!r} is not one of {', '.join(_DISTRIBUTIONS)}. {hint}")
    kind, meaning = _DISTRIBUTIONS[word]
    numbers = value[word]
    if not are_numbers(numbers, meaning.count(" and ") + meaning.count(",") + 1):
        table.reject((name, word), f"{word} takes the {meaning}: {example}")
    stats: Any = import_optional("scipy.stats", "a distribution", "scipy")
    first, *more = numbers
    if kind == "uniform":
        frozen = stats.uniform(first, more[0] - first)
    elif kind == "lognorm":
        frozen = stats.lognorm(more[0], scale=first)
    elif kind == "triang":
        width = more[1] - first
        frozen = stats.triang((more[0] - first) / width if width else np.nan, first, width)
    else:
        frozen = stats.norm(first, more[0])
    try:
        Distributions({name: frozen}, 1)
    except InputError as error:
        table.reject((name, word), str(error))
    return frozen


# ---- how to run it, and where to write -----------------------------------------------------------


def _integrator(top: TomlTable) -> dict[str, Any]:
    if "integrator" not in top:
        return {}
    # those of `simulate`
    known = [
        name for name, x in METHODS.items() if not x.damping_implicit or name == "time_stepping"
    ]
    if isinstance(top.data["integrator"], str):
        return {"integrator": top.choice("integrator", known)}
    one = top.table("integrator")
    assert one is not None
    given = one.read("name: text?; dt: positive? = 1e-3; rtol: positive? = 1e-9; atol: positive?")
    given.pop("name", None)
    name = one.choice("name", known) if "name" in one else "dopri"
    for key in ("dt",) if METHODS[name].is_adaptive else ("rtol", "atol"):
        if key in one:
            kind = "chooses its steps" if key == "dt" else "has fixed steps"
            other = "rtol and atol" if key == "dt" else "dt"
            one.reject(key, f"{name} {kind}, so {key!r} has no effect; it has {other}.")
    return given | {"integrator": name}


_OUTPUTS = {
    "npz": (".npz",),
    "csv": (".csv",),
    "figure": (".png", ".svg", ".pdf"),
    "report": (".html",),
}


def _output(top: TomlTable, folders: AllowedFolders, source: str) -> dict[str, Any]:
    """How often to record, and the files to write, which are in the scenario's folder."""
    one = top.table("output")
    if one is None:
        return {}
    given = one.read(
        "every: positive? = 0.01; npz: text?; csv: text?; figure: text?; report: text?"
    )
    out: list[Path] = []
    inputs = {os.path.realpath(one.file), source}
    for key, suffixes in _OUTPUTS.items():
        if key not in given:
            continue
        name = given[key]
        if os.path.splitext(name)[1].lower() not in suffixes:
            one.reject(key, f"{key} = {name!r} must end in {' or '.join(suffixes)}.")
        if "\0" in name:
            one.reject(key, "a file name cannot contain a NUL character.")
        plain = os.path.normpath(os.path.join(folders.folder, name.replace("\\", "/")))
        real = os.path.realpath(plain)  # a symbolic link may lead out
        if not all(Path(p).is_relative_to(folders.folder) for p in (plain, real)):
            one.reject(
                key,
                (
                    f"{name!r} leads out of the scenario's folder, where it may not write. To "
                    "write "
                    f"elsewhere, pass the file on the command line:  phipsi simulate … --out {name}"
                ),
            )
        if real in inputs or real in map(str, out):
            one.reject(
                key, f"{name!r} is an input file, or would be written twice. Choose another name."
            )
        try:
            out.append(checked_output(real))
        except InputError as error:
            one.reject(key, str(error))
    return {"every": given.get("every"), "outputs": tuple(out)}
