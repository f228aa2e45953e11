"""What a text is made of: cleaning, tokens, canonical forms, secrets, and features of texts and questions."""
