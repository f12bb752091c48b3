"""Tables, connections, schema, and the statements that write and read them."""
