"""The rules, each a few lines of set arithmetic over a history. Pure.

Nothing here was counted while the run went on, and nothing rests on the code that is judged but the replay, which
compares the store with the fold that wrote it. After healing, and only then, all of this must hold:

1. Every send that returned is in its outbox, and within a bounded time of healing (`settled_within_s`) ends in exactly
   one terminal state, the same for its sender as in the store; what never reached the log may have failed in the
   outbox alone.
2. Every message that its sender was told is sent is in the store once, with its content; every message that is said
   to have arrived is with its recipient.
3. Versions rise by one, offsets and ranks never fall, a message's state is the lowest of its recipients'.
4. One outbox's messages of a conversation apply in the order of their running numbers, also through a parking, in
   which no more wait than may, and of what found no room in it, of which no more is noted than may. Only what
   waited when an operator gave it up waits for nothing any more.
5. A BLOCK or UNBLOCK changes a conversation once: copies, also late ones, undo nothing that came between.
6. No message, no receipt and no row is there without the event that it must come from.
7. No answer said more than was durable when it went out.
8. A replay of the whole log gives the store, row for row and step for step: so a fenced owner changed nothing. A store
   that can tell has taken nothing from one.
"""

from bisect import bisect_right
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

from compose.checking.history import Fault, Findings, History, Own
from compose.checking.missing import missing
from compose.checking.replay import differences, replay
from consumers.overflow import HELD_MAX
from consumers.rows import Transition
from consumers.stores.contract import StoredMessage
from schemas.identity import text_of
from schemas.lifecycle import FAILED, RANK, RECEIPTS, Kind, lowest


def check(history: History) -> Findings:
    """Return what a history shows."""
    stored = {each.row.message_id: each for each in history.stored}
    faults = (
        *missing(history, stored),
        *_twice(history),
        *_blocked_again(history),
        *(fault for each in history.stored for fault in _bad_story(each, history.generations_at)),
        *_bad_ticks(history),
        *_stuck(history, stored),
        *_told_otherwise(history, stored),
        *_reordered(history),
        *_invented(history),
        *_premature(history),
        *_after_the_lease(history),
        *_too_many_waiting(history),
        *differences(history),
    )
    return Findings(len(history.sent), _settled(history, stored), faults)


def _ended(own: Own, stored: Mapping[bytes, StoredMessage], terminal: frozenset[str]) -> bool:
    found = stored.get(own.message_id)
    if found is None:
        return own.state in FAILED
    return own.state == found.row.state and own.state in terminal


def _settled(history: History, stored: Mapping[bytes, StoredMessage]) -> int:
    acknowledged = {(sent.user, sent.message_id) for sent in history.sent}
    return sum(
        (own.user, own.first_id) in acknowledged and _ended(own, stored, history.terminal) for own in history.own
    )


def _twice(history: History) -> Iterator[Fault]:
    """Yield one body under two ids, one id that stands twice, one step taken twice."""
    for message_id, times in Counter(each.row.message_id for each in history.stored).items():
        if times > 1:
            yield Fault("duplicated", message_id, f"stands {times} times in the store")
    for message_id, times in Counter(own.message_id for own in history.own).items():
        if times > 1:
            yield Fault("duplicated", message_id, f"stands {times} times in outboxes")
    for (user, message_id), times in Counter((taken.user, taken.message_id) for taken in history.taken).items():
        if times > 1:
            yield Fault("duplicated", message_id, f"{user} holds it {times} times")
    yield from _under_two_ids(history)
    for stored in history.stored:
        steps = Counter((step.actor, step.state) for step, _ in stored.transitions)
        for (actor, state), times in steps.items():
            if times > 1:
                yield Fault(
                    "duplicated", stored.row.message_id, f"became {state} by {actor or 'an owner'} {times} times"
                )


def _blocked_again(history: History) -> Iterator[Fault]:
    """Yield a BLOCK or UNBLOCK of which a copy has made a change too."""
    for row in history.conversations or ():
        for event_id, times in Counter(change.event_id for change in row.blocks if change.event_id).items():
            if times > 1:
                told = f"{text_of(event_id)} changed {times} times who is blocked in {row.conversation_id}"
                yield Fault("duplicated", b"", told)


def _under_two_ids(history: History) -> Iterator[Fault]:
    # An outbox that was replaced by an older copy may send again, under another id, what it had sent already: that is
    # by design, both are kept. It is known by its forgotten id.
    forgotten = {message_id for _, message_id in history.forgotten}
    unique = {sent.body for sent in history.sent}
    held: Mapping[str, Iterable[tuple[bytes, bytes, str]]] = {
        "an outbox": ((each.body, each.message_id, each.user) for each in history.sent),
        "the store": ((each.content.body, each.row.message_id, "") for each in history.stored),
        "an inbox": ((each.body, each.message_id, each.user) for each in history.taken),
    }
    for where, several in held.items():
        yield from _two_ids(where, [each for each in several if each[0] in unique and each[1] not in forgotten])


def _two_ids(where: str, held: Iterable[tuple[bytes, bytes, str]]) -> Iterator[Fault]:
    ids: dict[tuple[bytes, str], set[bytes]] = defaultdict(set)
    for body, message_id, holder in held:
        ids[body, holder].add(message_id)
    for (body, _), several in ids.items():
        if len(several) > 1:
            yield Fault("duplicated", min(several), f"{body!r} is in {where} under {len(several)} ids")


def _place(step: Transition, generations_at: Sequence[int]) -> tuple[int, int]:
    """Return where a step's event stands in the log: its generation, counted from 0, and its offset."""
    return bisect_right(generations_at, step.at), step.offset


def _bad_story(stored: StoredMessage, generations_at: Sequence[int] | None) -> Iterator[Fault]:
    row, steps = stored.row, [step for step, _ in stored.transitions]
    versions = [step.version for step in steps]
    if versions != list(range(1, row.version + 1)):
        yield Fault("regressed", row.message_id, f"has version {row.version}, but its steps are {versions}")
    offsets = [step.offset for step in steps]
    places = [] if generations_at is None else [_place(step, generations_at) for step in steps]
    if not all(earlier < later for earlier, later in pairwise(places)):
        yield Fault("regressed", row.message_id, f"has steps that do not follow the log: offsets {offsets}")
    for actor, ranks in _ranks_of_each(steps).items():
        if not all(earlier <= later for earlier, later in pairwise(ranks)):
            yield Fault("regressed", row.message_id, f"fell back for {actor or 'its owner'}: ranks {ranks}")
    if row.receipts and row.state != lowest(row.receipts):
        yield Fault("regressed", row.message_id, f"is {row.state}, but its recipients are {', '.join(row.receipts)}")


def _ranks_of_each(steps: Sequence[Transition]) -> Mapping[str, list[int]]:
    ranks: defaultdict[str, list[int]] = defaultdict(list)
    for step in steps:
        ranks[step.actor].append(RANK[step.state])
    return ranks


def _bad_ticks(history: History) -> Iterator[Fault]:
    for own in history.own:
        ranks = [RANK[state] for state in own.ticks]
        if not all(earlier < later for earlier, later in pairwise(ranks)):
            yield Fault("regressed", own.message_id, f"{own.user} was told {', '.join(own.ticks)}")


def _stuck(history: History, stored: Mapping[bytes, StoredMessage]) -> Iterator[Fault]:
    bound = history.settled_within_s
    when = f", {bound:.0f} s after healing" if bound is not None else ""
    for own in history.own:
        found = stored.get(own.message_id)
        if found is None:
            if own.state not in FAILED:
                yield Fault("stuck", own.message_id, f"is {own.state} for {own.user} and not in the store{when}")
        elif found.row.state not in history.terminal:
            told = f"is {found.row.state} in the store, {own.state} for {own.user}{when}"
            yield Fault("stuck", own.message_id, told)
        elif RANK[own.state] < RANK[found.row.state]:
            told = f"is {own.state} for {own.user}, {found.row.state} in the store{when}"
            yield Fault("stuck", own.message_id, told)


def _told_otherwise(history: History, stored: Mapping[bytes, StoredMessage]) -> Iterator[Fault]:
    for own in history.own:
        found = stored.get(own.message_id)
        if found is None or own.state == found.row.state or (own.user, own.message_id) in history.forgotten:
            continue
        if RANK[own.state] >= RANK[found.row.state]:
            yield Fault("untrue", own.message_id, f"{own.user} was told {own.state}, the store says {found.row.state}")


def _reordered(history: History) -> Iterator[Fault]:
    """Yield messages that became rows after a later one of the same outbox and conversation.

    An outbox that was replaced by an older copy may hold again what it had cancelled before it handed over the next: it
    is known by that next one's forgotten id. What waited in a parking that was given up waits no longer.
    """
    forgotten, generations_at = history.forgotten, history.generations_at
    if generations_at is None:
        return
    made: dict[tuple[str, str, bytes], list[tuple[int, tuple[int, int], bytes]]] = defaultdict(list)
    for stored in history.stored:
        row = stored.row
        if row.seq and stored.transitions:
            first = stored.transitions[0][0]
            made[row.conversation_id, row.sender, row.install].append(
                (row.seq, _place(first, generations_at), row.message_id)
            )
    for (_, sender, _), line in made.items():
        line.sort()
        for (_, place, message_id), (seq, later, next_id) in pairwise(line):
            if (
                place > later
                and (sender, next_id) not in forgotten
                and not _was_given_up(history, message_id, place, later)
            ):
                told = f"applied at {place[1]}, after its successor {seq} at {later[1]}"
                yield Fault("reordered", message_id, told)


def _was_given_up(history: History, message_id: bytes, place: tuple[int, int], later: tuple[int, int]) -> bool:
    """Say whether a message made at `place` had waited in a parking that was given up before `later`.

    Not so what had no room in it, where that was noted: it is held back, and comes in order.
    """
    copies = [at for at, event in history.log or () if event.message_id == message_id and event.kind == Kind.SEND]
    conversations = {event.conversation_id for _, event in history.log or () if event.message_id == message_id}
    parkings = [
        parking
        for row in history.conversations or ()
        if row.conversation_id in conversations
        for parking in row.parkings
    ]
    made, overtaken = (place[0] + 1, place[1]), (later[0] + 1, later[1])
    if any(made in hold.passed for parking in parkings for hold in parking.holds):
        waited = {key[1] for key in replay(history.log or (), history.policy).given_up}
        if message_id not in waited:
            return False
    return any(
        parking.until not in parking.passed
        and any(parking.since < (at.generation, at.offset) < parking.until < overtaken for at in copies)
        for parking in parkings
    )


def _invented(history: History) -> Iterator[Fault]:
    known = {own.message_id for own in history.own} | {message_id for _, message_id in history.forgotten}
    for stored in history.stored:
        if stored.row.message_id not in known:
            yield Fault("invented", stored.row.message_id, f"nobody sent it; the store says {stored.row.sender}")
    if history.receipts is None:
        return
    written = {(receipt.user, receipt.message_id, receipt.kind) for receipt in history.receipts}
    for stored in history.stored:
        for step, _ in stored.transitions:
            said = (step.actor, stored.row.message_id, step.state)
            if step.state in RECEIPTS and said not in written:
                yield Fault("invented", stored.row.message_id, f"{step.actor} never said {step.state}")
    for at, event in history.log or ():
        if event.kind in RECEIPTS and (event.actor, event.message_id, event.kind) not in written:
            yield Fault("invented", event.message_id, f"the log holds a {event.kind} at {at.offset} nobody wrote")
        if event.kind == Kind.SEND and event.message_id not in known:
            yield Fault("invented", event.message_id, f"the log holds a SEND at {at.offset} nobody wrote")


def _premature(history: History) -> Iterator[Fault]:
    for answer in history.answers or ():
        if answer.version > answer.durable_version:
            told = f"version {answer.version} was told when {answer.durable_version} was durable"
            yield Fault("untrue", answer.message_id, told)


def _after_the_lease(history: History) -> Iterator[Fault]:
    for late in history.late_writes or ():
        told = f"the store took rows of partition {late.partition} from epoch {late.epoch} in epoch {late.lease_epoch}"
        yield Fault("regressed", b"", told)


def _too_many_waiting(history: History) -> Iterator[Fault]:
    for row in history.conversations or ():
        most = max((len(each.waiting) + len(each.passed) for each in row.parkings), default=0)
        if most > history.policy.parked_max:
            yield Fault("invented", b"", f"{most} records have waited in conversation {row.conversation_id}")
        held = max((sum(len(one.seqs) + len(one.passed) for one in each.holds) for each in row.parkings), default=0)
        if held > HELD_MAX:
            yield Fault("invented", b"", f"{held} records were noted as without room in {row.conversation_id}")
