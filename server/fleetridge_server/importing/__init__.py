"""Measurements made before, read from CSV."""
