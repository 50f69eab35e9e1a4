"""The job record of a rollout: the arguments of its machine code.

A job consists of words of 8 bytes: those named here; then three for each port, an array of the
caller (address, bytes per trajectory, bytes per step or record); and two for each program that the
run calls (its data, its scratch memory).
"""

from __future__ import annotations

(
    COUNT, STEPS, EVERY, FIRST, RECORDS, WORK, STATUS, FAILED_AT, STEP_LENGTH, FAILURES, TRAJECTORY,
    DIRECTION, PHASE, PORTS,
) = range(14)  # fmt: skip
SAMPLED = 1
"""In RECORDS: the last record too has the samples of its step. Other numbers: it has those held."""
