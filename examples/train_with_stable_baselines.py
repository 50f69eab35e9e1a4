"""Train the cart-pole swing-up with PPO of Stable-Baselines3.

Needs `pip install stable-baselines3`. Stable-Baselines3 has a class of vectorised environments of
its own; `Adapter` makes one of a `phipsi.gym.VectorEnvironment`, without a copy per environment.

    python examples/train_with_stable_baselines.py 300000
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from stable_baselines3 import PPO
from stable_baselines3.common.vec_env import VecEnv

import phipsi.gym


class Adapter(VecEnv):
    """A vectorised environment of phipsi as one of Stable-Baselines3."""

    def __init__(self, env: Any, seed: int = 0) -> None:
        self.env, self._first_seed = env, seed
        super().__init__(env.num_envs, env.single_observation_space, env.single_action_space)

    def reset(self) -> Any:
        """Observations of new episodes."""
        return self.env.reset(seed=self._first_seed)[0].astype(np.float32)

    def step_async(self, actions: Any) -> None:
        """Keep the actions until `step_wait`."""
        self._actions = actions

    def step_wait(self) -> Any:
        """Observations, rewards, ends, and what is known about episodes that have ended."""
        seen, rewards, ended, late, infos = self.env.step(self._actions)
        more: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(ended | late):
            more[i] = {
                "terminal_observation": infos["final_obs"][i].astype(np.float32),
                "TimeLimit.truncated": bool(late[i]),
            }
        return seen.astype(np.float32), rewards.astype(np.float32), ended | late, more

    def close(self) -> None:
        """End the environment."""
        self.env.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """An attribute, once per copy."""
        return [getattr(self.env, attr_name, None)] * self.num_envs

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Set an attribute of the whole environment."""
        setattr(self.env, attr_name, value)

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **named: Any) -> Any:
        """Call a method of the whole environment."""
        return [getattr(self.env, method_name)(*args, **named)] * self.num_envs

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """No copy is wrapped."""
        return [False] * self.num_envs


def main(actions: int = 20_000) -> None:
    """Train, and print the mean reward per action of a hundred new starts."""
    learner = PPO(
        "MlpPolicy", Adapter(phipsi.gym.cart_pole_swing_up(64)), n_steps=64, batch_size=1024,
        learning_rate=1e-3, gamma=0.98, ent_coef=0.0, device="cpu", seed=0,
    )  # fmt: skip
    learner.learn(actions)
    new = Adapter(phipsi.gym.cart_pole_swing_up(100), seed=1)
    seen, total = new.reset(), 0.0
    for _ in range(500):
        chosen, _ = learner.predict(seen, deterministic=True)
        seen, rewards, _, _ = new.step(chosen)
        total += float(rewards.mean()) / 500
    print(f"mean reward per action after {actions} actions: {total:.2f}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
