// Package policies manages the policies of a node. A Book holds the policies in force
// and follows the records that the cluster commits. An Editor changes the records
// (RL.POLICY, RL.OVERRIDE).
//
// The package keeps this rule: a check never uses policies that are older than those
// committed when the check arrived. While no policy changes, a check pays two loads of a
// word for the rule.
//
// # The steps of a change
//
//  1. Try. The editor makes the next set of policies from the committed set, and
//     registers its limits with the engine. It refuses a change that does not fit. The
//     next set is now staged (staged.go).
//  2. Put. The editor puts the change's records into the log, if no other change was put
//     after step 1. Otherwise the editor waits until that other change is committed, and
//     begins again.
//  3. Hear. When the records are committed, the engine passes them to the book of every
//     node. The book queues the records. It also sets bits in the word Book.waits, which
//     says what kinds of changes are queued (queue.go). The book must not block in this
//     step.
//  4. Take over. Step 3 starts a goroutine, which locks making (a mutex), takes the
//     queued records, and makes the next view. A view is a set of policies that are
//     ready to use. The goroutine publishes the view with one store (next.go). If the
//     queued records are those of the staged change, the view is already made. A reader
//     that needs the view sooner makes and publishes it without the goroutine.
//  5. Give back. The book releases the limits that only the previous view had, so that
//     the engine can forget them. A check that has loaded the previous view may still
//     finish with that view (engine.Ready).
//
// # Which reader waits for what
//
// Each line names a method of the book, the changes for which the method waits, and who
// calls it.
//
//	Set      everything committed: checks, changes, explanations
//	texts    everything but overrides: clients that set many overrides
//	void     only changes made on this node: the engine calls it with a shard locked
//	Current  everything but a large change: logs, INFO, answers without a leader
//	InForce  nothing
//
// # Locks
//
// A lock in braces is taken while the lock before the braces is held.
//
//	step 3   the engine's { queue }
//	step 4   making { queue }, then the view is made with making alone
//	readers  queue, for records; nothing, for the view
//
// # Why the rule holds
//
//  1. The engine calls the book before the reply to the change is sent, and the book
//     sets the bit in waits during that call. So a client that has seen the reply also sees
//     the bit.
//  2. A bit is cleared only after a view with its changes is published. If changes are
//     queued meanwhile, their bits stay set.
//  3. A reader that finds no bit set loads a view that contains everything. A reader
//     that finds a bit set locks making. If another goroutine was making a view, that
//     view is published when the reader gets the lock. The reader then takes over what
//     is left in the queue.
//
// # Bounds
//
// The queue has at most newsMost bytes. If it is full, a change goes only into the
// records, and the next view is made from all records. This takes longer, but the queue
// does not grow. To take over an override, the book must make the override's whole
// policy again. So overrides that no check waits for are taken over at most ten times
// per second (followPause).
package policies
