// Package ledger accounts for what a leader has decided: which cut has taken
// it, whether that is sent and committed, and which replies may leave.
//
// A Ledger is shared by the three that move a decision along: the machine, whose
// cuts it gives tickets, and whose undo it keeps (engine.Replica), the log, which sends
// and commits them (raftlog), and the node, which releases replies (cluster). It
// knows neither limits nor Raft, makes no goroutine, and does no I/O.
//
// A ticket is the number under which a reply waits: that of the cut that takes what it
// rests on. It has this name on all of its way, here, in cluster/partition and in server.
//
// # The way of a decision
//
//  1. Decide. A session changes the table under its shard's lock; the shard
//     marks the key dirty and keeps what it was. A reply that must not leave
//     before its commit reads Open afterwards, and is parked under that ticket.
//  2. Mark. Somebody says that there may be something to cut: Mark, every other
//     millisecond; Flush, to have it cut without the pace; Await, for a reply
//     that is parked. The bell Due rings for the log's proposer.
//  3. Cut. The proposer has the machine take everything dirty as one batch.
//     Begin gives the cut its ticket and opens the next one; Add makes what was
//     found a flight, Encoded tells what is sent of it, Empty that nothing was
//     found. Only an entry of the log whose time has come is sent without
//     effects: Tick makes it a flight.
//  4. Commit. The log has the oldest flight's last part: Commit forgets how to
//     undo it, and releases what waited for it.
//  5. Release. Hooks.Release completes every ticket up to one, and the front
//     sends the replies that are parked under them.
//
// A term that ends takes the other way from any step: the machine seals itself
// and takes back what is dirty and the flights, the newest first; Depose forgets
// them, and of every ticket up to the open one the outcome is unknown.
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
// "log" is the mutex that puts all calls of a machine into one order
// (raftlog/fsm.go), "gate" the one that keeps operations on several keys whole
// (engine/replica.go), "ledger" is Ledger.mu. Locks are taken from left to
// right only.
//
// # Invariants
//
//  1. Tickets only grow, over all terms of a process. A cut opens the next one
//     before it looks at the first shard. So what was decided before Open
//     returned n is in the cut of n, or in an earlier one.
//  2. Every dirty key is in exactly one of: the shards' journals, a flight, the
//     committed prefix. Add happens inside the gate, hence a reader that holds
//     the gate sees no key in between.
//  3. Flights are committed in the order of their cuts, each once, in the term
//     in which they were cut, or never.
//  4. Ticket n is released without error only if every effect that the replies
//     under it may rest on is committed, and this node led after they had been
//     decided.
//  5. Every ticket that is parked under is released, with an error at the latest
//     when the term ends.
//  6. What is marked after Begin stays marked for the next cut.
//
// About 4: the commit of a flight proves both for its own ticket. The followers
// took it after all that was decided under that ticket, so this node led then.
// A cut that finds nothing has a ticket too, for denials and peeks: they rest on
// the flights, and on the belief of this node that it leads. The commit of the
// flights does not prove the second: the followers may have taken them, and
// elected another leader, before the denials were decided. So such a ticket
// waits for the last flight before it and for a round of heartbeats that begins
// after the cut (Round, Verified). Several tickets share a round.
//
// # Rejected
//
//   - A ticket for a batch only. Denials and peeks would need tickets of their
//     own to tell which round covers them.
//   - The ticket as the batch's number in the log. There, batches of a
//     term count from 1 without gaps, so that a lost one shows (raftlog/fsm.go),
//     and cuts that find nothing leave gaps. The log needs no ledger for its own:
//     it is what is committed in the term, and in flight, and one.
//   - An empty batch for denials instead of a round. It would cost every disk a
//     sync.
//   - Tickets that begin anew in each term. A reply that was decided before a
//     leadership was lost and won again would wait for, or be released by, a
//     batch of the next term that happens to have its ticket.
//   - Waiting for the commit of a flight before the next decision on its keys:
//     a hot key would wait all the time. Undo costs a copy of a key's state a
//     cut.
package ledger
