"""Who may do what: tokens, what each route asks for, how much one caller gets, and what every answer carries."""
