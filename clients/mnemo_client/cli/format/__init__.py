"""How answers are shown: protocol values in, lines of text out."""
