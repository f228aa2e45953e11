"""`mnemo doctor`: named checks with their fixes, and the support bundle."""
