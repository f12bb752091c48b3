"""The inventory: nodes and gpus that people expect, read from CSV, so that what never reported is missed."""
