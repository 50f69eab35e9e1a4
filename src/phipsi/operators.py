"""The operators and vectors of the algebra, ready to write equations with.

>>> from phipsi.operators import H, M, phi
>>> print(H @ phi @ M @ phi.T @ H.T)
H φ M φ* H*

Why H maps forces to efforts: docs/decisions/0003.
"""

from phipsi.core.operators import *  # noqa: F403  (what the room offers under this name)
from phipsi.core.operators import __all__ as __all__
from phipsi.package_state import only_public

__dir__ = only_public(__name__)
