"""When a daemon measures again, and one try of it in a process of its own."""
