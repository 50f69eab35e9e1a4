"""What the names of draws mean: initial states, parameters of laws, masses, gravity."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from phipsi.errors import InputError, did_you_mean
from phipsi.model.rotor_inertias import fold
from phipsi.motion.step_graph import INERTIA
from phipsi.simulation.simulator import Simulator

Array = NDArray[Any]
_WHOLE = ("q", "v", "t")


@final
class NamedDraws:
    """Draws by name as the arguments of `Simulator.start`.

    **Arguments:** `simulator`; `names` of the draws; `q0` and `v0`, where runs start in what no
    draw names: neutral and at rest if None.
    """

    def __init__(
        self, simulator: Simulator, names: Sequence[str], q0: Array | None, v0: Array | None
    ) -> None:
        model = simulator.model
        self._simulator, self._names = simulator, tuple(names)
        self._first = {
            "q": model.neutral() if q0 is None else q0,
            "v": np.zeros(model.nv) if v0 is None else v0,
        }
        self._joints = {
            **{f"q.{joint}": ("q", model.q_slice(joint)) for joint in model.joint_names},
            **{f"v.{joint}": ("v", model.v_slice(joint)) for joint in model.joint_names},
        }
        self._shapes = {
            name: () if x is None else np.shape(x) for name, x in simulator.parameters.items()
        }
        self._bodies: dict[str, int] = {}
        if INERTIA in simulator.parameters:
            self._bodies = {f"mass.{name}": i for i, name in enumerate(model.body_names)}

    def _whole(self, name: str, x: Array) -> Array:
        """One number for all entries of a parameter."""
        shape = self._shapes[name]
        if x.ndim > 1 or not shape:
            return x
        return np.broadcast_to(x.reshape(-1, *(1 for _ in shape)), (len(x), *shape))

    def check(self) -> None:
        """Reject names that mean nothing."""
        plain = [*_WHOLE, *self._simulator.parameters]
        options = [*plain, *self._joints, *self._bodies]
        for name in self._names:
            if name not in options:
                joint = self._simulator.model.joint_names[0]
                listed = ", ".join([*plain, f"q.{joint}, v.{joint} and so on for other joints"])
                hint = did_you_mean(name, options)
                mass = name.startswith("mass.") and not self._bodies
                more = " Masses need  pp.Simulator(…, given=('inertia',))." if mass else ""
                raise InputError(
                    f"draws[{name!r}] is none of {listed}. {hint}{more} With start= draws may have "
                    "any names"
                )
            part, _, _ = name.partition(".")
            if name in self._joints and part in self._names:
                raise InputError(f"draws has both {part!r}, all of it, and {name!r}, a part")
            if name in self._bodies and INERTIA in self._names:
                raise InputError(f"draws has both {INERTIA!r} and {name!r}, a part of it")

    def arguments(self, draws: dict[str, Array]) -> dict[str, Any]:
        """The arguments of `Simulator.start` for draws (n, *shape)."""
        n = len(next(iter(draws.values())))
        out: dict[str, Any] = {name: x for name, x in self._first.items() if name not in draws}
        out |= {name: x for name, x in draws.items() if name in _WHOLE}
        parameters = {n: self._whole(n, x) for n, x in draws.items() if n in self._shapes}
        inertia: Array | None = None
        model = self._simulator.model
        rotors = fold(model.description).parameters if model.rotors else None
        for name, x in draws.items():
            if name in self._joints:
                part, rows = self._joints[name]
                if out[part].ndim == 1:
                    out[part] = np.repeat(out[part][None], n, axis=0)
                size = rows.stop - rows.start
                if x.reshape(n, -1).shape[1] != size:
                    raise InputError(
                        f"draws[{name!r}] has shape {x.shape[1:]}, it has {size} numbers"
                    )
                out[part][:, rows] = x.reshape(n, size)
            elif name in self._bodies:
                if inertia is None:
                    nominal = np.asarray(self._simulator.parameters[INERTIA])
                    inertia = np.repeat(nominal.reshape(1, -1, 10), n, axis=0)
                body = self._bodies[name]
                if not inertia[0, body, 0]:
                    raise InputError(f"draws[{name!r}]: the body has no mass that could grow")
                ratio = (x.reshape(n) / inertia[0, body, 0])[:, None]
                if rotors is not None:  # of motors, which stay as they are
                    inertia[:, body] -= rotors[body]
                inertia[:, body] *= ratio
                if rotors is not None:
                    inertia[:, body] += rotors[body]
        if inertia is not None:
            parameters[INERTIA] = inertia
        return {**out, "parameters": parameters}
