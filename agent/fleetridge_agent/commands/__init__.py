"""The commands of `fleetridge-agent`: each reads its settings, does its work and says how it ended."""
