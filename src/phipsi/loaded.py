"""When this process loaded the package: sources that change later may not be the ones that run."""

import time

LOADED = time.time()
