"""Operators, vectors and scalars of users, and functions of coordinates as constraint rows."""
