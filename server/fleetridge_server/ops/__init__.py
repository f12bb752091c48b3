"""What keeps a server going for years: retention, backup, copies to another database."""
