"""Derivatives of operator expressions, as expressions of the same algebra."""
