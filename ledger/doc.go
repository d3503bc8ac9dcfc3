// Package ledger keeps account of a leader's decisions: in which cut each one is, whether
// that cut is sent and committed, and which replies may be sent. A cut is a batch of all
// changes that are not yet in the cluster's log.
//
// Three parts share a Ledger. The machine (engine.Replica) makes cuts; the Ledger gives
// them tickets, and keeps the old states with which they can be undone. The log (raftlog)
// sends and commits the cuts. The node (cluster) releases replies. A Ledger knows no limits
// and no Raft, starts no goroutine, and does no I/O.
//
// A ticket is the number under which a reply waits. It is the number of the cut with the
// effects on which the reply depends. Packages cluster/partition and server use the same
// word.
//
// # From a decision to its reply
//
//  1. Decide. A session changes the table under its shard's lock. The shard marks the
//     key dirty and keeps its earlier state. If the reply must wait for its commit, the
//     front then calls Open for a ticket, and parks the reply under the ticket.
//  2. Mark. The node has three calls that ask for a cut. It calls Mark every few
//     milliseconds. Flush asks for a cut at once, without the usual time between two cuts
//     (Pace in raftlog's Config). Await does the same for a parked reply. They wake the
//     log's proposer through the channel Due.
//  3. Cut. The proposer makes the machine take all dirty keys as one batch. Begin gives
//     the cut its ticket and opens the next ticket. Add makes the result a flight, which
//     is a batch on its way to its commit. Encoded records the flight's parts. Empty ends
//     a cut that found no dirty keys. A periodic entry of the log has no effects: Tick
//     makes it a flight.
//  4. Commit. The log has committed the last part of the oldest flight. Commit drops the
//     flight's undo, and releases the replies that waited for it.
//  5. Release. Hooks.Release completes every ticket up to a number, and the front sends
//     the replies that are parked under these tickets.
//
// A term may end at any step. Then the machine seals itself, and undoes the dirty changes
// and then the flights, newest first. Depose drops the flights. Every incomplete ticket
// then has an unknown outcome. This includes the open ticket, which no cut has taken yet.
//
// # Who holds which lock
//
//	decide   shard                        (several keys: gate shared, shards)
//	mark     none: atomics
//	cut      log { gate exclusive { Begin; each shard in turn; Add or Empty };
//	               large states are encoded; Encoded }
//	commit   log { ledger }, then Release with only log held
//	depose   log { seal; gate, to let deciders finish; each shard in turn;
//	               ledger }, then Hooks.Deposed with only log held
//	snapshot gate shared { ledger { shard } }
//
// "log" is the mutex that orders all calls of a machine (raftlog/fsm.go). "gate" makes
// operations on several keys atomic (engine/replica.go). "ledger" is Ledger.mu. Locks are
// taken only in the order from left to right.
//
// # Invariants
//
//  1. Tickets only grow, over all terms of a process. A cut opens the next ticket before
//     it looks at the first shard. So if Open returned n, all decisions made before are
//     in the cut of n or in earlier cuts.
//  2. Every change of a key is in exactly one of these places: the journal of its shard, a
//     flight, or the committed part of the log. Add happens while the gate is held, so a
//     reader that holds the gate misses no key.
//  3. Flights are committed in the order of their cuts. Each is committed once and in
//     the term of its cut, or never.
//  4. Ticket n is released without an error only if two things are true: the effects on
//     which its replies may depend are committed, and this node was leader after the
//     decisions.
//  5. Every ticket with parked replies is released. At the latest, it is released with
//     an error when the term ends.
//  6. A mark made after Begin stays for the next cut.
//
// How both conditions of 4 are known: if the ticket belongs to a flight, the flight's
// commit proves them. The followers accepted the flight after all decisions under that
// ticket, so this node was leader then.
//
// A cut that finds no dirty keys has a ticket too, for denials and peeks. Their replies
// depend on the earlier flights, and on this node's belief that it is leader. The commit of
// the flights does not prove that belief: after the followers accepted the flights, they
// may have elected another leader before the denials were decided. So such a ticket waits
// for the last flight before it, and for a round of heartbeats that begins after the cut
// (Round, Verified). Several tickets share a round.
//
// # Rejected
//
//   - Tickets only for batches. Denials and peeks would need tickets of their own to tell
//     which round covers them.
//   - The batch's number in the log as ticket. In the log, batches of a term count from 1
//     without gaps, so that a lost batch is noticed (raftlog/fsm.go). Cuts that find no
//     dirty keys would leave gaps. The log can number a batch without the ledger: the
//     number is one more than the count of the term's batches that are committed or in
//     flight.
//   - An empty batch for denials instead of a round. It would cost every disk a sync.
//   - Tickets that begin at 1 in each term. If leadership is lost and won again, a batch
//     of the new term could have the ticket of an old reply, which would then wait for
//     the wrong batch.
//   - Waiting for the commit of a flight before the next decision on its keys. A
//     frequently used key would wait all the time. Undo costs only one copy of a key's
//     state per cut.
package ledger
