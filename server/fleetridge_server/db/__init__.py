"""The database: connections, tables, types, schema. Knows nothing of reports' meaning, of the rule or of answers."""
