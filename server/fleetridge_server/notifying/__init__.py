"""One signed webhook, in the shape that Alertmanager sends, for alerts that evaluations open and resolve."""
