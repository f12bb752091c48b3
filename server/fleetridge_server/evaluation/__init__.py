"""Evaluations: when they are made, on what, and what they say."""
