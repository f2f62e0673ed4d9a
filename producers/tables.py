"""The outbox's tables: what is in the file, and how a file of an older version becomes one of this.

- `meta`: the user, the install, the clock estimate, how far deliveries were pruned.
- `events`: what was written for the log, as it is produced. A SEND stays until its message is final, so that it can
  be sent again when the inbox has forgotten an answer; anything else stays until it is answered.
- `queue`: the events that still wait for an answer. `next_attempt_at` is -1 for what must go again at once, 0 for
  what was never tried, else ms of the wall clock; so an index on it gives rows in the order in which they must go.
  `handed` says that a copy may be in the log. Kept apart from `events` so that moving a row on rewrites no payload.
- `messages`: own messages, for handles and people. `first_id` is the id that `send` returned where another one had
  to be made before the message was first handed over.
- `ticks`: each change of a message's state, in order, so that other threads and processes can follow.
- `deliveries`: what came in. `positions`: how far the inbox has been read.
"""

VERSION = 1

MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        "CREATE TABLE meta (name TEXT PRIMARY KEY, value ANY) STRICT, WITHOUT ROWID",
        "CREATE TABLE sequences (conversation_id TEXT PRIMARY KEY, seq INTEGER NOT NULL) STRICT, WITHOUT ROWID",
        """CREATE TABLE events (
            position INTEGER PRIMARY KEY AUTOINCREMENT,
            event_id BLOB NOT NULL UNIQUE,
            kind TEXT NOT NULL,
            conversation_id TEXT NOT NULL,
            message_id BLOB NOT NULL,
            payload BLOB NOT NULL
        ) STRICT""",
        "CREATE INDEX events_about ON events (message_id) WHERE kind <> 'SEND'",
        """CREATE TABLE queue (
            position INTEGER PRIMARY KEY,
            attempts INTEGER NOT NULL DEFAULT 0,
            next_attempt_at INTEGER NOT NULL DEFAULT 0,
            handed INTEGER NOT NULL DEFAULT 0,
            in_flight INTEGER NOT NULL DEFAULT 0,
            clocked INTEGER NOT NULL,
            expires_at INTEGER NOT NULL DEFAULT 0,
            bytes INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX due ON queue (next_attempt_at) WHERE in_flight = 0",
        "CREATE INDEX expiring ON queue (expires_at) WHERE handed = 0 AND expires_at > 0",
        """CREATE TABLE messages (
            position INTEGER PRIMARY KEY,
            message_id BLOB NOT NULL UNIQUE,
            first_id BLOB,
            conversation_id TEXT NOT NULL,
            seq INTEGER NOT NULL,
            recipients TEXT NOT NULL,
            state TEXT NOT NULL DEFAULT 'PENDING',
            version INTEGER NOT NULL DEFAULT 0,
            reason TEXT NOT NULL DEFAULT '',
            expires_at INTEGER NOT NULL,
            created_at INTEGER NOT NULL,
            changed_at INTEGER NOT NULL
        ) STRICT""",
        "CREATE INDEX messages_renamed ON messages (first_id) WHERE first_id IS NOT NULL",
        """CREATE TABLE ticks (
            tick INTEGER PRIMARY KEY AUTOINCREMENT,
            message_id BLOB NOT NULL,
            conversation_id TEXT NOT NULL,
            state TEXT NOT NULL,
            version INTEGER NOT NULL,
            reason TEXT NOT NULL,
            actor TEXT NOT NULL,
            at INTEGER NOT NULL
        ) STRICT""",
        """CREATE TABLE deliveries (
            arrival INTEGER PRIMARY KEY AUTOINCREMENT,
            message_id BLOB NOT NULL UNIQUE,
            conversation_id TEXT NOT NULL,
            sender TEXT NOT NULL,
            recipients TEXT NOT NULL,
            body BLOB NOT NULL,
            content_type TEXT NOT NULL,
            sent_at INTEGER NOT NULL,
            deliver_by INTEGER NOT NULL,
            attempt INTEGER NOT NULL,
            taken INTEGER NOT NULL DEFAULT 0,
            was_read INTEGER NOT NULL DEFAULT 0
        ) STRICT""",
        "CREATE INDEX deliveries_waiting ON deliveries (arrival) WHERE taken = 0",
        """CREATE TABLE positions (
            cluster_id TEXT NOT NULL,
            topic TEXT NOT NULL,
            partition INTEGER NOT NULL,
            next_offset INTEGER NOT NULL,
            PRIMARY KEY (cluster_id, topic, partition)
        ) STRICT, WITHOUT ROWID""",
    ),
)
"""Element i takes a file from version i to i + 1."""
