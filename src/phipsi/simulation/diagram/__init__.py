"""Circuits of runs: laws, force elements and controllers wired to a mechanism."""
