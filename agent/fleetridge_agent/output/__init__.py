"""Results as text: pure functions from a report to tables, blocks, charts, CSV rows and JSON."""
