"""Derivatives of operator expressions, as expressions of the same algebra.

Reasons: docs/decisions/0019.
"""
