"""What compiled runs are written with: groups of trajectories in lanes, and the job of a run."""
