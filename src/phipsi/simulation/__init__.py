"""Motions: controllers, force elements, integrators, compiled runs, events and trajectories."""
