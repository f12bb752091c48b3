"""Routes: each parses, asks and answers; what they answer with is made elsewhere."""
