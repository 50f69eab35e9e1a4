"""How a mechanism moves: one chart, one stage loop, one projection.

Rollouts, derivatives of steps, gradients and linearisations are uses of them, and so is `simulate`.
"""
