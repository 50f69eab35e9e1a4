"""Code of compiled rollouts: groups of trajectories in lanes, and the job record."""
