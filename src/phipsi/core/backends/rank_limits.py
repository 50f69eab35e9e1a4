"""When a pivot counts as rounding: limits of hinges and of constraint rows, for every backend.

Elimination, in machine code and on arrays, drops a constraint row that depends on those before it
and says so where it asks for something else than they do. Rank by singular values, for mobility,
assembly and cases in doubt, is decided in `algorithms/constrained/row_rank.py`.

Reasons: docs/decisions/0011 (hinges), 0030 (rows).
"""

from __future__ import annotations

HINGE_TOLERANCE = 1e-14
"""A pivot of D below this fraction of the body's largest articulated inertia is rounding error."""
CANCELLED_TOLERANCE = 1e-8
"""A pivot of an indefinite D = H P H* + X below this fraction of X has lost half its digits."""
ROW_TOLERANCE = 1e-10
"""A row whose pivot is below this fraction of its own entry depends on those before it."""
ROW_FLOOR = 1e-13
"""A row whose own entry is below this fraction of what it would be if the bodies could move in all
directions as in their best one is bound by the joints already."""
ROW_GAP, ROW_GAP_LEAST = 1e-3, 1e-6
"""A dependent row contradicts the others if it asks for more than they give by this part of the
largest right-hand side, and by this much in rad/s² or m/s² (or rad/s, m/s, N, …)."""
ROW_DOUBT, ROW_DOUBT_LEAST = 1e-9, 1e-10
"""By more than this it is doubtful: the loops are open a little, or the row only seems to depend on
the others. Programs that know how solve such elements again, outside the machine code."""
