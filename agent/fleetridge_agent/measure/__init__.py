"""The sweep: what is measured, how often, and what the samples amount to."""
