"""What stands in the way of measuring and delivering on this node: small probes behind one contract."""
