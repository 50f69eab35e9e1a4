"""Where programs run: the reference interpreter and the dense oracle."""
