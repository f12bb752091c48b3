"""Reports and inventories out of CSV files."""
