"""Which gpus a node has, and which of them a command measures."""
