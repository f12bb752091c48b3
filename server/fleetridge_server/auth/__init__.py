"""Who may do what: tokens, scopes and sessions."""
