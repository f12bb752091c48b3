"""The commands of `fleetridge-server`: their options, and what each does."""
