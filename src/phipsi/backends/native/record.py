"""The data record that generated code and its caller share: 64-bit words, in this order."""

from __future__ import annotations

# sizes, then addresses of the model's tables
N_BODIES, N_POINTS, N_RATES, INTEGERS, DOUBLES, POINT_BODY, POINT_DOUBLES, GRAVITY = range(8)
DOF_BODY = 8
# start of the scratch areas, in numbers: body records, point records, world record, then buffers
OFFSETS = 9
BUFFERS = OFFSETS + 3
