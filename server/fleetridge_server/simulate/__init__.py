"""A made-up fleet, with faults, that posts as agents do."""
