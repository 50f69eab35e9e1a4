"""Files, archives, progress bars, processes and servers: what any room may use."""
