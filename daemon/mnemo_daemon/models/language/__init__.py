"""The language model: its worker process, its queue and log, and the runner of its tasks."""
