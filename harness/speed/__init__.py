"""What an encoder costs: speed, memory, time to load and size, measured in a process of its own."""
