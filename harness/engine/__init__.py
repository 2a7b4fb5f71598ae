"""Where independent pieces of work are done: in this process, or on a Ray cluster."""
