"""LinearSystem: the state-space model of a mechanism near an operating point."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, final

import numpy as np
from numpy.typing import ArrayLike, NDArray

from phipsi.core.backends import real_array
from phipsi.errors import InputError, SingularMatrixError, is_whole, shown
from phipsi.package_state import display
from phipsi.simulation.runs.checks import checked_time
from phipsi.support import import_optional

Array = NDArray[Any]


@final
@dataclass(frozen=True, eq=False)
class LinearSystem:
    """State-space model ẋ = A x + B u, y = C x + D u; x⁺ = A x + B u if `dt` is set.

    Small changes about an operating point: x = [δq; δv] in the directions of v, u changes of joint
    torques and forces, y changes of outputs.

    Parameters
    ----------
    A, B, C, D : ndarray
        The matrices.
    state_names, input_names, output_names : tuple of str
        Names of the entries of x, u and y.
    q, v, tau : ndarray, shape (nq,), (nv,) and (nv,)
        The operating point.
    vdot : ndarray, shape (nv,)
        Its acceleration, which is zero at an equilibrium.
    dt : float, optional
        Sample time, s; None for continuous time.
    """

    A: Array
    B: Array
    C: Array
    D: Array
    state_names: tuple[str, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    q: Array
    v: Array
    tau: Array
    vdot: Array
    dt: float | None = None

    _repr_html_ = display

    @property
    def residual(self) -> float:
        """Largest acceleration (rad/s², m/s²) at the operating point: 0 at an equilibrium."""
        return float(np.abs(self.vdot).max(initial=0.0))

    def poles(self) -> Array:
        """Eigenvalues of A in rad/s (complex), sorted by real part; of z if discrete."""
        found = np.linalg.eigvals(self.A).astype(complex)
        return found[np.lexsort((np.imag(found).round(9), np.real(found).round(9)))]

    def frequencies(self) -> tuple[Array, Array]:
        """Natural frequency |s| (rad/s) and damping ratio −Re s/|s| of every pole.

        A pole at 0 has the ratio 1. For discrete time s = log(z)/dt.
        """
        s = self.poles()
        if self.dt is not None:
            # z = 0 of a delay is infinitely fast
            s = np.where(s == 0, -np.inf, np.log(np.where(s == 0, 1.0, s)) / self.dt)
        size = np.abs(s)
        plain = (size > 0) & np.isfinite(size)
        return size, np.where(plain, -np.real(s) / np.where(plain, size, 1), 1.0)

    @property
    def is_stable(self) -> bool:
        """Whether small motions die out: all poles left of 0 (discrete: inside the unit circle).

        Poles on the border within rounding do not count as stable.
        """
        poles = self.poles()
        size = np.abs(poles)
        if self.dt is not None:
            return bool((size < 1 - 1e-10).all())
        return bool((np.real(poles) < -1e-10 * size.max(initial=0.0)).all())

    def is_controllable(self, tolerance: float = 1e-9) -> bool:
        """Whether the inputs reach every mode: [A − s I, B] has full rank at every pole s."""
        return self._reaches(self.A, self.B, tolerance)

    def is_observable(self, tolerance: float = 1e-9) -> bool:
        """Whether every mode is seen in the outputs: [A − s I; C] has full rank at every pole s."""
        return self._reaches(self.A.T, self.C.T, tolerance)

    def _reaches(self, A: Array, B: Array, tolerance: float) -> bool:
        if not A.size:
            return True
        from scipy.linalg import matrix_balance

        # units of states in which fast and slow ones have numbers of one size
        units = matrix_balance(A, permute=False, separate=True)[1][0], np.ones(len(A))
        scaled = []
        for unit in units:
            states, width = A * unit / unit[:, None], B / unit[:, None]
            size = np.linalg.norm(width, axis=0)
            scale = max(np.linalg.norm(states, 2), 1e-300)
            scaled.append((states, scale, width / np.where(size > 0, size, 1.0)))
        return all(
            any(
                _reaches_mode((states - s * np.eye(len(A))) / scale, width, tolerance)
                for states, scale, width in scaled
            )
            for s in self.poles()
        )

    def discrete(self, dt: float, delay: int = 0) -> LinearSystem:
        """The same system in discrete time, with inputs held between samples (zero-order hold).

        Exact: the exponential of [[A, B], [0, 0]] dt. With `delay`, inputs act some samples later,
        and those that wait are the last states: of the input "tau[elbow]" they are
        "tau[elbow].delay1", given one sample ago, and so on.

        Parameters
        ----------
        dt : float
            Sample time, s.
        delay : int, optional
            Delay of all inputs, in samples.

        Returns
        -------
        LinearSystem
            The discrete-time system.
        """
        if self.dt is not None:
            raise InputError(f"the system is discrete already, with dt = {self.dt:g} s")
        step = checked_time(dt, "dt")
        from scipy.linalg import expm

        n, m = self.B.shape
        whole = np.zeros((n + m, n + m))
        whole[:n, :n], whole[:n, n:] = self.A, self.B
        moved = expm(whole * step)
        out = replace(self, A=moved[:n, :n], B=moved[:n, n:], dt=step)
        if not is_whole(delay) or delay < 0:
            raise InputError(f"delay={delay!r} must be an integer number of samples, at least 0")
        return out._late(int(delay)) if delay and m else out

    def _late(self, delay: int) -> LinearSystem:
        """The discrete system with inputs that wait for some samples, the newest first."""
        (n, m), size = self.B.shape, self.B.shape[1] * delay
        A, B = np.zeros((n + size, n + size)), np.zeros((n + size, m))
        A[:n, :n], A[:n, n + size - m :] = self.A, self.B
        A[n + m :, n : n + size - m], B[n : n + m] = np.eye(size - m), np.eye(m)
        C = np.hstack([self.C, np.zeros((len(self.C), size))])
        C[:, n + size - m :] = self.D
        late = (f"{x}.delay{i + 1}" for i in range(delay) for x in self.input_names)
        names = (*self.state_names, *late)
        return replace(self, A=A, B=B, C=C, D=np.zeros_like(self.D), state_names=names)

    def lqr(self, Q: ArrayLike, R: ArrayLike, N: ArrayLike | None = None) -> Array:
        """LQR gain: u = −K x minimises ∫ (x* Q x + u* R u + 2 x* N u), or the sum if discrete.

        Parameters
        ----------
        Q : array_like, shape (states, states) or (states,)
            Weights of states, a matrix or its diagonal, without negative eigenvalues.
        R : array_like, shape (inputs, inputs) or (inputs,)
            Weights of inputs, a matrix or its diagonal, with positive eigenvalues.
        N : array_like, shape (states, inputs), optional
            Cross weights; [[Q, N], [N*, R]] has no negative eigenvalues. Default: 0.

        Returns
        -------
        ndarray, shape (inputs, states)
            The gain K.

        Raises
        ------
        SingularMatrixError
            If there is no such gain: the inputs do not reach an unstable mode, or Q does not see an
            undamped one.
        """
        from scipy.linalg import solve_continuous_are, solve_discrete_are

        states, efforts = (_square(x, n) for x, n in ((Q, len(self.A)), (R, self.B.shape[1])))
        _check_weight("Q", states, 0.0)
        _check_weight("R", efforts, 1e-14)
        cross = np.zeros(self.B.shape) if N is None else real_array("N", N)
        if cross.shape != self.B.shape:
            raise InputError(f"the weight N has shape {cross.shape}, but must be {self.B.shape}")
        if N is not None:
            whole = np.block([[states, cross], [cross.T, efforts]])
            _check_weight("[[Q, N], [N*, R]]", whole, 0.0)
        solve = solve_continuous_are if self.dt is None else solve_discrete_are
        try:
            X = solve(self.A, self.B, states, efforts, s=None if N is None else cross)
        except np.linalg.LinAlgError as error:
            raise self._without_gain(str(error)) from None
        A, B = self.A, self.B
        if self.dt is None:
            K = np.linalg.solve(efforts, B.T @ X + cross.T)
            terms = [A.T @ X, X @ A, -(X @ B + cross) @ K, states]
        else:
            K = np.linalg.solve(efforts + B.T @ X @ B, B.T @ X @ A + cross.T)
            terms = [A.T @ X @ A, -X, -(A.T @ X @ B + cross) @ K, states]
        # SciPy does not always notice that there is no solution, and returns large numbers
        left, size = np.abs(sum(terms)).max(), sum(np.abs(x).max() for x in terms)
        if not left <= 1e-6 * size:
            raise self._without_gain(f"its Riccati equation has a residual of {left:.3g}")
        if not replace(self, A=A - B @ K).is_stable:
            raise self._without_gain("with the gain that solves its Riccati equation it is not")
        return K

    def _without_gain(self, reason: str) -> SingularMatrixError:
        return SingularMatrixError(
            f"the LQR problem has no stabilizing solution ({reason}). Either the inputs "
            f"{', '.join(map(shown, self.input_names))} do not reach an unstable mode (see "
            "is_controllable()), or Q gives no weight to one that does not decay on its own"
        )

    def to_scipy(self) -> Any:
        """As `scipy.signal.StateSpace`."""
        from scipy import signal

        matrices = (self.A, self.B, self.C, self.D)
        return (
            signal.StateSpace(*matrices)
            if self.dt is None
            else signal.StateSpace(*matrices, dt=self.dt)
        )

    def to_control(self) -> Any:
        """As `control.StateSpace` of python-control, with the names of states, inputs, outputs.

        Dots, which python-control does not allow in names, become underscores: "pid.target[0]" is
        "pid_target[0]".
        """
        control = import_optional("control", "to_control()", '"phipsi[control]"')
        return control.ss(
            *(self.A, self.B, self.C, self.D),
            0 if self.dt is None else self.dt,
            **{
                kind: [x.replace(".", "_") for x in names]
                for kind, names in (
                    ("states", self.state_names),
                    ("inputs", self.input_names),
                    ("outputs", self.output_names),
                )
            },
        )

    def __repr__(self) -> str:
        kind = "" if self.dt is None else f", dt = {self.dt:g} s"
        rest = "" if self.residual < 1e-9 else f", accelerates by {self.residual:.3g}"
        counts = ((len(self.A), "state"), (self.B.shape[1], "input"), (len(self.C), "output"))
        listed = ", ".join(f"{n} {what}{'' if n == 1 else 's'}" for n, what in counts)
        return f"<LinearSystem: {listed}{kind}{rest}>"


_ROUNDING = 1e3 * np.finfo(float).eps


def _reaches_mode(shifted: Array, width: Array, tolerance: float) -> bool:
    """Whether [A − s I, B] has full rank, with A of norm 1 and columns of B of length 1 or 0.

    Its smallest singular value is small too where a mode is much faster than others, and its left
    eigenvector w has small entries where B acts. So w* B decides: it is 0 if the mode is not
    reached, within the rounding of w, which is larger the closer other modes are.
    """
    if np.linalg.svd(np.hstack([shifted, width]), compute_uv=False)[-1] > tolerance:
        return True
    vectors, values, _ = np.linalg.svd(shifted)
    w = vectors[:, -1]
    found, terms = np.abs(w.conj() @ width), np.abs(w) @ np.abs(width)
    rounding = _ROUNDING / max(values[-2], _ROUNDING) if len(values) > 1 else _ROUNDING
    return bool(((found > tolerance * terms) & (found > rounding)).any())


def _check_weight(name: str, weight: Array, least: float) -> None:
    """Reject a weight that rewards what it should penalise."""
    if not np.allclose(weight, weight.T, rtol=1e-9, atol=0):
        raise InputError(f"the weight {name} must be symmetric")
    smallest = np.linalg.eigvalsh(weight).min(initial=np.inf)
    size = np.abs(weight).max(initial=0.0)
    if smallest < -1e-12 * size or (least and smallest <= least * size):
        wanted = "positive" if least else "none below 0"
        raise InputError(
            f"the weight {name} has the eigenvalue {smallest:.3g}, but they must be {wanted}, or "
            "the cost has no minimum"
        )


def _square(weight: ArrayLike, n: int) -> Array:
    values = real_array("a weight", weight)
    if values.shape == (n,) or values.ndim == 0:
        return np.diag(np.broadcast_to(values, n))
    if values.shape != (n, n):
        raise InputError(f"a weight must be a number, ({n},) or ({n}, {n}), not {values.shape}")
    return values
