"""Checks of the arguments of a run, before its first step."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.algorithms import Chart, ConstraintMetric, rows_of
from phipsi.core.backends import quaternion_fix
from phipsi.core.model import Model, as_floats, place_name
from phipsi.errors import InputError, number_of, one_of
from phipsi.laws import JointRows, Quantity
from phipsi.simulation.integrators.tableaux import METHODS, Method

Array = NDArray[Any]

# Quaternions as close to unit as this come from rounding or printing and are normalised.
_NEARLY_UNIT = 1e-8
_SELF_STRESS = 1e-6  # of a unit load of a row: it can be carried by other rows as well


def checked_state(
    model: Model, chart: Chart, q: ArrayLike, v: ArrayLike, names: tuple[str, str] = ("q0", "v0")
) -> tuple[Array, Array]:
    """The state as new arrays (nq,), (nv,): right sizes, finite, unit quaternions."""
    out_q = _vector(model, q, names[0], "nq", model.nq, model.q_slices)
    out_v = _vector(model, v, names[1], "nv", model.nv, model.v_slices)
    check_quaternions(chart, out_q, names[0])
    for _, at in chart.named_quaternions:
        out_q[at] /= math.sqrt(float(out_q[at] @ out_q[at]))
    return out_q, out_v


def common_batch(given: Mapping[str, tuple[Array, int]]) -> tuple[int, ...]:
    """The leading axes of arrays by name, which broadcast; with each, how many axes are its own."""
    try:
        return np.broadcast_shapes(*(x.shape[: x.ndim - own] for x, own in given.values()))
    except ValueError:
        shapes = ", ".join(f"{name} {x.shape}" for name, (x, _) in given.items())
        raise InputError(f"the leading axes of {shapes} do not broadcast") from None


def check_quaternions(chart: Chart, q: Array, name: str) -> None:
    """Reject configurations (..., nq) whose quaternions are not unit to rounding or printing."""
    for joint, at in chart.named_quaternions:
        length = np.atleast_1d(np.sqrt(np.sum(q[..., at] ** 2, axis=-1)))
        bad = np.argwhere(np.abs(length - 1) > _NEARLY_UNIT)
        if len(bad):
            index = tuple(bad[0].tolist()) if q.ndim > 1 else ()
            where = f"{list(index)}" if index else ""
            raise InputError(
                f"{name}{where}: the quaternion of joint {joint!r} is {q[index][at].tolist()}, of "
                f"length {float(length[tuple(bad[0])]):.9g}, but rotations have unit quaternions "
                f"(w, x, y, z). {quaternion_fix(name, q[index], at)}"
            )


_UNPHYSICAL = 1e-3  # of the moments: less than finite differences and rounding change them


def check_inertias(model: Model, own: Array, value: Array) -> None:
    """Reject inertial parameters (..., n, 10) that no rigid body has; `own` are the model's."""
    given = value.reshape(-1, *own.shape)
    wrong = _unphysical(given) & ~_unphysical(own)
    if not wrong.any():
        return
    n, i = (int(k) for k in np.argwhere(wrong)[0])
    index = [int(k) for k in np.unravel_index(n, value.shape[:-2])]
    which = f" of trajectory {index}" if index else ""
    mass = given[n, i, 0]
    why = f"mass {mass:.4g} kg" if mass <= 0 else "moments that no rigid body has about its centre"
    raise InputError(
        f"parameters['inertia']: body {model.body_names[i]!r}{which} has {why}. The ten numbers of "
        "a body (mass, mass × centre, moments) belong together. For a mass larger by a factor, "
        "scale all ten:\n"
        "    pp.identification.inertial_parameters(model).reshape(-1, 10) * factor"
    )


def _unphysical(parameters: Array) -> Array:
    """Whether (..., n): negative mass, or moments about the centre that are no rigid body's."""
    m, mc, J = (
        parameters[..., 0],
        parameters[..., 1:4],
        parameters[..., [4, 7, 8, 7, 5, 9, 8, 9, 6]],
    )
    safe = np.where(m > 0, m, 1.0)
    along = mc[..., :, None] * mc[..., None, :] / safe[..., None, None]
    J = J.reshape(*m.shape, 3, 3)
    half = np.trace(J, axis1=-2, axis2=-1)[..., None, None] / 2 * np.eye(3)
    second = half - J - along  # ∫ x x* dm about the centre
    least = np.linalg.eigvalsh(second)[..., 0]
    size = np.abs(J).max(axis=(-2, -1)) + np.abs(along).max(axis=(-2, -1))
    return (m < 0) | ((m > 0) & (least < -_UNPHYSICAL * size))


def check_determined(mechanism: Model, q: Array, rows: Sequence[int]) -> None:
    """Reject configurations (n, nq) at which multipliers of these rows are not determined.

    A row that no joint moves carries nothing, and is determined.
    """
    if not rows or not len(q):
        return
    at = ConstraintMetric(rows_of(mechanism), q)
    found = []
    for i in rows:
        unit = np.zeros((len(q), mechanism.n_rows))
        unit[:, i] = 1.0
        kept = at.without_self_stress(unit)
        sizes = np.abs(kept).max(axis=-1), np.abs(kept - unit).max(axis=-1)
        if (np.minimum(*sizes) > _SELF_STRESS).any():
            found.append(repr(mechanism.row_names[i]))
    if found:
        raise InputError(
            f"a law reads the constraint loads of {', '.join(found)}, which are statically "
            "indeterminate: other rows can carry them as well (system.redundant_rows(q)). "
            "Remove redundant rows, or read the efforts of all constraints at the joints:\n"
            "    pp.signals.constraint_efforts()"
        )


def _vector(
    model: Model, values: ArrayLike, what: str, total: str, size: int, slices: Sequence[slice]
) -> Array:
    try:
        array = np.array(as_floats(what, values))
    except InputError as error:
        raise InputError(f"{what} is not an array of numbers: {error}.") from None
    if array.shape != (size,):
        names = ", ".join(f"{n!r}" for n in model.joint_names[:8])
        more = ", …" if model.n_bodies > 8 else ""
        batch = ""
        if array.ndim > 1 and array.shape[-1] == size:
            batch = " simulate takes one initial state. For a batch use pp.rollout or pp.Simulator."
        raise InputError(
            f"{what} has shape {array.shape}, but this model needs ({size},), {total} = {size} "
            f"(joints {names}{more}).{batch}"
        )
    for i in np.flatnonzero(~np.isfinite(array)):
        where = place_name(model.joint_names, slices, int(i))
        raise InputError(f"{what} is {array[i]} at joint {where}; it must be finite.")
    return array


_FOREIGN = {
    **dict.fromkeys(("ode45", "ode23", "ode78", "ode89", "ode113", "rk45", "dop853"), "dopri"),
    **dict.fromkeys(("ode15s", "ode23s", "ode23t", "ode23tb", "bdf", "radau5"), "radau"),
    **dict.fromkeys(("ode1", "euler", "semi_implicit_euler", "implicitfast"), "semi_implicit"),
    "ode4": "rk4",
}
"""Methods of MATLAB, SciPy and MuJoCo by name."""


def checked_word(integrator: str) -> str:
    """The name of an integrator."""
    own = isinstance(cast(object, integrator), str) and _FOREIGN.get(integrator.lower())
    if own:
        raise InputError(
            f"integrator={integrator!r} is not known here; the method of that kind is\n"
            f"    integrator={own!r}"
        )
    return one_of("integrator", integrator, METHODS)


def checked_method(integrator: str) -> Method:
    """The integrator of `simulate` by its name."""
    method = METHODS[checked_word(integrator)]
    if method.damping_implicit:
        raise InputError(
            f"integrator={integrator!r} needs the derivatives of laws, which Python functions do "
            "not have. Use it in a Simulator, with the dampers as laws:\n"
            f"    sim = pp.Simulator(model, laws, dt, integrator={integrator!r})\n"
            "or use one for stiff forces:  integrator='implicit_midpoint' or 'radau'"
        )
    return method


def reject_unfit(method: Method, *, rows: int = 0, prescribed: bool = False) -> None:
    """Reject a variational integrator where no unconstrained Lagrangian exists."""
    if not method.is_variational or not (rows or prescribed):
        return
    why, what = (
        (
            "joints with prescribed accelerations do not follow from a Lagrangian, so it has no "
            "conserved quantity"
        ),
        "prescribed joints",
    )
    if rows:
        why, what = (
            "the projection that closes the loops after every step would undo what it conserves "
            "(their forces would have to be part of its equation)",
            f"a system with {rows} constraint rows",
        )
    raise InputError(
        f"integrator={method.name!r} cannot be combined with {what}: {why}. Use another one:\n"
        "    integrator='rk4'"
    )


def check_contacts(method: Method, mechanism: Model, joints: JointRows | None = None) -> None:
    """Reject contacts, rigid stops and dry friction where their impulses are not known."""
    touching = mechanism.contact_pairs is not None
    if joints and not method.handles_contact:
        raise InputError(
            f"integrator={method.name!r} does not account for rigid joint limits and ropes "
            "(stiffness=inf) and dry friction (velocity_scale=0). Use time stepping, or pass a "
            "finite stiffness and a velocity_scale above 0:\n"
            "    integrator='time_stepping'"
        )
    if touching and not method.handles_contact:
        raise InputError(
            f"integrator={method.name!r} does not account for contacts. Use time stepping:\n"
            "    integrator='time_stepping'"
        )
    check_pairs(mechanism)
    if method.handles_contact and not touching and not joints:
        raise InputError(
            "integrator='time_stepping' needs a system with contacts:\n"
            "    pp.System(model, contacts=pp.Contacts(model))\n"
            "or rigid limits or dry friction of joints:\n"
            "    laws=[pp.forces.JointLimit(None, np.inf)]"
        )


def check_pairs(mechanism: Model) -> None:
    """Reject contacts without a pair: nothing would ever touch."""
    if mechanism.contact_pairs is not None and not mechanism.contact_pairs.n_slots:
        raise InputError(
            "the contacts of this system have no pair of shapes that may touch. Remove "
            "contacts=, or see which pairs there are:  pp.Contacts(model).pairs"
        )


def checked_time(
    value: float | str, what: str, *, zero: bool = False, backwards: bool = False
) -> float:
    """A finite time in s, positive unless `zero` is allowed, or of any sign if `backwards` is."""
    kind = f"a finite number of seconds{'' if backwards else ','}"
    return checked_number(value, what, kind, zero=zero, negative=backwards)


def checked_number(
    value: float | str, what: str, kind: str, *, zero: bool, negative: bool = False
) -> float:
    """A finite number, positive unless `zero` is allowed, or of any sign if `negative` is."""
    number = number_of(value)
    low = not negative and (number < 0 or (number == 0 and not zero))
    if low or not math.isfinite(number):
        least = "" if negative else " at least 0" if zero else " more than 0"
        hint = f", such as {what}=1e-3" if what == "dt" else ""
        raise InputError(f"{what}={value!r} must be {kind}{least}{hint}.")
    return number


def check_count(end: float, dt: float) -> None:
    """Reject fixed steps that are too many to be counted."""
    if end / 2**53 > dt:
        raise InputError(
            f"dt={dt!r} s is too small for {end:g} s: there would be too many steps. Increase "
            "dt, for example dt=1e-3"
        )


def checked_tolerances(rtol: Any, atol: Any) -> tuple[float, float]:
    """Relative and absolute tolerance of the adaptive methods."""
    r = checked_number(rtol, "rtol", "a finite number of", zero=False)
    a = checked_number(atol, "atol", "a finite number of", zero=True)
    least = 100 * np.finfo(float).eps
    if r < least:
        raise InputError(
            f"rtol={rtol!r} asks for more digits than double precision has. It must be at least "
            f"{least:.2g}; 1e-12 is already tight."
        )
    return r, a


def checked_output_times(times: Any, duration: float) -> Array | None:
    """Increasing times within the run, or None."""
    if times is None:
        return None
    try:
        array = np.array(as_floats("output_times", times))
    except InputError:
        array = np.array([[np.nan]])
    if array.ndim != 1 or not np.isfinite(array).all():
        raise InputError(
            "output_times must be a list of finite times (k,), for example "
            "np.linspace(0, duration, 101)."
        )
    if (np.diff(array) <= 0).any():
        k = int(np.flatnonzero(np.diff(array) <= 0)[0])
        raise InputError(
            f"output_times must increase, but {array[k + 1]} follows {array[k]}. "
            f"Sort them:  np.unique(output_times)"
        )
    if array.size and (array[0] < 0 or array[-1] > duration):
        outside = array[0] if array[0] < 0 else array[-1]
        raise InputError(
            f"output_times has {outside}, but the simulation goes from 0 to {duration} s."
        )
    return array


def checked_parameter(known: Quantity, value: Any) -> Array:
    """Values (..., *shape) of a parameter or state of laws, in whatever shape they come.

    They are finite. Where the default is infinite, a limit that is none, they may be so too, with
    its sign.
    """
    array, own = as_floats(known.name, value), np.asarray(known.value, dtype=np.float64)
    if array.shape[array.ndim - own.ndim :] != own.shape:
        return array  # the caller says which shapes there are
    fine = np.isfinite(array) | (np.isinf(own) & (array == own))
    if not fine.all():
        index = tuple(int(i) for i in np.argwhere(~fine)[0])
        may = own[index[array.ndim - own.ndim :]]
        more = f", or {may}, which stands for no limit" if np.isinf(may) else ""
        raise InputError(
            f"{known.name} is {array[index]} at index {list(index)}; it must be finite{more}"
        )
    if known.range is not None and not (fine := known.range.holds(array)).all():
        index = tuple(int(i) for i in np.argwhere(~fine)[0])
        where = f" at index {list(index)}" if index else ""
        raise InputError(f"{known.name} is {array[index]}{where}; it must be {known.range}")
    if known.fixed is not None:
        where, why = known.fixed
        changed = where & (array != own)
        if changed.any():
            index = tuple(int(i) for i in np.argwhere(changed)[0])
            default = own[index[array.ndim - own.ndim :]]
            raise InputError(
                f"{known.name} is {array[index]} at index {list(index)}, but the simulator was "
                f"made with {default}, and it cannot change: {why}"
            )
    return array


_WORTH_A_QUESTION = 2**30  # bytes: less is simply asked for where it is needed


def check_room(each: int, *given: tuple[Any, int], count: int | None = None) -> None:
    """Reject a batch for which there is no memory, before any of its numbers is looked at.

    **Arguments:** `each`, bytes that one trajectory takes; `given`, arrays with the number of their
    own axes, whose leading axes are the batch; or its size, `count`.
    """
    if count is None:
        shapes = [getattr(x, "shape", ()) for x, _ in given]
        axes = [n for _, n in given]
        try:
            leading = [s[: max(len(s) - n, 0)] for s, n in zip(shapes, axes, strict=True)]
            count = math.prod(np.broadcast_shapes(*leading))
        except (TypeError, ValueError):  # said where the shapes are checked
            return
    size = each * count
    if size < _WORTH_A_QUESTION:
        return
    try:
        if size >= 2**63:
            raise MemoryError
        np.empty(size, dtype=np.uint8)
    except MemoryError:
        raise InputError(
            f"{count:,} trajectories of {each} bytes each need {float(size):.2g} bytes, which is "
            "more than the available memory. Use smaller batches"
        ) from None
