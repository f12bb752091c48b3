"""Options, variables and the places that they name."""
