"""Gymnasium: vectorised environments whose steps, rewards and restarts are one compiled kernel.

    import phipsi.gym

    env = phipsi.gym.cart_pole_swing_up(256)
    observations, infos = env.reset(seed=0)
    observations, rewards, terminated, truncated, infos = env.step(env.action_space.sample())

Needs Gymnasium (``pip install 'phipsi[gym]'``).
"""

from phipsi.learning.environments import *  # noqa: F403  (what the room offers under this name)
from phipsi.learning.environments import __all__ as __all__
from phipsi.package_state import only_public

__dir__ = only_public(__name__)
