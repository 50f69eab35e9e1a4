"""simulate: from a model and an initial state to a trajectory, with adaptive steps and events."""
