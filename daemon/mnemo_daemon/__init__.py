"""Acts: the only package with a clock, a loop and a socket."""

import os

from mnemo_daemon.library_environment import silence_libraries

silence_libraries(os.environ)

# Read once, when numpy is imported. Its products are small here and run side by side in threads of ours: more threads
# for each of them only wait for a core.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
