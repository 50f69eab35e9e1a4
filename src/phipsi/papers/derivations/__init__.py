"""Algebra by hand, and derivations: chains of named identities from one form to another.

An expression multiplied out is a sum of words, products of letters that are not sums. An identity
is such a sum that is zero. One step of a derivation adds a multiple ``c u E v`` of an identity
``E = 0``, and that is what a derivation records and what its check adds up again.
"""
