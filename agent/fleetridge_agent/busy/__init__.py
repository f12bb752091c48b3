"""Who else uses a gpu: before it is measured, while it is, and until it is free."""
