"""Events when a contact is about to open or slip."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast, final

import numpy as np
from numpy.typing import NDArray

from phipsi.algorithms.constrained.system import System
from phipsi.algorithms.grasping.grasp import Grasp
from phipsi.errors import InputError
from phipsi.forces.force import Elements, Force
from phipsi.model.mechanisms import of_mechanisms
from phipsi.simulation.events import Event

Array = NDArray[Any]


@final
class ContactMargin:
    """The smallest margin of a contact's inequalities as a function of (t, q, v).

    It is the number of an `Event`: zero where the contact begins to open or to slip. The contact
    forces are those under the efforts of `controller(t, q, v)`, none if it is None, and of the
    force elements `forces`.
    """

    def __init__(
        self,
        grasp: Grasp,
        contact: str,
        controller: Callable[..., Any] | None = None,
        forces: Sequence[Force] = (),
    ) -> None:
        if contact not in grasp.contact_names:
            raise InputError(f"there is no contact {contact!r}; {list(grasp.contact_names)} are.")
        self.grasp, self.contact, self.controller = grasp, contact, controller
        self._elements = Elements(forces, grasp.model)
        start = f"{contact}: "
        self._zero = np.zeros(grasp.model.nv)
        names = [f"{c.name}: {cone.name}" for c in grasp.contacts for cone in c.cones()]
        self._mine = [i for i, name in enumerate(names) if name.startswith(start)]

    def __call__(self, t: float, q: Array, v: Array) -> float:
        """The margin in N."""
        tau = self._zero if self.controller is None else self.controller(t, q, v)
        state = self._elements.state(t, q, v)
        tau, loads = self._elements.acting(state, tau)
        margins = self.grasp.check(q, v, tau, *loads).margins[..., self._mine]
        return float(margins.min(initial=np.inf)) if margins.size else 1.0

    def within(
        self, system: System, controller: Callable[..., Any] | None, forces: Sequence[Force] = ()
    ) -> Any:
        """The same in another phase of a run; 1 where the contact does not act."""
        if not isinstance(system, Grasp) or self.contact not in system.contact_names:
            return lambda t, q, v: 1.0
        return ContactMargin(system, self.contact, controller, forces)


@of_mechanisms
def contact_events(
    grasp: Grasp,
    controller: Callable[..., Any] | None = None,
    *,
    forces: Sequence[Force] = (),
    action: Any = None,
) -> list[Event]:
    """One event per one-sided contact that triggers when it begins to open or to slip.

    **Arguments:** `grasp`; `controller` and `forces`, those of the run; `action`, as for `Event`:
    None records, "stop" ends the run; "release" takes the contact away, as it happens to a finger
    that lifts off.
    **Returns:** events named "contact 'left' breaks". **Source:** theory/closed-chains 9.

    >>> import numpy as np, phipsi as pp
    >>> grasp = pp.examples.two_finger_grasp()
    >>> [event.name for event in pp.contact_events(grasp)]
    ["contact 'left' breaks", "contact 'right' breaks"]
    """
    from phipsi.simulation.topology import Release

    if not isinstance(cast(object, grasp), Grasp):
        raise InputError(
            f"contact_events needs a pp.Grasp, which has contacts, not {type(grasp).__name__}"
        )
    out = []
    for c in grasp.contacts:
        if c.cones():
            act = Release(c.name) if action == "release" else action
            name = f"contact {c.name!r} breaks"
            margin = ContactMargin(grasp, c.name, controller, forces)
            out.append(Event(margin, -1, act, name))
    return out
