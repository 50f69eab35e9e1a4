"""Arguments of a program: by position or name, broadcast, and checked with the joint's name."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast
from weakref import WeakSet

import numpy as np

from phipsi.core.backends.errors_from_status import NOT_FINITE, SYMMETRY_TOLERANCE
from phipsi.core.model import Model, as_numbers, finite, first_not_finite
from phipsi.errors import InputError, warn

if TYPE_CHECKING:
    from phipsi.core.backends.backend import SweepProgram

Array = np.ndarray


def bind_arguments(
    program: SweepProgram, args: Sequence[Any], named: Mapping[str, Any]
) -> tuple[dict[str, Array], tuple[int, ...]]:
    """The inputs as arrays by name, and the common batch shape."""
    values = by_name(program.inputs, args, named)
    arrays: dict[str, Array] = {n: as_numbers(n, values[n]) for n in program.inputs}
    batch, columns = check_shapes(program, {n: a.shape for n, a in arrays.items()})
    if columns is not None:
        arrays["columns"] = np.zeros(columns)
    return arrays, batch


def check_shapes(
    program: SweepProgram, shapes: Mapping[str, tuple[int, ...]]
) -> tuple[tuple[int, ...], int | None]:
    """The common batch shape of inputs of these shapes, and their number of columns, if any."""
    batches: list[tuple[int, ...]] = []
    columns: int | None = None
    expected_shapes = program.input_shapes
    for name in program.inputs:
        shape, expected = shapes[name], expected_shapes[name]
        lead = len(shape) - len(expected)
        core = shape[max(lead, 0) :]
        if lead < 0 or not all(e in (-1, c) for e, c in zip(expected, core, strict=True)):
            raise InputError(_shape_text(program, name, expected, shape))
        if -1 in expected:
            if columns not in (None, core[-1]):
                raise InputError(
                    f"operands have {columns} and {core[-1]} columns; these numbers must be equal"
                )
            columns = core[-1]
        batches.append(shape[:lead])
    return _common_batch(program.inputs, batches), columns


def by_name(names: Sequence[str], args: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by the names of the inputs of a program, each given once."""
    signature = f"this program takes ({', '.join(names)})"
    if len(args) > len(names):
        raise InputError(f"{len(args)} arguments were given, but {signature}")
    values = dict(zip(names, args, strict=False))
    for name, value in named.items():
        if name not in names:
            raise InputError(f"there is no input {name!r}; {signature}")
        if name in values:
            raise InputError(f"input {name!r} was given twice; {signature}")
        values[name] = value
    missing = [name for name in names if name not in values]
    if missing:
        more = ""
        if "Udot" in missing:
            more = (
                ". Udot are the accelerations that constraint rows prescribe, one for each row; "
                "rows that prescribe none have 0:  Udot=np.zeros(system.n_rows)"
            )
        raise InputError(f"missing {', '.join(missing)}; {signature}{more}")
    return values


def real_array(name: str, value: Any) -> Array:
    """Finite real numbers."""
    a = as_numbers(name, value)
    if a.dtype != np.float64:
        raise InputError(f"{name} holds {a.dtype}, but must be real numbers here")
    index = first_not_finite(a)
    if index is not None:
        raise InputError(f"{name} is {a[index]} at index {list(index)}; it must be finite")
    return a


def state_arrays(
    model: Model, *, real: bool = True, finite: bool = True, **named: Any
) -> tuple[Array, ...]:
    """Configurations (``q…``) and joint rates or efforts of a model, which broadcast."""
    out = tuple(
        joint_array(model, name, value, "nq" if name[0] == "q" else "nv", real=real, finite=finite)
        for name, value in named.items()
    )
    _common_batch(named, [a.shape[:-1] for a in out])
    return out


def _common_batch(names: Iterable[str], batches: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    """The batch axes of all arguments together, which must broadcast."""
    try:
        return np.broadcast_shapes(*batches)
    except ValueError:
        shown = ", ".join(f"{n}: {b}" for n, b in zip(names, batches, strict=True))
        raise InputError(f"the batch axes do not broadcast: {shown}") from None


def joint_array(
    model: Model, name: str, value: Any, symbol: str, *, real: bool = True, finite: bool = True
) -> Array:
    """Numbers (..., nq) or (..., nv) of a model, finite if asked for; `symbol` says which."""
    a = as_numbers(name, value)
    size, slices = getattr(model, symbol), model.q_slices if symbol == "nq" else model.v_slices
    if not a.ndim or a.shape[-1] != size:
        names = ", ".join(map(repr, model.joint_names[:8]))
        raise InputError(
            f"{name} has shape {a.shape}, but its last axis must be {symbol} = {size} "
            f"(joints {names}{', …' if model.n_bodies > 8 else ''})."
        )
    if real and a.dtype != np.float64:
        raise InputError(f"{name} holds {a.dtype}, but must be real numbers here")
    index = first_not_finite(a) if finite else None
    if index is not None:
        batch = f" (element {list(index[:-1])} of the batch)" if index[:-1] else ""
        joint = joint_at(model, slices, index[-1])
        raise InputError(f"{name} is {a[index]} at joint {joint!r}{batch}; it must be finite")
    return a


_FAR_FROM_UNIT = 1e-3  # of the length of a quaternion: more than rounding and printed digits
_TOLD = WeakSet[Model]()  # models with a warning already


def quaternion_fix(name: str, q: Array, at: slice) -> str:
    """What to write for one configuration (nq) whose quaternion at `at` is far from unit."""
    after = q[at.start + 3 : at.start + 7]  # where MuJoCo and Pinocchio have it in a free joint
    if len(after) == 4 and abs(np.linalg.norm(after) - 1) < _FAR_FROM_UNIT:
        return (
            "In the order of MuJoCo or Pinocchio, with the position first? Convert it:\n"
            f"    {name} = pp.conventions.from_mujoco(model, {name}).q  # or from_pinocchio"
        )
    part = f"{name}[..., {at.start}:{at.stop}]"
    return (
        "Start from model.neutral(), or divide by the length:\n"
        f"    {part} /= np.linalg.norm({part}, axis=-1, keepdims=True)"
    )


def warn_of_quaternions(model: Model, value: Any) -> None:
    """Warn once of a model whose configuration seems to be in another library's order.

    It costs a few microseconds, so programs call it at their first call only.
    """
    places = [
        (name, slice(i, i + 4))
        for name, joint, at in zip(model.joint_names, model.joints, model.q_slices, strict=True)
        for group, i, _ in joint.parts(at.start, 0)
        if group.rotation is not None and group.rotation.size == 4
    ]
    if not places or model in _TOLD or not isinstance(value, np.ndarray | list | tuple):
        return
    try:
        q: Array = np.asarray(cast(Any, value))
    except (TypeError, ValueError):  # the program says what is wrong with it
        return
    if q.dtype.kind not in "fi" or not q.ndim or q.shape[-1] != model.nq:
        return
    q = q.reshape(-1, model.nq)
    for name, at in places:
        lengths = np.linalg.norm(q[:, at], axis=-1)
        far = np.flatnonzero((np.abs(lengths - 1) > _FAR_FROM_UNIT) & (lengths > 0))
        if len(far):
            one = q[far[0]]
            _TOLD.add(model)
            fix = quaternion_fix("q", one, at)
            warn(
                f"q: the quaternion (w, x, y, z) of joint {name!r} is {one[at].tolist()}, of "
                f"length {lengths[far[0]]:.6g}; its direction is used. {fix}"
            )
            return


def joint_at(model: Model, slices: Sequence[slice], index: int) -> str:
    """The joint that an entry of q or v belongs to; empty if there is none."""
    pairs = zip(model.joint_names, slices, strict=True)
    return next((joint for joint, s in pairs if s.start <= index < s.stop), "")


def _shape_text(
    program: SweepProgram, name: str, expected: tuple[int, ...], got: tuple[int, ...]
) -> str:
    m = program.model
    wanted = ", ".join("columns" if e == -1 else str(e) for e in expected)
    names = {"q": "nq", "v": "nv", "vdot": "nv", "tau": "nv", "free": "nv"}
    size = f"{names[name]} = {expected[0]}" if name in names else "see Program.inputs"
    return (
        f"{name} has shape {got}, but this model needs (..., {wanted})  ({size}).\n"
        f"The model has {m.n_bodies} bodies, nq = {m.nq}, nv = {m.nv}; "
        "batches go on leading axes."
    )


def check_finite(program: SweepProgram, arrays: Mapping[str, Array]) -> None:
    """Reject NaN and infinity, naming the joint or body and the element."""
    for name, a in arrays.items():
        index = None if name == "columns" else first_not_finite(a)
        if index is None:
            continue
        core = len(program.input_shapes[name])
        where = _place(program, name, index[len(index) - core :])
        batch = f" (element {list(index[:-core])} of the batch)" if index[:-core] else ""
        raise InputError(f"{name} is {a[index]} at {where}{batch}; inputs must be finite")


def check_symmetric(program: SweepProgram, arrays: Mapping[str, Array]) -> None:
    """Reject given blocks of a symmetric operator that are not symmetric, naming the body.

    Machine code looks for them too (`not_symmetric` in `native/kernel/results.py`), and leaves such
    calls to this one.
    """
    for name in program.symmetric_inputs:
        a = arrays[name]
        if a.shape[-1] != a.shape[-2]:
            continue
        apart = np.abs(a - np.swapaxes(a, -1, -2)).max(axis=(-1, -2), initial=0.0)
        bad = np.argwhere(apart > SYMMETRY_TOLERANCE * np.abs(a).max(axis=(-1, -2), initial=0.0))
        if len(bad):
            index = tuple(int(i) for i in bad[0])
            named = program.input_shapes[name][0] == program.model.n_bodies and a.ndim > 2
            where = f" of body {program.model.body_names[index[-1]]!r}" if named else ""
            raise InputError(
                f"{name} is symmetric, but the given block{where} is not: it differs from its "
                f"transpose by {apart[index]:.3g}. Pass the symmetric part:  (X + X.mT) / 2"
            )


def of_bad_inputs(
    program: SweepProgram, arrays: Mapping[str, Array], batch: tuple[int, ...], status: Array
) -> Array:
    """The status; elements whose inputs are NaN or infinite fail for that reason."""
    bad = np.zeros(batch, dtype=bool)
    shapes = program.input_shapes
    for name in program.inputs:
        a = arrays[name]
        bad = bad | ~finite(a).all(axis=tuple(range(a.ndim - len(shapes[name]), a.ndim)))
    return np.where(bad, NOT_FINITE, status)


def _place(program: SweepProgram, name: str, index: tuple[int, ...]) -> str:
    m = program.model
    if len(index) == 1 and name != "f0":
        slices = m.q_slices if name == "q" else m.v_slices
        joint = joint_at(m, slices, index[0])
        if joint and name not in ("gravity", "Udot"):
            return f"joint {joint!r}"
    if len(index) > 1 and index[0] < m.n_bodies and name not in ("f0", "G", "H"):
        return f"body {m.body_names[index[0]]!r}"
    return f"index {list(index)}"
