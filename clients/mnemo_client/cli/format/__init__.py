"""The display of answers: protocol values in, lines of text out."""
