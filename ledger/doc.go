// Package ledger accounts for a leader's decisions: in which cut each one is, whether
// that cut is sent and committed, and which replies may leave.
//
// Three parts share a Ledger. The machine (engine.Replica) makes cuts; the Ledger gives
// them tickets and keeps their undo. The log (raftlog) sends and commits the cuts. The
// node (cluster) releases replies. A Ledger knows no limits and no Raft, starts no
// goroutine, and does no I/O.
//
// A ticket is the number under which a reply waits: the number of the cut with the
// effects on which the reply rests. Packages cluster/partition and server use the same
// name.
//
// # The way of a decision
//
//  1. Decide. A session changes the table under its shard's lock; the shard marks the key
//     dirty and keeps its earlier state. If the reply must wait for its commit, the front
//     then asks Open for a ticket, and parks the reply under it.
//  2. Mark. Three calls say that there may be something to cut: Mark, every other
//     millisecond; Flush, to cut without the pace; Await, for a parked reply. The channel
//     Due wakes the log's proposer.
//  3. Cut. The proposer makes the machine take everything dirty as one batch. Begin gives
//     the cut its ticket and opens the next one. Add makes the result a flight, which is
//     a batch on its way to its commit. Encoded records its parts; Empty ends a cut that
//     found nothing. A periodic entry of the log has no effects: Tick makes it a flight.
//  4. Commit. The log has committed the oldest flight's last part: Commit drops its undo,
//     and releases the replies that waited for it.
//  5. Release. Hooks.Release completes every ticket up to one, and the front sends the
//     replies that are parked under them.
//
// A term may end at any step. Then the machine seals itself, and undoes the dirty changes
// and the flights, newest first. Depose drops the flights. The outcome of every ticket up
// to the open one is then unknown.
//
// # Who holds which lock
//
//	decide   shard                        (several keys: gate shared, shards)
//	mark     none: atomics
//	cut      log { gate exclusive { Begin; each shard in turn; Add or Empty };
//	               large states are encoded; Encoded }
//	commit   log { ledger }, then Release with the log's alone
//	depose   log { seal; gate, to let deciders finish; each shard in turn;
//	               ledger }, then Hooks.Deposed with the log's alone
//	snapshot gate shared { ledger { shard } }
//
// "log" is the mutex that orders all calls of a machine (raftlog/fsm.go). "gate" keeps
// operations on several keys whole (engine/replica.go). "ledger" is Ledger.mu. Locks are
// taken from left to right only.
//
// # Invariants
//
//  1. Tickets only grow, over all terms of a process. A cut opens the next ticket before it
//     looks at the first shard. So if Open returned n, all decisions made before are in the
//     cut of n or in earlier ones.
//  2. Every dirty key is in exactly one of: the shards' journals, a flight, the committed
//     prefix. Add happens inside the gate, so a reader that holds the gate misses no key.
//  3. Flights are committed in the order of their cuts, each once and in the term in which
//     they were cut, or never.
//  4. Ticket n is released without error only if two things hold: the effects on which
//     its replies may rest are committed, and this node led after the decisions.
//  5. Every ticket with parked replies is released, at the latest with an error when the
//     term ends.
//  6. A mark made after Begin stays for the next cut.
//
// About 4: for its own ticket, the commit of a flight proves both. The followers took the
// flight after all decisions under that ticket, so this node led then.
//
// A cut that finds nothing has a ticket too, for denials and peeks. These rest on the
// flights, and on this node's belief that it leads. The commit of the flights does not
// prove the belief: after the followers took them, they may have elected another leader
// before the denials were decided. So such a ticket waits for the last flight before it,
// and for a round of heartbeats that begins after the cut (Round, Verified). Several
// tickets share a round.
//
// # Rejected
//
//   - A ticket for a batch only. Denials and peeks would need tickets of their own to
//     tell which round covers them.
//   - The ticket as the batch's number in the log. There, batches of a term count from 1
//     without gaps, so that a lost batch is noticed (raftlog/fsm.go). Cuts that find nothing
//     would leave gaps. The log needs no ledger for its number: it is one more than the
//     batches of the term that are committed or in flight.
//   - An empty batch for denials instead of a round. It would cost every disk a sync.
//   - Tickets that begin anew in each term. If leadership is lost and won again, a batch of
//     the new term could have the ticket of an old reply, which would then wait for the wrong
//     batch.
//   - Waiting for the commit of a flight before the next decision on its keys: a hot key
//     would wait all the time. Undo costs only one copy of a key's state for each cut.
//     would wait all the time. Undo costs only one copy of a key's state for each cut.
package ledger
