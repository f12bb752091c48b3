"""Tables, connections, schema and writing: all that speaks SQL on the way in."""
