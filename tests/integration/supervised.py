"""A supervisor as a process, for tests: `python -m tests.integration.supervised WORKERS '<JSON for slot %d>'`."""

import sys

from consumers.logs import configure
from consumers.supervisor import RestartPolicy, Supervisor

if __name__ == "__main__":
    workers, told = int(sys.argv[1]), sys.argv[2]
    configure(node="supervisor", json_lines=True, level="info")
    command = [sys.executable, "-m", "tests.integration.worker_process"]
    supervisor = Supervisor(
        lambda slot: [*command, told.replace('"SLOT"', str(slot))],
        workers,
        drain_timeout_s=10,
        policy=RestartPolicy(first_s=0.1, s_max=1),
    )
    sys.exit(supervisor.run())
