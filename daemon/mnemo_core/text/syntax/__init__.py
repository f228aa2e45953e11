"""English clauses, verb forms and pronouns."""
