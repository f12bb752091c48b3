"""What a command can be told: its options and variables, and what they come to."""
