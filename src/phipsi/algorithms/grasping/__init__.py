"""Several arms that hold one object: contact forces and friction cones."""
