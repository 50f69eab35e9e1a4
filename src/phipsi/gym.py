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


def __getattr__(name: str) -> object:
    """Answer what users of Gymnasium type first with what there is."""
    text = f"module {__name__!r} has no attribute {name!r}"
    if name in ("make", "make_vec", "Env", "envs"):
        made = ", ".join(f"{x}(num_envs)" for x in sorted(__all__) if x.islower())
        text += (
            f": phipsi registers no ids with gymnasium.make. Vector environments are {made}, and "
            "VectorEnvironment(simulator, …) for your own task"
        )
    raise AttributeError(text, name=name)
