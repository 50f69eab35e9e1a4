"""The library's main job in one page: ``python -m phipsi.demo``.

Builds a seven-joint arm, shows what becomes of the inverse of its mass matrix, compares the
compiled recursion with dense linear algebra, and runs forward dynamics on a batch.
"""

from __future__ import annotations

import sys

import numpy as np

import phipsi as pp
from phipsi.operators import H, Jr, M, mass_matrix, phi

TOLERANCE = 1e-9


def main() -> int:
    """Run the demo; the exit code is 0 if the compiled results agree with the dense ones."""
    arm = pp.examples.seven_joint_arm()
    rng = np.random.default_rng(0)
    q, v, tau = arm.random_configuration(rng), *rng.standard_normal((2, arm.nv))

    _title("1. A mechanism, and the operator equation of the papers")
    print(f"{arm}: {', '.join(arm.joint_names)}")
    print(f"mass matrix   ℳ = {H @ phi @ M @ phi.T @ H.T + Jr}")
    print(f"wanted        {mass_matrix.inv} τ   (accelerations that efforts cause)")

    _title("2. What the compiler makes of it:  pp.explain(mass_matrix.inv, arm)")
    print(pp.explain(mass_matrix.inv, arm))

    _title("3. The compiled recursion against dense linear algebra")
    solve = pp.compile(mass_matrix.inv, arm)
    compiled = solve(q, tau)
    dense = pp.dense(mass_matrix.inv, arm, q) @ tau
    good = [
        _compare("ℳ⁻¹ τ,    O(N) sweeps and O(N³) inverse", compiled, dense),
        _compare("ℳ⁻¹,      all entries", pp.mass_matrix_inverse(arm, q), _inverse(arm, q)),
    ]

    _title("4. Forward dynamics on a batch: one call, batches on leading axes")
    many = arm.random_configuration(rng, (1000,))
    vdot = pp.forward_dynamics(arm, many, v, tau)
    print(f"q {many.shape}, v {v.shape}, tau {tau.shape}  →  vdot {vdot.shape}")
    back = pp.inverse_dynamics(arm, many, v, vdot)
    good.append(_compare("tau again, by inverse dynamics of vdot", back, tau))

    print()
    print("all results agree" if all(good) else "SOME RESULTS DO NOT AGREE")
    return 0 if all(good) else 1


def _inverse(arm: pp.Model, q: np.ndarray) -> np.ndarray:
    return np.linalg.inv(pp.dense(mass_matrix, arm, q))


def _title(text: str) -> None:
    print(f"\n{text}\n{'─' * len(text)}")


def _compare(what: str, mine: np.ndarray, other: np.ndarray) -> bool:
    """Print the relative difference; true if it is rounding error."""
    error = float(np.abs(mine - other).max() / np.abs(other).max())
    print(f"{what:<45} relative difference {error:.1e}")
    return error < TOLERANCE


if __name__ == "__main__":
    sys.exit(main())
