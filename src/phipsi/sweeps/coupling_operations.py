"""The operations of Γ, what drives add to blocks of six rows: rows of the table in `operations.py`.

A body behind a drive has its own code, and at other bodies they are known to be zero.
"""

from __future__ import annotations

from typing import Any

from phipsi.sweeps import coupling_bodies as bodies
from phipsi.sweeps.ir import Domain, Kind, Naming, Operation, Variant
from phipsi.sweeps.modal_operations import EACH


def _coupling(
    name: str, meaning: str, body: Any, rows: str, cols: str, form: str, latex: str = "",
    cost: int = 0, **more: Any,
) -> None:  # fmt: skip
    Operation(
        name, meaning, body=body, rows=rows, cols=cols, form=form, latex=latex or form, cost=cost,
        domain=Domain.BODY, variant=Variant.JOINT, **more,
    )  # fmt: skip


# fmt: off
_coupling("coupling", "Γ of a drive", bodies.coupling, "6", "r", "Γ({at})", r"\Gamma({at})", 60,
          naming=Naming.INLINE, starred=("Γ*({at})", r"\Gamma^{*}({at})"))
_coupling("drive_corner", "inertia between the rates of a drive", bodies.inertia_of_corner,
          "r", "r", "A_Γ({at})", r"A_{\Gamma}({at})", 10, naming=Naming.INLINE, kind=Kind.SYMMETRIC)
_coupling("drive_inertia", "the same with H Γ + Γ* H*", bodies.inertia_with_hinge, "r", "r",
          "J_Γ({at})", r"J_{\Gamma}({at})", 6, naming=Naming.INLINE, kind=Kind.SYMMETRIC)
_coupling("coupling_spin", "cross_force(Γ w)", bodies.spin, "6", "6", "cross_force({0} {1})",
          r"\operatorname{cross_{f}}({0} {1})", 3, kind=Kind.GYRATION, linear=EACH)
_coupling("coupling_swept", "V ×* Γ", bodies.swept, "6", "r", "{1} ×* {0}", r"{1} \times^{*} {0}",
          10, linear=EACH)
_coupling("coupling_force", "b with what a drive adds", bodies.force, "6", "1", "b_Γ({...})",
          r"b_{\Gamma}({...})", 50)
_coupling("coupling_effort", "b of the rates of a drive", bodies.effort, "r", "1", "e_Γ({...})",
          r"e_{\Gamma}({...})", 20)
_coupling("coupling_along", "Γ along rates", bodies.coupling_along, "6", "r", "Γ̇({...})",
          r"\dot{\Gamma}({...})", 10, linear=EACH)
_coupling("corner_along", "the inertia of a drive along rates", bodies.corner_along, "r", "r",
          "Ȧ_Γ({...})", r"\dot{A}_{\Gamma}({...})", 10, linear=EACH, kind=Kind.SYMMETRIC)
_coupling("coupling_change", "how Γ y changes with the rates", bodies.coupling_change, "6", "r",
          "dΓ({...})", r"\delta \Gamma({...})", 10, linear=EACH)
_coupling("coupling_change_back", "how Γ* y changes with the rates", bodies.coupling_change_back,
          "r", "r", "dΓT({...})", r"\delta \Gamma^{*}({...})", 10, linear=EACH)
_coupling("coupling_change_of_one", "the same of drives with one rate",
          bodies.coupling_change_of_one, "r", "r", "dΓT({...})", r"\delta \Gamma^{*}({...})", 10,
          linear=EACH, kind=Kind.SYMMETRIC)
_coupling("corner_change", "how the inertia of a drive times y changes", bodies.corner_change,
          "r", "r", "dA_Γ({...})", r"\delta A_{\Gamma}({...})", 10, linear=EACH)
_coupling("coupling_second", "how y* Γ̇{s} z changes with the rates", bodies.second_change,
          "r", "r", "ddΓ({...})", r"\delta^2 \Gamma({...})", 20, linear=EACH, kind=Kind.SYMMETRIC)
_coupling("coupling_trace", "how tr(Γ Y) changes with the rates", bodies.trace, "r", "1",
          "tr_Γ({...})", r"\operatorname{tr_{\Gamma}}({...})", 20)
_coupling("turning", "rows that sliding does not enter", bodies.turning, "r", "6", "{0}",
          kind=Kind.TURNING, naming=Naming.INLINE, linear=EACH)
# fmt: on
