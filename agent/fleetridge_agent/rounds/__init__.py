"""Rounds of the daemon: when the next one is due, what is kept between them, and the process that each runs in."""
