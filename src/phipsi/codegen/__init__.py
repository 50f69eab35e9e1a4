"""Programs that leave Python: objects with a C interface, for this and other processors."""
