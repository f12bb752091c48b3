"""Routes: each parses, calls and answers; what they answer with is made elsewhere."""
