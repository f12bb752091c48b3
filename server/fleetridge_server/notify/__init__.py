"""Alerts to a webhook."""
