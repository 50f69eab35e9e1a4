"""Contact: where bodies touch, and the impulses of unilateral contacts with dry friction."""
