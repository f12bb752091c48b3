"""The way in: from bytes of the wire to what is stored."""
