"""Options and variables of the commands, and the values that they resolve to."""
