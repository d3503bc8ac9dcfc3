// Package ledger keeps account of a leader's decisions. A cut is a batch of all changes
// that are not yet in the cluster's log. For each decision, the ledger knows which cut
// has its changes, whether that cut is sent and committed, and which replies may be
// sent.
//
// Three parts share a Ledger. The machine (engine.Replica) makes cuts. The log (raftlog)
// sends and commits the cuts. The node (cluster) releases replies. The Ledger numbers
// the cuts, and keeps the old states with which a cut can be undone. It does not know
// limits or Raft. It starts no goroutine and does no I/O.
//
// A ticket is the number of a cut. A reply that must wait for a commit waits under a
// ticket: the number of the cut that has the changes on which the reply depends.
// Packages cluster/partition and server use the word in the same way.
//
// # From a decision to its reply
//
//  1. Decide. A session locks a shard of the table and changes a key. The shard marks
//     the key dirty, and keeps the key's earlier state. If the reply must wait for the
//     commit, the front (the server) calls Open to get a ticket. It then parks the
//     reply, which means that it keeps the reply back until the ticket is released.
//  2. Mark. The node asks for a cut with one of four methods. Mark says that keys may
//     be dirty; the node calls it every few milliseconds. Flush asks for a cut at once,
//     without the usual time between two cuts (Pace in raftlog's Config). Await asks for
//     a cut at once because a reply is parked. Expect asks for a cut at the usual time,
//     because a handover will wait for the ticket. All four wake the log's proposer
//     through the channel Due.
//  3. Cut. The proposer makes the machine take all dirty keys as one batch. First, Begin
//     gives the cut its ticket and opens the next ticket. Then Add makes the batch a
//     flight, which is a batch on its way to its commit. Encoded counts the flight's
//     parts and bytes. If the cut found no dirty keys, Empty ends the cut instead. The
//     log also has a periodic entry without changes, and Tick makes that entry a flight.
//  4. Commit. When the log has committed the last part of the oldest flight, it calls
//     Commit. Commit drops the old states that this flight kept, and releases the
//     replies that waited for the flight.
//  5. Release. Hooks.Release completes every ticket up to a number, and the front sends
//     the replies that are parked under these tickets.
//
// The leader's term may end at any step. The machine then seals itself, which means that
// it refuses decisions. It undoes the dirty changes, and then the flights from the
// newest to the oldest. Depose drops the flights, and keeps their tickets. The log knows
// the outcome soon: if the next leader has some of the flights, it commits these first. For
// each one, the log calls Survived, which releases the replies. The first entry of a
// later term shows that the other flights are lost, and the log calls Undone. Their
// decisions, and those that no cut has taken, were never in force. If the log cannot know
// the outcome, for example because a snapshot came in place of the entries, it calls Forget.
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
//	outcome  log { ledger }, then Release or Ended with only log held
//	snapshot gate shared { ledger { shard } }
//
// "log" is the mutex that orders all calls of a machine (raftlog/fsm.go). "gate" makes
// operations on several keys atomic (engine/replica.go). "ledger" is Ledger.mu. Locks are
// taken only in the order from left to right.
//
// # Invariants
//
//  1. Tickets only grow, over all terms of a process. A cut opens the next ticket before
//     it looks at the first shard. So if Open returned n, all decisions before that call
//     are in the cut of n or in earlier cuts.
//  2. Every change of a key is in exactly one of these places: the journal of its shard, a
//     flight, or the committed part of the log. Add happens while the gate is held, so a
//     reader that holds the gate misses no key.
//  3. Flights are committed in the order of their cuts. Each is committed once, as an
//     entry of the term of its cut, or never. The commit may come after the term's end.
//  4. Ticket n is released without an error only if two conditions hold. All changes on
//     which its replies may depend are committed. And this node was leader after it made
//     the decisions under this ticket.
//  5. Every ticket with parked replies is released. At the latest, it is released with
//     an error a moment after the term has ended (cluster/role.go).
//  6. A mark made after Begin stays for the next cut.
//  7. If Since returned n before a decision, the decision is in the cut of n or in a later
//     cut. So a reply is known to be undone if all tickets from n to its own are.
//
// How does the ledger know both conditions of invariant 4? If the ticket belongs to a
// flight, the flight's commit proves them: the followers accepted the flight after all
// decisions under its ticket, so this node was leader after these decisions. This also holds
// if the next leader commits the flight: no other node has decided in between.
//
// A cut that finds no dirty keys has a ticket too, because denials and peeks change
// nothing and may still have to wait. Their replies depend on the earlier flights, and
// on this node being leader. The commit of the flights does not prove that the node is
// still leader: the followers may have accepted the flights, and then elected another
// leader before the denials were decided. So such a ticket waits for the last flight
// before it, and for a round of heartbeats that begins after the cut (Round, Verified).
// Several tickets share a round.
//
// # Rejected
//
//   - Tickets only for batches. Denials and peeks would then need a second kind of
//     number, to say which round of heartbeats they wait for.
//   - The batch's number in the log as ticket. In the log, batches of a term are
//     numbered from 1 without gaps, so that a lost batch is noticed (raftlog/fsm.go).
//     Cuts that find no dirty keys would leave gaps. And the log needs no number from the ledger: it
//     counts the term's batches, committed and in flight, and adds one.
//   - An empty batch for denials instead of a round. Each such batch would cost a sync
//     on every node's disk.
//   - Tickets that begin at 1 in each term. If a node loses leadership and wins it
//     again, a batch of the new term could have the same ticket as an old reply. The old
//     reply would then wait for the wrong batch.
//   - Waiting for the commit of a flight before the next decision on its keys. Decisions
//     on a frequently used key would wait all the time. Undo instead costs one copy of
//     each dirty key's state per cut.
package ledger
