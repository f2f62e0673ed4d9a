"""What the child processes of the client's tests do: the module is run with TASK OUTBOX BROKER.

Each says on standard output how far it is.
"""

# ruff: noqa: T201

import os
import signal
import sys
import threading

from producers import Client, ClientSettings, Outgoing


def main() -> None:
    task, outbox, broker, *more = sys.argv[1:]
    match task:
        case "send-and-die":
            me = Client("alice", outbox=outbox, bootstrap_servers=broker).open()
            sent = me.send(to="bob", body="the last words")
            print(sent.message_id, flush=True)
            os.kill(os.getpid(), signal.SIGKILL)
        case "pump":
            with Client("alice", outbox=outbox, bootstrap_servers=broker) as me:
                print("ready", flush=True)
                sys.stdin.readline()
                me.close(flush_timeout_s=0)
        case "send-many":
            count, name = int(more[0]), more[1]
            with Client("alice", outbox=outbox, offline=True) as me:
                print("ready", flush=True)
                sys.stdin.readline()
                for number in range(count):
                    me.send(to="bob", body=f"{name} {number}")
        case "send-until-terminated":
            stop = threading.Event()
            signal.signal(signal.SIGTERM, lambda *_: stop.set())
            settings = ClientSettings(close_timeout_s=0.2)
            with Client("alice", outbox=outbox, bootstrap_servers=broker, settings=settings) as me:
                me.send_many(Outgoing(to="bob", body=str(number)) for number in range(100))
                print("sent", flush=True)
                stop.wait(60)
            print("closed", flush=True)
        case _:
            raise SystemExit(f"there is no task {task}")


if __name__ == "__main__":
    main()
