"""The text foundation: cleaning, tokens, canonical forms, secrets, and features of texts and questions."""
