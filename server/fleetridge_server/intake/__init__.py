"""Reports on their way in: a body becomes reports, and reports become rows."""
