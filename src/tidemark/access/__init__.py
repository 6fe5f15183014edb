"""Who may see what: the server's guard, login, roles, keys, shares, and the record of all of these."""
