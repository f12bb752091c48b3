"""The commands of `fleetridge-server` beside `serve`, one a file: options in, printed lines out."""
