"""Named algorithms: each is an operator expression, compiled for the model it is called with."""
