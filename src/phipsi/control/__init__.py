"""References, tracking errors and controllers."""
