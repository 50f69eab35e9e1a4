"""Inertial parameters: regressors, their identification, and which of them motion shows."""
