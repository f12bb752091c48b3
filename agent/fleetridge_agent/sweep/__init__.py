"""The sweep of one device: what is measured, how often, and what the samples amount to."""
