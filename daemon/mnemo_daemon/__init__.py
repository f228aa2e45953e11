"""Acts: the only package with a clock, a loop and a socket."""
