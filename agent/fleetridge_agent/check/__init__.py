"""A preflight's verdict: what a quick sweep found, held against the fleet's band or a baseline."""
