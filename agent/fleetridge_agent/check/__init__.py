"""The verdict of a preflight: a quick sweep compared with the fleet's band or a baseline."""
