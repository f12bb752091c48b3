"""What every request passes: who calls, limits, parameters, pages of lists, errors."""
