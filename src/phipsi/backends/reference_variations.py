"""Operations of the reference backend that derivatives need: how H and B change, and traces."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from phipsi import spatial
from phipsi.backends.scalars import Scalars, matrix
from phipsi.model.dual import hinge_axes_along
from phipsi.model.model import Model
from phipsi.sweeps.ir import Field

Array = np.ndarray


class VariationOperations:
    """Mixed into the evaluation, which supplies the values and the state."""

    model: Model
    batch: tuple[int, ...]
    dtype: np.dtype[Any]
    scalars: Scalars
    _at: Callable[[Field, int], Array]
    _zeros: Callable[[Field, int], Array]
    _const: Callable[[Array], Array]
    _q: Callable[[int], list[Array]]

    def _hinge_along(self, k: int, directions: list[Array]) -> Array:
        """H* differentiated along columns of rates r × 1."""
        joint = self.model.joints[k]
        rates = [[u[..., i, 0] for i in range(joint.nv)] for u in directions]
        out = hinge_axes_along(joint, joint.params, self._q(k), rates, self.scalars)
        return matrix(out, self.batch, self.dtype)

    def _hinge_axes_along(self, x: Field, k: int) -> Array:
        return self._hinge_along(k, [self._at(y, k) for y in x.args])

    def _bent(self, x: Field, k: int) -> list[Array]:
        """H* differentiated along the given directions, then along each of the joint's rates."""
        units = self._const(np.eye(self.model.joints[k].nv))
        given = [self._at(y, k) for y in x.args[1:]]
        place: Any = len(given) if x.data is None else x.data
        before, after = given[:place], given[place:]
        return [self._hinge_along(k, [*before, u[:, None], *after]) for u in units]

    def _dHT(self, x: Field, k: int) -> Array:
        w = self._at(x.args[0], k)
        columns = [n @ w for n in self._bent(x, k)]
        return np.concatenate([self._zeros(x, k)[..., :0], *columns], axis=-1)

    def _dH_trace(self, x: Field, k: int) -> Array:
        z = self._at(x.args[0], k)
        rows = [(n * z).sum((-2, -1)) for n in self._bent(x, k)]
        out = self._zeros(x, k)
        for a, row in enumerate(rows):
            out[..., a, 0] = row
        return out

    def _dH(self, x: Field, k: int) -> Array:
        f = self._at(x.args[0], k)
        columns = [np.swapaxes(n, -1, -2) @ f for n in self._bent(x, k)]
        return np.concatenate([self._zeros(x, k)[..., :0], *columns], axis=-1)

    def _crq(self, x: Field, k: int) -> Array:
        return spatial.crq(self._at(x.args[0], k)[..., 0])

    def _gyration(self, x: Field, k: int) -> Array:
        inertia, V = (self._at(y, k) for y in x.args)
        turn = spatial.crm(V[..., 0])
        pulled = np.swapaxes(turn, -1, -2) @ inertia + inertia @ turn
        return -(pulled + spatial.crq((inertia @ V)[..., 0]))

    def _inertia_rate(self, x: Field, k: int) -> Array:
        inertia, V = (self._at(y, k) for y in x.args)
        turn = spatial.crm(V[..., 0])
        return -(np.swapaxes(turn, -1, -2) @ inertia + inertia @ turn)

    def _lever(self, x: Field, k: int) -> Array:
        return spatial.crq(self._at(x.args[0], k)[..., 0]) @ self._at(x.args[1], k)

    def _vee(self, x: Field, k: int) -> Array:
        return spatial.vee(self._at(x.args[0], k))[..., None]

    def _vee_force(self, x: Field, k: int) -> Array:
        return spatial.vee_force(self._at(x.args[0], k))[..., None]

    def _inertia_trace(self, x: Field, k: int) -> Array:
        return spatial.inertia_trace(self._at(x.args[0], k))[..., None]

    def _inertia_of(self, x: Field, k: int) -> Array:
        return spatial.inertia_of(self._at(x.args[0], k)[..., 0])

    def _angular(self, x: Field, k: int) -> Array:
        return self._const(np.diag([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]))

    def _half(self, x: Field, k: int) -> Array:
        a = self._at(x.args[0], k)
        rows, cols = np.indices(a.shape[-2:])
        return np.where(rows > cols, a, np.where(rows == cols, a / 2, 0 * a))

    def _swing(self, x: Field, k: int) -> Array:
        y = self._at(x.args[0], k)
        out = np.zeros((*y.shape[:-2], 6, 6), dtype=y.dtype)
        out[..., :3, :3] = spatial.skew(y[..., :3, 0])
        out[..., 3:, :3] = spatial.skew(y[..., 3:, 0])
        return out

    def _unit_rate(self, x: Field, k: int) -> Array:
        hinge = self.model.v_slices[k]
        rows = np.arange(hinge.start, hinge.stop)
        return self._const((rows == x.data).astype(float))[:, None]

    def _unit_parameter(self, x: Field, k: int) -> Array:
        return self._const((np.arange(10 * k, 10 * k + 10) == x.data).astype(float))[:, None]
