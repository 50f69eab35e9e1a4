"""Mechanisms with constraints: rows, their rank, and configurations that satisfy them."""
