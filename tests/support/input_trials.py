"""NaN and infinity in every place of every input of the public functions: who lets them in?

A trial is a function, one of its inputs, a place in it and a number that is not finite. It must
end in a `PhipsiError`; with ``on_error="nan"`` in a status and NaN. All of them:

    python tests/support/input_trials.py
"""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from known_systems import pinned_four_bar

import phipsi as pp
from phipsi import operators as ops
from phipsi.algorithms.constrained.stages import Stages

BAD = (np.nan, np.inf, -np.inf)
# Public modules whose functions are tried like those at the top.
SPACES = (pp.centroidal, pp.sensitivities, pp.diagonal_dynamics, pp.identification)
SKIPPED = {"identify", "simulate", "inverse_kinematics"}  # have rows of their own below
SKIPPED |= {
    "embed_constraints"
}  # of systems, from one configuration; tests/embedding has its inputs


@dataclass(frozen=True)
class Case:
    """A function, arrays it takes by name, and whether it masks instead of raising."""

    name: str
    call: Callable[..., Any]
    arrays: dict[str, np.ndarray]
    masks: bool = False

    def run(self, **changed: Any) -> Any:
        """Call it with some inputs changed."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.call(**{**self.arrays, **changed})

    def places(self) -> Iterator[tuple[str, tuple[int, ...], float]]:
        """Every input, entry and bad number."""
        for name, a in self.arrays.items():
            for index in np.ndindex(a.shape):
                for value in BAD:
                    yield name, index, value

    def complaint(self, name: str, index: tuple[int, ...], value: float) -> str:
        """What is wrong with the answer to one trial; empty if nothing is."""
        a = self.arrays[name].copy()
        a[index] = value
        try:
            found = self.run(**{name: a})
        except pp.errors.PhipsiError as e:
            return "" if not self.masks else f"raises {e}"
        except Exception as e:
            return f"{type(e).__name__}: {e}"
        if not self.masks:
            return "accepted"
        result, status = found
        bad = np.zeros(status.shape, dtype=bool)
        bad[index[: status.ndim]] = True
        if ((status % 8 == 4) != bad).any() or (status[~bad] != 0).any():
            return f"status {status.tolist()}"
        return "" if np.isnan(result[bad]).all() and np.isfinite(result[~bad]).all() else "no NaN"


def mechanism(seed: int = 0) -> pp.Model:
    """A model with joints of all kinds, so that many inputs do not enter many results."""
    j, rng = pp.joints, np.random.default_rng(seed)
    kinds = [j.Free(), j.Revolute((0, 0, 1)), j.Spherical(), j.Planar(), j.Prismatic((1, 0, 0))]
    builder = pp.ModelBuilder()
    for i, joint in enumerate(kinds):
        builder.add_body(
            f"b{i}",
            parent="world" if i == 0 else f"b{i - 1}",
            joint=joint,
            placement=pp.Pose(translation=rng.standard_normal(3)),
            inertia=pp.SpatialInertia(1.0 + i, rng.standard_normal(3) / 9, np.eye(3)),
        )
    return builder.build()


def states(model: pp.Model, batch: tuple[int, ...] = (), seed: int = 0) -> dict[str, np.ndarray]:
    """Arrays by the names that public functions have for them."""
    rng = np.random.default_rng(seed)
    rates = {
        n: rng.standard_normal((*batch, model.nv)) for n in ("v", "tau", "vdot", "nu", "v0", "w")
    }
    q = model.random_configuration(rng, batch)
    forces = {"f_ext": rng.standard_normal((*batch, model.n_bodies, 6))}
    return {"q": q, "q0": q, "f0": rng.standard_normal((*batch, 1, 6)), **rates, **forces}


def functions_of_models(model: pp.Model, label: str, batch: tuple[int, ...] = ()) -> list[Case]:
    """The public functions whose first argument is a model."""
    points = [model.body_names[-1]]
    given = {"points": points, "frames": points, "prescribed": [model.joint_names[-1]]}
    given |= {"dt": 0.01, "steps": 2, "final": lambda q, v: ((v * v).sum(-1), None, 2 * v)}
    at, out = states(model, batch), []
    public = {n: f for place in SPACES for n, f in vars(place).items()}
    public |= {name: getattr(pp, name) for name in pp.__all__}
    for name, f in public.items():
        if not inspect.isfunction(f) or name in SKIPPED or name.startswith("_"):
            continue
        parameters = inspect.signature(f).parameters
        if next(iter(parameters), "") != "model" or not {"q", "q0"} & set(parameters):
            continue
        if batch and name == "linearize":
            continue
        arrays = {n: at[n] for n in parameters if n in at}
        others = {n: x for n, x in given.items() if n in parameters}
        if name == "christoffel_symbols":
            arrays.pop("v")
        if "f0" in arrays and "f_ext" in arrays:  # one or the other
            del arrays["f_ext"]
        elif "f0" not in arrays and "f_ext" in parameters:
            others.pop("points", None)
        out.append(Case(f"{label} {name}", _bound(f, model, others), arrays))
    return out


def _bound(f: Callable[..., Any], model: Any, others: dict[str, Any]) -> Callable[..., Any]:
    return lambda **arrays: f(model, **arrays, **others)


def methods(model: pp.Model) -> list[Case]:
    """Methods of models, systems and grasps, functions of systems, and those with other shapes."""
    at, out = states(model), []
    q, v = at["q"], at["v"]
    out.append(Case("integrate", model.integrate, {"q": q, "dv": v}))
    out.append(Case("difference", model.difference, {"q0": q, "q1": states(model, seed=1)["q"]}))
    out.append(Case("qdot", model.qdot, {"q": q, "v": v}))
    last = model.joint_names[-1]
    out.append(Case("with_locked", lambda q: model.with_locked([last], q), {"q": q}))
    out.append(Case("with_gravity", model.with_gravity, {"gravity": np.array([0.0, 0, -9.8])}))
    pi = pp.identification.inertial_parameters(model)
    out.append(Case("with_parameters", model.with_inertial_parameters, {"parameters": pi}))
    arm = pp.examples.seven_joint_arm()
    for name in ("to_pinocchio", "to_mujoco", "to_drake", "from_pinocchio", "from_mujoco"):
        arrays = {n: states(arm)[n] for n in ("q", "v", "vdot", "tau")}
        out.append(Case(name, _bound(getattr(pp.conventions, name), arm, {}), arrays))
    out.append(Case("simulate", lambda **a: pp.simulate(model, **a, duration=0.01), {
        "q0": model.neutral(), "v0": v}))  # fmt: skip
    target = pp.poses(arm, np.full(7, 0.3))[-1]
    name = arm.body_names[-1]

    def reach(q0: Any, rest: Any, target: Any) -> Any:
        return pp.inverse_kinematics(arm, {name: target}, q0=q0, rest=rest, on_error="best")

    out.append(Case("inverse_kinematics", reach, {
        "q0": np.zeros(7), "rest": np.zeros(7), "target": target}))  # fmt: skip
    base = pp.identification.base_parameters(pp.examples.planar_arm(2))
    samples = np.random.default_rng(0).standard_normal((3, 12, 2))
    tau = pp.inverse_dynamics(base.model, *samples)
    out.append(Case("identify", lambda **a: pp.identification.identify(base, **a), {
        "q": samples[0], "v": samples[1], "vdot": samples[2], "tau": tau,
        "noise": np.ones(2)}))  # fmt: skip
    return [*out, *_of_systems(), *_of_grasps(), *_of_control(model)]


def _of_control(mixed: pp.Model) -> list[Case]:
    """References, gains, weights, and what evaluates or proves without a program."""
    r, c, arm = pp.control, pp.control, pp.examples.planar_arm(2)
    ones, o = np.ones(2), np.zeros(2)
    line = pp.linearize(arm, [-np.pi / 2, 0.0])
    base = pp.identification.base_parameters(arm)
    at, X = states(mixed), np.eye(4)
    table: dict[str, tuple[Callable[..., Any], dict[str, np.ndarray]]] = {
        "Constant": (lambda q: r.Constant(arm, q), {"q": o}),
        "JointPath": (
            lambda **a: r.JointPath(arm, **a),
            {"waypoints": np.zeros((3, 2)), "times": np.arange(3.0)}),
        "FourierPath": (
            lambda **a: r.FourierPath(arm, period=1.0, **a),
            {"center": o, "cosines": np.ones((2, 3)), "sines": np.ones((2, 3))}),
        "ConstantPose": (r.ConstantPose, {"pose": X}),
        "ComputedTorque": (
            lambda **a: c.ComputedTorque(arm, **a), {"reference": o, "kp": ones, "kd": ones}),
        "PDGravity": (lambda **a: c.PDGravity(arm, **a), {"reference": o, "kp": ones, "kd": ones}),
        "lqr": (line.lqr, {"Q": np.eye(4), "R": np.eye(2)}),
        "complete": (base.complete, {"values": base.values()}),
        "dense": (lambda **a: pp.evaluate_dense(ops.mass_matrix, mixed, **a), {"q": at["q"]}),
        "dense, v": (
            lambda **a: pp.evaluate_dense(ops.a, mixed, **a), {"q": at["q"], "v": at["v"]}),
        "prove": (
            lambda **a: pp.prove("H G", arm, **a), {"q": o, "v": ones}),
        "armature": (lambda **a: arm.with_body("link1", **a), {"armature": np.ones(1)}),
    }  # fmt: skip
    return [Case(name, f, arrays) for name, (f, arrays) in table.items()]


def _of_systems() -> list[Case]:
    (system, q), o = pinned_four_bar(), np.zeros(3)
    f_ext = np.zeros((3, 6))
    loads = {"q": q, "v": o, "tau": o}
    rows = np.zeros(system.jacobian(q).shape[-2])
    table: dict[str, tuple[Callable[..., Any], dict[str, np.ndarray]]] = {
        "forward_dynamics, loops": (
            lambda s, **a: pp.forward_dynamics(s, **a, return_multipliers=True),
            {**loads, "f_ext": f_ext, "Udot": rows}),
        "constraint_forces": (pp.constraint_forces, {**loads, "f_ext": f_ext, "Udot": rows}),
        "forward_dynamics_derivatives, loops": (pp.forward_dynamics_derivatives, loads),
        "inverse_dynamics, loops": (
            lambda s, **a: pp.inverse_dynamics(s, **a, return_multipliers=True),
            {"q": q, "v": o, "vdot": o, "f_ext": f_ext, "weights": np.ones(3)}),
        "with_locked": (lambda s, q: s.with_locked(["joint1"], q), {"q": q}),
        "constraint_impulse": (pp.constraint_impulse, {"q": q, "v": o, "rates": rows}),
        "delassus_matrix": (pp.delassus_matrix, {"q": q}),
        "stages": (lambda s, **a: Stages().dynamics(s, **a), loads),
        "stages, impulse": (
            lambda s, **a: Stages().impulse(s, **a), {"q": q, "v": o, "rates": rows}),
        "residual": (pp.System.residual, {"q": q}),
        "jacobian": (pp.System.jacobian, {"q": q}),
        "bias": (pp.System.bias, {"q": q, "v": o}),
        "assemble": (pp.System.assemble, {"q0": q}),
        "project": (pp.System.project, {"q": q, "v": o}),
        "mobility": (pp.System.mobility, {"q": q}),
        "redundant_rows": (pp.System.redundant_rows, {"q": q}),
        "is_turned_over": (pp.System.is_turned_over, {"q": q}),
        "summary": (pp.System.summary, {"q": q}),
        "linearize": (pp.linearize, loads),
        "step_derivatives": (lambda s, **a: pp.step_derivatives(s, dt=0.01, **a), loads),
        "rollout": (
            lambda s, **a: pp.rollout(s, dt=0.01, steps=2, **a), {"q0": q, "v0": o, "tau": o}),
    }  # fmt: skip
    return [Case(f"system {n}", _bound(f, system, {}), a) for n, (f, a) in table.items()]


def _of_grasps() -> list[Case]:
    grasp = pp.examples.two_finger_grasp()
    q, o = grasp.model.neutral(), np.zeros(grasp.model.nv)
    f = np.ones(grasp.contact_forces(q, o, o).shape)
    f_ext = np.zeros((grasp.model.n_bodies, 6))
    table: dict[str, dict[str, np.ndarray]] = {
        "contact_forces": {"q": q, "v": o, "tau": o, "f_ext": f_ext},
        "wrenches": {"q": q, "f": f},
        "check": {"q": q, "v": o, "tau": o, "f": f},
        "grasp_map": {"q": q},
        "internal_forces": {"q": q},
        "distribute": {"q": q, "load": grasp.object_load(q, o, o)},
        "object_load": {"q": q, "v": o, "vdot": o},
        "efforts": {"q": q, "v": o, "vdot": o, "f": f},
    }
    return [Case(f"grasp {n}", getattr(grasp, n), arrays) for n, arrays in table.items()]


def programs(model: pp.Model, backend: str) -> list[Case]:
    """Compiled expressions with given blocks, in all ways of calling."""
    o = ops
    n, w = model.n_bodies, max(joint.nv for joint in model.joints)
    at = states(model)
    spd = np.broadcast_to(np.eye(6), (n, 6, 6)) + 0.0
    hinge = np.broadcast_to(np.eye(w), (n, w, w)) + 0.0
    out: list[Case] = []
    forms: dict[str, tuple[Any, dict[str, Any], dict[str, np.ndarray]]] = {
        "mass matrix": (o.mass_matrix, {"mode": "dense"}, {"q": at["q"]}),
        "its inverse": (o.mass_matrix.inv, {}, {"q": at["q"], "x": at["v"]}),
        "given M": (o.mass_matrix, {"mode": "dense", "inputs": ["M"]}, {"q": at["q"], "M": spd}),
        "given P": (o.D, {"mode": "blocks", "inputs": ["P"]}, {"q": at["q"], "P": spd}),
        "given D": (o.mass_matrix.inv, {"inputs": ["D"]}, {"q": at["q"], "D": hinge, "x": at["v"]}),
        "given gravity": (
            o.H @ o.phi @ o.M @ o.phi.T @ o.gravity, {"inputs": ["gravity"]},
            {"q": at["q"], "gravity": np.array([0.0, 0, -9.8])}),
    }  # fmt: skip
    for name, (expr, options, arrays) in forms.items():
        program = pp.compile(expr, model, backend=backend, **options)
        named = {k: arrays[k] for k in program.inputs}
        label = f"{backend} {name}"
        many = {k: np.stack([a] * 5) for k, a in named.items()}
        call = _by_position(program)
        result = np.asarray(program(*named.values()))
        out.append(Case(label, call, named))
        out.append(Case(f"{label}, batch", call, many))
        out.append(Case(f"{label}, threads", _by_position(program, threads=2), many))
        room = np.empty_like(result)
        out.append(Case(f"{label}, out", _by_position(program, out=room), named))
        masked = _by_position(program, on_error="nan")
        out.append(Case(f"{label}, mask", masked, many, masks=True))
        both = _by_position(program, on_error="nan", threads=2)
        out.append(Case(f"{label}, mask in threads", both, many, masks=True))
        if backend == "native":
            raw = _ufunc(program)
            out.append(Case(f"{label}, gufunc", raw, many, masks=True))
    return out


def _by_position(program: Any, **options: Any) -> Callable[..., Any]:
    return lambda **arrays: program(*arrays.values(), **options)


def _ufunc(program: Any) -> Callable[..., Any]:
    """The gufunc itself, which fills nothing with NaN: its status is all that is looked at."""

    def call(**arrays: Any) -> tuple[np.ndarray, np.ndarray]:
        *results, status = program.ufunc(*arrays.values())
        return np.where(status == 0, 0.0, np.nan), status

    return call


def all_cases() -> list[Case]:
    """Everything there is to try."""
    arm, mixed = pp.examples.seven_joint_arm(), mechanism()
    out = [*functions_of_models(arm, "arm"), *functions_of_models(mixed, "mixed")]
    out += functions_of_models(mixed, "mixed, batch", (3,))
    out += methods(mixed)
    for backend in ("native", "reference"):
        out += programs(mixed, backend)
    return out


def main() -> None:
    """Run every trial, and say what came in."""
    trials, failed = 0, 0
    for case in all_cases():
        case.run()
        wrong = {}
        for place in case.places():
            trials += 1
            complaint = case.complaint(*place)
            if complaint:
                wrong[place] = complaint
        failed += len(wrong)
        if wrong:
            place, text = next(iter(wrong.items()))
            print(f"{case.name}: {len(wrong)}, first {place}: {text[:200]}", flush=True)
    print(f"{trials} trials, {failed} failures")


if __name__ == "__main__":
    main()
