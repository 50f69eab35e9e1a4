"""A trajectory as one HTML page, and checks of a model."""
