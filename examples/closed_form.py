"""The same program on symbols: the mass matrix of a two-link arm in closed form (needs SymPy)."""

import numpy as np
import sympy as sp

import phipsi as pp
from phipsi.operators import mass_matrix

arm = pp.examples.planar_arm(2)
q = np.array(sp.symbols("q1 q2"), dtype=object)
matrix = pp.compile(mass_matrix, arm, mode="dense", backend="reference")(q)
closed = sp.Matrix(matrix).applyfunc(lambda x: sp.nsimplify(sp.simplify(x), tolerance=1e-12))
sp.pprint(closed, use_unicode=False)

numbers = np.array(closed.subs(dict(zip(q, (0.3, 0.8), strict=True))), dtype=float)
assert np.allclose(numbers, pp.mass_matrix(arm, [0.3, 0.8]))
