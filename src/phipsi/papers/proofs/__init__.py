"""Proofs: does an identity hold on a mechanism? Decided exactly, without a tolerance.

Every operator of the algebra is a rational function of the numbers it is made of: quaternions or
points of the circle, positions, inertias, hinge directions, rates. Two rational functions that
agree at a random point modulo a random prime are the same, up to a probability that is computed and
printed, and made smaller than 1e-14 by further primes. `phipsi.papers.theorems` asks the questions.

Reasons: docs/decisions/0029.
"""
