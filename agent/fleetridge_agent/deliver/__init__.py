"""From a finished report to the server: on disk first, then sent until somebody has taken it."""
