"""The operations of bodies with modes: rows of the table in `operations.py`.

Blocks have 6 + n rows ("b"), those of the parent 6 + m ("B"). What crosses a port reads X_J of the
joint and modal rows of the parent.
"""

from __future__ import annotations

from typing import Any

from phipsi.sweeps import bodies, modal_bodies, modal_changes
from phipsi.sweeps.ir import Cost, Domain, Keep, Kind, Naming, Operation, Variant

EACH = range(100)
"""Linear in each of its arguments."""


def _modal(
    name: str, meaning: str, body: Any, rows: str, cols: str, form: str, latex: str = "",
    cost: Cost | int = 0, **more: Any,
) -> None:  # fmt: skip
    """An operation of mechanisms with flexible bodies."""
    Operation(
        name, meaning, body=body, rows=rows, cols=cols, form=form, latex=latex or form, cost=cost,
        domain=Domain.BODY, variant=Variant.JOINT, modal=name, **more,
    )  # fmt: skip


# fmt: off
_SQUARE: dict[str, Any] = {"keep": Keep.AGAIN, "naming": Naming.INLINE, "kind": Kind.SYMMETRIC}
_modal("rigid_rows", "the six rigid rows of a body", modal_bodies.rigid_rows, "b", "6", "I₆",
       "I_6", keep=Keep.KNOWN, naming=Naming.INLINE)
_modal("modal_hinge_axes", "H* with modal rows", modal_bodies.hinge_axes, "b", "r", "H*({at})",
       "H^{*}({at})", keep=Keep.KNOWN, naming=Naming.INLINE, starred=("H({at})", "H({at})"))
_modal("modal_hinge_rate", "Ḣ* with modal rows", modal_bodies.hinge_axes_rate, "b", "r",
       "Ḣ*({at})", r"\dot{H}^{*}({at})", naming=Naming.INLINE,
       starred=("Ḣ({at})", r"\dot{H}({at})"))
_modal("modal_inertia", "M(η)", modal_bodies.inertia, "b", "b", "M({at})", kind=Kind.SYMMETRIC,
       cost=lambda x, size: 15 * size("m") ** 2)
_modal("gyroscopic", "b with elastic forces", modal_bodies.gyroscopic, "b", "1", "b({...})",
       cost=lambda x, size: 100 + 25 * size("m") ** 2)
_modal("modal_bias", "a of a body on a port", modal_bodies.bias, "b", "1", "a({...})",
       cost=lambda x, size: 150 + 20 * size("m") ** 2)
_modal("modal_step", "E_φ(parent, k) with modal rows", modal_bodies.step, "B", "b", "φ{pair}",
       r"\phi{pair}", naming=Naming.INLINE, kind=Kind.STEP, cost=lambda x, size: 15 * size("m"))
_modal("port_transform", "φ(parent, port)", modal_bodies.port_transform, "6", "6", "port({at})",
       r"\operatorname{port}({at})", kind=Kind.RIGID, cost=lambda x, size: 60 + 15 * size("m"))
_modal("port_motion", "Π: how modes move a port", modal_bodies.port_motion, "6", "m", "Π({at})",
       r"\Pi({at})", cost=lambda x, size: 40 * size("m"))
_modal("modal_coordinates", "η", modal_bodies.coordinates, "r", "1", "η({at})", r"\eta({at})",
       naming=Naming.INLINE)
_modal("modal", "the identity on modes", modal_bodies.selection, "r", "r", "modal({at})", **_SQUARE)
_modal("K_e", "stiffness of the modes", modal_bodies.elastic, "r", "r", "K_e({at})", **_SQUARE)
_modal("C_e", "damping of the modes", modal_bodies.elastic, "r", "r", "C_e({at})", **_SQUARE)
# fmt: on

# ---- how they change -----------------------------------------------------------------------------


def _call(name: str, latex: str) -> tuple[str, str]:
    return f"{name}({{...}})", rf"{latex}({{...}})"


# fmt: off
_modal("inertia_along", "M(η) along modes", modal_changes.inertia_along, "b", "b",
       *_call("Ṁ", r"\dot{M}"), kind=Kind.SYMMETRIC, linear=EACH,
       cost=lambda x, size: 10 * size("m") ** 2)
_modal("dM", "how M y changes with each mode", modal_changes.dM, "b", "b",
       *_call("dM", r"\delta M"), linear=EACH, cost=lambda x, size: 20 * size("m") ** 2)
_modal("ddM", "how x* Ṁ{s} y changes with each mode", modal_changes.ddM, "b", "b",
       *_call("ddM", r"\delta^2 M"), kind=Kind.SYMMETRIC, linear=(0, 1),
       cost=lambda x, size: 20 * size("m") ** 2)
_modal("dM_trace", "how tr(M Z) changes with each mode", modal_changes.dM_trace, "b", "1",
       *_call("dM_trace", r"\operatorname{\delta M_{tr}}"), linear=EACH,
       cost=lambda x, size: 20 * size("m") ** 2)
_modal("step_along", "E_φ along modes of the parent", modal_changes.step_along, "B", "b",
       *_call("Ė", r"\dot{\mathcal{E}}_{\phi}"), linear=EACH[1:],
       cost=lambda x, size: 150 + 100 * size("m"))
_modal("dE", "how E_φ f changes with each mode of the parent", modal_changes.dE, "B", "B",
       *_call("dE", r"\delta \mathcal{E}_{\phi}"), linear=EACH[1:],
       cost=lambda x, size: 200 * size("m") + 80 * size("m") ** 2)
_modal("dET", "how E_φ* y changes with each mode of the parent", modal_changes.dET, "b", "B",
       *_call("dET", r"\delta \mathcal{E}_{\phi}^{*}"), linear=EACH[1:],
       cost=lambda x, size: 200 * size("m") + 80 * size("m") ** 2)
_modal("dE_trace", "how tr(E_φ Y) changes with each mode of the parent", modal_changes.dE_trace,
       "B", "1", *_call("dE_trace", r"\operatorname{\delta E_{tr}}"), linear=EACH[1:],
       cost=lambda x, size: 200 * size("m") + 80 * size("m") ** 2)
_modal("modal_hinge_along", "H* along rates, with modal rows", modal_changes.hinge_along, "b", "r",
       *_call("Ḣ*", r"\dot{H}^{*}"), linear=EACH)
_modal("modal_dHT", "how H* w changes with the rates, with modal rows", modal_changes.dHT, "b", "r",
       *_call("dHT", r"\delta H^{*}"), linear=EACH)
_modal("modal_crm", "V × of the rigid rows, with modal rows", modal_changes.crm, "b", "b",
       *_call("rigid_cross", r"\operatorname{cross_{r}}"), linear=(0,))
_modal("modal_crq", "V ↦ V ×* f of the rigid rows, with modal rows", modal_changes.crq, "b", "b",
       *_call("rigid_cross_force", r"\operatorname{cross_{rf}}"), linear=(0,))
_modal("modal_vee", "tr(rigid_cross(u) X) by u, with modal rows", modal_changes.vee, "b", "1",
       *_call("rigid_vee", r"\operatorname{vee_{r}}"), linear=(0,))
_modal("modal_vee_force", "tr(rigid_cross_force(u) X) by u, with modal rows",
       modal_changes.vee_force, "b", "1", *_call("rigid_vee_force", r"\operatorname{vee_{rf}}"),
       linear=(0,))
_modal("modal_regress", "π ↦ M(π) z, with modal rows", modal_changes.regress, "b", "10",
       *_call("regress", r"\operatorname{regress}"), linear=(0,))
_modal("modal_inertia_of", "M(π), with modal rows", modal_changes.inertia_of, "b", "b",
       *_call("inertia_of", r"\operatorname{M_{\pi}}"), kind=Kind.SYMMETRIC, linear=(0,))
_modal("modal_inertia_trace", "tr(M(π) X) by π, of the rigid rows", bodies.inertia_trace, "10", "1",
       *_call("inertia_trace", r"\operatorname{M_{tr}}"), linear=(0,))
_modal("modal_rows", "efforts of modes as rows of forces", modal_changes.rows_of_modes, "b", "r",
       "modal_rows", r"\mathrm{rows}_{\eta}", keep=Keep.KNOWN, naming=Naming.INLINE)
# fmt: on
