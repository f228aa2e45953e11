"""`mnemo setup`: connects agents and editors to the daemon by their own configuration files, and disconnects them."""
