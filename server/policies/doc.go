// Package policies manages the policies of a node. A Book follows the committed records,
// and an Editor changes them (RL.POLICY, RL.OVERRIDE).
//
// The package keeps this rule: a check never uses policies older than those that were
// committed when the check arrived. While nothing changes, the rule costs a check two loads
// of a word.
//
// # The steps of a change
//
//  1. Try. The editor makes the next set of policies from the committed set, and
//     registers its limits with the engine. It refuses a change that does not fit. The
//     next set is now staged (staged.go).
//  2. Put. The editor puts the change's records, if no other change was put
//     meanwhile. Otherwise the editor waits for that change and begins again.
//  3. Hear. When the records are committed, the engine passes them to the book, on every
//     node. The book queues them, and sets bits in the word Book.waits, which says what is
//     queued (queue.go). The book must not block in this step.
//  4. Take over. A goroutine locks making, takes the queued records, makes the next
//     view, and publishes the view with one store (next.go). If the queued records are
//     those of the staged change, the view is ready. Step 3 starts such a goroutine. A
//     reader that needs the view sooner does the work itself.
//  5. Give back. The book releases the limits that only the previous view had, so that the
//     engine can forget them. Checks that have loaded the previous view finish with it
//     (engine.Ready).
//
// # Which reader waits for what
//
//	Set      everything committed: checks, changes, explanations
//	texts    everything but overrides: clients that set many overrides
//	void     only changes made on this node: the engine calls it with a shard locked
//	Current  everything but a large change: logs, INFO, answers without a leader
//	InForce  nothing
//
// # Locks
//
// Braces contain the locks that are taken while the lock before them is held.
//
//	step 3   the engine's { queue }
//	step 4   making { queue }, then the view is made with making alone
//	readers  queue, for records; nothing, for the view
//
// # Why the rule holds
//
//  1. The book sets the bit in waits while the engine calls it. So the bit is set before
//     the reply of the change is sent.
//  2. A bit is cleared only after a view with its changes is published. If changes are
//     queued meanwhile, their bits stay set.
//  3. A reader that finds no bit set loads a view that contains everything. A reader that
//     finds a bit set locks making. If another goroutine was making a view, that view is
//     published by then. The reader takes over the rest of the queue.
//
// # Bounds
//
// The queue has at most newsMost bytes. If it is full, a change goes directly to the
// records, and the next view is made from all records. This takes longer, but the queue
// does not grow. To take over an override, the book makes the override's policy again. So
// overrides that no check asks for are taken over only ten times per second (followPause).
package policies
