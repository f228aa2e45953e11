"""Quality and speed benchmarks of the command line."""
