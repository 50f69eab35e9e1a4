"""Functions of PyTorch and JAX, and environments of Gymnasium."""
