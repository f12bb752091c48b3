"""Who may be compared with whom, and what the comparison says; pure."""
