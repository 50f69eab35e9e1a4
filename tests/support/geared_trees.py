"""Random trees with geared rotors, and the same with every rotor as a body of its own.

    model, explicit = geared_tree(seed)
    explicit.mass_matrix(q)      # B* ℳ B of all bodies, with v_all = B v

`Explicit` knows nothing of how rotors become inertias: each is a body on a revolute joint, whose
rate is ratio · rate of its joint, and the equations of all bodies are projected.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from random_models import ALL, Rng, random_axis, random_inertia, random_tree

import phipsi as pp
from phipsi.core.model.model import Model
from phipsi.transmissions.rotors import Carrier

GEARED = ("revolute", "prismatic", "helical", "cylindrical", "planar")


@dataclass(frozen=True)
class Explicit:
    """All bodies, and the rates of all from those of the geared tree."""

    model: Model
    geared: Model
    shares: dict[str, dict[str, Any]]  # rotor → joint → ratio, or those of its rates

    @property
    def B(self) -> np.ndarray:
        out = np.zeros((self.model.nv, self.geared.nv))
        for name in self.geared.joint_names:
            at, of = self.model.v_slice(name), self.geared.v_slice(name)
            out[at, of] = np.eye(of.stop - of.start)
        for name, share in self.shares.items():
            for joint, ratio in share.items():
                at = self.geared.v_slice(joint).start
                out[self.model.v_slice(name), at : at + np.size(ratio)] = ratio
        return out

    def q(self, q: np.ndarray) -> np.ndarray:
        out = self.model.neutral()
        for name in self.geared.joint_names:
            out[self.model.q_slice(name)] = q[self.geared.q_slice(name)]
        for name, share in self.shares.items():
            for joint, ratio in share.items():
                at = self.geared.q_slice(joint).start
                out[self.model.q_slice(name)] += np.dot(q[at : at + np.size(ratio)], ratio)
        return out

    def system(self) -> pp.System:
        """The same with exact relations between rotors and joints."""
        return pp.System(
            self.model,
            [
                pp.constraints.Coupling(name=f"{name} gear", joints=(name, *share),
                                        coefficients=(1.0, *(-x for x in share.values())))
                for name, share in self.shares.items()
            ],
        )  # fmt: skip

    def mass_matrix(self, q: np.ndarray) -> np.ndarray:
        return self.B.T @ pp.mass_matrix(self.model, self.q(q)) @ self.B

    def efforts(self, q: np.ndarray, v: np.ndarray, vdot: np.ndarray) -> np.ndarray:
        B = self.B
        return B.T @ pp.inverse_dynamics(self.model, self.q(q), B @ v, B @ vdot)

    def reactions(self, q: np.ndarray, v: np.ndarray, vdot: np.ndarray) -> np.ndarray:
        """The forces through the joints of the geared tree, (bodies, 6)."""
        whole, B = self.q(q), self.B
        tau = pp.inverse_dynamics(self.model, whole, B @ v, B @ vdot)
        found = pp.joint_reactions(self.model, whole, B @ v, tau).joints
        return found[[self.model.body_index(name) for name in self.geared.body_names]]


def rotor_inertia(rng: Rng, u: np.ndarray, moment: float) -> pp.SpatialInertia:
    """A symmetric rotor in the frame of its carrier, anywhere on it."""
    across = rng.uniform(0.5, 1.5) * moment
    J = across * np.eye(3) + (moment - across) * np.outer(u, u)
    return pp.SpatialInertia(rng.uniform(0.1, 0.5), rng.uniform(-0.3, 0.3, 3), J)


def geared_tree(
    seed: int, bodies: int = 6, rotors: int = 4, flying: bool = False, skew: bool = False
) -> tuple[Model, Explicit]:
    """A random tree with rotors on parents, children and the world, several on a body.

    If it is `flying`, on a free joint with turning joints, no rotor is on the world. `skew` rotors
    have any axis, and turn with any joint, which may slide.
    """
    rng = np.random.default_rng(seed)
    geared = ["revolute", "helical", "cylindrical", "planar"] if flying else ["revolute", "helical"]
    geared += ["prismatic"] * skew
    kinds = ["free", *rng.choice(geared, bodies - 1)] if flying else [*ALL, *(3 * geared)]
    tree = random_tree(rng, bodies, kinds, armature=not flying and bool(rng.integers(2)))
    model, full, shares = tree, tree, {}
    for i in range(rotors):
        found = _drawn(rng, tree, skew)
        while flying and (found is None or found[2] == "world"):
            found = _drawn(rng, tree, skew)
        if found is None:
            continue
        joint, on, carrier, u = found
        name, ratio = f"rotor{i}", float(rng.choice([-1, 1]) * rng.choice([0.3, 1, 5, 60]))
        moment = float(rng.uniform(1e-4, 2e-2))
        given = rotor_inertia(rng, u, moment)
        way = float(u @ _way(tree, joint, on))
        along = abs(way) > 1 - 1e-9 and bool(rng.integers(2))  # leave it to the joint
        model = model.with_rotor(
            name, joint=joint, ratio=ratio * np.sign(way) if along else ratio, moment=moment,
            axis=None if along else u, on=on, inertia=given,
        )  # fmt: skip
        full = with_rotor_body(full, name, carrier, u, given)
        shares[name] = {joint: ratio}
    return model, Explicit(full, model, shares)


def with_rotor_body(
    model: Model, name: str, carrier: str, u: np.ndarray, inertia: pp.SpatialInertia
) -> Model:
    """The model with a rotor that is a body; `inertia` in the frame of its carrier."""
    part = pp.ModelBuilder()
    centred = pp.SpatialInertia(inertia.mass, (0, 0, 0), inertia.moment_about_com_B)
    part.add_body(name, joint=pp.joints.Revolute(u), inertia=centred,
                  placement=pp.Pose(translation=inertia.com_B))  # fmt: skip
    return model.attach(part.build(), at=carrier)


def differential_tree(
    seed: int, bodies: int = 5, pairs: int = 2, flying: bool = False
) -> tuple[Model, Explicit]:
    """A random tree with pairs of equal rotors that turn with n v(j) ± m v(i), of any two joints.

    They sit on the parent or on the child of j, on its axis.
    """
    rng = np.random.default_rng(seed)
    kinds = ["revolute", "helical", "cylindrical", "prismatic"]
    tree = random_tree(rng, bodies, ["free", *rng.choice(kinds, bodies - 1)] if flying else kinds)
    all_ = [tree.body(name) for name in tree.body_names]
    turning = [b.joint_name for b in all_ if b.joint.kind in ("revolute", "helical")]
    driven = [b.joint_name for b in all_ if b.joint.kind != "free"]
    model, full, shares = tree, tree, {}
    for i in range(pairs if turning and len(driven) > 1 else 0):
        j = str(rng.choice(turning))
        other = str(rng.choice([x for x in driven if x != j]))
        on, way = cast(Carrier, str(rng.choice(["parent", "child"]))), float(rng.choice([-1, 1]))
        body = tree.body(tree.joint(j).body)
        carrier = body.parent if on == "parent" else body.name
        u, moment = way * _way(tree, j, on), float(rng.uniform(1e-4, 2e-2))
        n, m = rng.choice([-1, 1], 2) * rng.choice([0.3, 1, 5, 60], 2)
        given = [rotor_inertia(rng, u, moment) for _ in range(2)]
        model = model.with_rotor(f"pair{i}", joint=(j, other), ratio=((n, m), (n, -m)), axis=u,
                                 moment=moment, on=on, inertia=given[0] + given[1])  # fmt: skip
        for side, inertia in zip((1, -1), given, strict=True):
            name = f"rotor{i}{'+' if side > 0 else '-'}"
            full = with_rotor_body(full, name, carrier, u, inertia)
            shares[name] = {j: float(n), other: float(side * m)}
    return model, Explicit(full, model, shares)


def belted_chain(seed: int, bodies: int = 5, rotors: int = 3) -> tuple[Model, Explicit]:
    """A chain that turns about parallel axes, with rotors of two joints in a row.

    Its first body slides, or turns about another axis at right angles to these.
    """
    rng = np.random.default_rng(seed)
    w, builder, parent = random_axis(rng), pp.ModelBuilder(), "world"
    across = np.cross(w, random_axis(rng))
    column = seed % 2 == 0
    first = pp.joints.Revolute(across) if column else pp.joints.Prismatic(random_axis(rng))
    for i in range(bodies):
        turning = pp.joints.Helical(w, 0.1) if rng.integers(2) else pp.joints.Revolute(w)
        joint = first if i == 0 else turning
        builder.add_body(
            f"b{i}", parent=parent, joint=joint, inertia=random_inertia(rng),
            placement=pp.Pose(_about(w, rng.uniform(-3, 3)), rng.uniform(-1, 1, 3)),
        )  # fmt: skip
        parent = f"b{i}"
    tree = builder.build()
    model, full, shares = tree, tree, {}
    for i in range(rotors):
        # on the world, on the slider, or on the child of the first joint
        on, ratio = (
            cast(Carrier, str(rng.choice(["world", "parent", "child"]))),
            rng.uniform(-20, 20, 2),
        )
        carrier = {"world": "world", "parent": "b0", "child": "b1"}[on]
        u, moment = random_axis(rng) if on != "child" else w, float(rng.uniform(1e-4, 2e-2))
        if column and on == "parent":
            u = np.cross(across, u) / np.linalg.norm(np.cross(across, u))
        given, name = rotor_inertia(rng, u, moment), f"rotor{i}"
        model = model.with_rotor(name, joint=("b1", "b2"), ratio=ratio, moment=moment, axis=u,
                                 on=on, inertia=given)  # fmt: skip
        full = with_rotor_body(full, name, carrier, u, given)
        shares[name] = dict(zip(("b1", "b2"), ratio.tolist(), strict=True))
    return model, Explicit(full, model, shares)


def _about(w: np.ndarray, angle: float) -> np.ndarray:
    W = np.cross(np.eye(3), -w)
    return np.eye(3) + np.sin(angle) * W + (1 - np.cos(angle)) * W @ W


def _way(tree: Model, joint: str, on: str) -> np.ndarray:
    """The axis of a joint, in the axes of a carrier."""
    body = tree.body(tree.joint(joint).body)
    u = np.array(body.joint.params[:3])
    return u if on != "parent" else body.placement.rotation @ u


def _drawn(rng: Rng, tree: Model, skew: bool) -> tuple[str, Any, str, np.ndarray] | None:
    """A joint, where its rotor sits, and an axis that it may have."""
    k = int(rng.integers(tree.n_bodies))
    body = tree.body(tree.body_names[k])
    on = str(rng.choice(["parent", "parent", "child", "world"]))
    carrier = {"parent": body.parent, "child": body.name, "world": "world"}[on]
    if body.joint.kind not in GEARED:
        return None
    still = skew or carrier == "world" or not _turns(tree, carrier)
    if body.joint.kind == "prismatic" and not still:
        return None
    if still and (body.joint.kind == "prismatic" or rng.integers(2)):
        return body.joint_name, on, carrier, random_axis(rng)
    return (
        body.joint_name,
        on,
        carrier,
        float(rng.choice([-1, 1])) * _way(tree, body.joint_name, on),
    )


def _turns(tree: Model, name: str) -> bool:
    while name != "world":
        body = tree.body(name)
        if body.joint.kind not in ("prismatic", "translation"):
            return True
        name = body.parent
    return False
