"""Questions to the database about the fleet, one noun a file."""
