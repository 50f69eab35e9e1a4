"""Claims about constraint rows are decided exactly, on trees whose loops are open."""

import numpy as np
import pytest

import phipsi as pp
from phipsi.errors import InputError

COMPLIANCE = "A B* φ* H* ℳ⁻¹ H φ B A* = A B* Ω B A*"


def system(*kinds: str) -> pp.System:
    """A tree with two arms whose hands are joined, in a plane that is not along the axes."""
    builder = pp.ModelBuilder()
    rod = pp.SpatialInertia(1.5, (0.3, 0.1, 0.0), (0.01, 0.05, 0.05))
    builder.add_body("base", joint=pp.joints.Free(), inertia=rod)
    for arm in ("left", "right"):
        parent = "base"
        for k, axis in enumerate([(0.6, 0, 0.8), (0, 1, 0)]):
            builder.add_body(
                f"{arm}{k}",
                parent=parent,
                joint=pp.joints.Revolute(axis),
                placement=pp.Pose.from_rpy((0.1, 0.2, 0.3), (0.4, 0.1, 0)),
                inertia=rod,
            )
            parent = f"{arm}{k}"
    ends = {"a": ("left1", pp.Pose(translation=(0.5, 0, 0))), "b": "right1"}
    made = {
        "ball": lambda: pp.constraints.Spherical(name="ball", **ends),
        "pin": lambda: pp.constraints.Revolute(name="pin", axis=(0, 0, 1), **ends),
        "weld": lambda: pp.constraints.Weld(name="weld", **ends),
        "rod": lambda: pp.constraints.Distance(name="rod", length=0.3, **ends),
    }
    return pp.System(builder.build(), [made[kind]() for kind in kinds])


@pytest.mark.parametrize("kind", ["ball", "pin", "weld"])
def test_claims_about_rows(kind: str):
    loop = system(kind)
    proof = pp.prove(COMPLIANCE, loop)
    assert proof and proof.in_general is not None and proof.in_general.method == "exact"
    assert pp.prove(f"{COMPLIANCE} + 1e-15 A B* Ω B A*", loop).holds is False
    assert pp.prove("Adot B* V = Adot J v", loop)
    assert pp.prove("Adot B* V = Adot J v + 1e-15 A J v", loop).holds is False


def test_a_distance_is_decided_in_digits():
    proof = pp.prove(COMPLIANCE, system("rod"))
    assert proof and proof.here is not None and proof.here.method == "50 digits"
    assert pp.prove(f"{COMPLIANCE} + 1e-30 A B* Ω B A*", system("rod")).holds is False
    assert pp.prove("Adot B* V = Adot J v", system("rod"))


def test_what_is_not_about_rows_is_about_the_tree():
    loop = system("ball")
    assert str(pp.prove("whiten φ", loop)) == str(pp.prove("whiten φ", loop.model))
    assert pp.prove("Jdot v", loop)  # its points are not those of the loop


def test_rows_need_a_system():
    with pytest.raises(InputError, match="system"):
        pp.prove(COMPLIANCE, system("ball").model)


@pytest.mark.parametrize("kind", ["pin", "weld", "rod"])
def test_rows_in_a_given_state(kind: str):
    loop = system(kind)
    q, v = loop.model.random_configuration(1), np.ones(loop.model.nv)
    for claim in (COMPLIANCE, "Adot B* V = Adot J v"):
        proof = pp.prove(claim, loop, q, v)
        assert proof and proof.here is not None and proof.here.method == "50 digits"
    assert pp.prove("Adot B* V = 0", loop, q, v).holds is False


def test_answers_about_a_system_say_what_vdot_and_tau_are():
    arm = pp.examples.planar_arm(2)
    rod = pp.constraints.Distance(1.0, name="rod", a="tip", b=("world", (1.0, 1.0, 0.0)))
    system = pp.System(arm, [rod])
    motion = "tau = ℳ vdot + H φ (M φ* (a + gravity) + b)"
    found = pp.prove(motion, system)
    assert found and "vdot is arbitrary here" in found.reason and "no multipliers" in found.reason
    assert "Note" not in pp.prove(motion, arm).reason
    for model in (system, None):
        found = pp.prove("A J vdot = U", model)
        assert not found and "vdot is arbitrary here" in found.reason
        assert "tau" not in found.reason
    assert "Note" not in pp.prove("H φ K H ψ = H φ − H ψ", system).reason
