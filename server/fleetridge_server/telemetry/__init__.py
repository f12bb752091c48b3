"""What a server says of itself: logs, metrics, and what one request cost."""
