"""Simulator: one compiled step of a mechanism with its controllers and forces."""
