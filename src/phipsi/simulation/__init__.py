"""From a model to a trajectory: `simulate`, events, force elements, recordings; and gradients."""
