// Package policies has the policies of a node. A Book follows the committed records, and
// an Editor changes them (RL.POLICY, RL.OVERRIDE).
//
// The rule: a check never sees policies older than those committed when it arrived. While
// nothing changes, the rule costs a check two loads of a word.
//
// # The way of a change
//
//  1. Try. The editor makes the next set from the committed one, and readies its limits. It
//     refuses a change that does not fit. The set is staged (staged.go).
//  2. Put. The records are put if no other change has been put since the set was tried.
//     Otherwise the editor waits for that change and begins again.
//  3. Hear. When the records are committed, the engine passes them to the book, on every
//     node. The book queues them and records that in waits (queue.go). It must not wait here.
//  4. Take over. A goroutine locks making, takes the queue, makes the next view, and
//     publishes it with one store (next.go). If the queue is the staged change, the view is
//     ready. Step 3 starts such a goroutine. A reader that needs the view sooner does the
//     work itself.
//  5. Give back. The engine gets back the limits that only the last view had. Checks that
//     have loaded that view finish with it (engine.Ready).
//
// # Who waits for what
//
//	Set      everything committed: checks, changes, explanations
//	texts    everything but overrides: clients that set many overrides
//	void     only changes of this node: it is called with a shard locked
//	Current  everything but a large change: logs, INFO, answers without a leader
//	InForce  nothing
//
// # Locks
//
//	hear     the engine's { queue }
//	take     making { queue }, then the view is made with making alone
//	read     queue, for records; nothing, for the view
//
// # Why the rule holds
//
//  1. The bit in waits is set while the engine calls the book, so before the reply of a
//     change leaves.
//  2. A bit is cleared only after a view with its changes is published. Changes that are
//     queued meanwhile keep their bits.
//  3. So a reader that finds no bit loads a view with everything. A reader that finds a bit
//     locks making. By then, the view that was being made is published, and the reader takes
//     over the rest of the queue.
//
// # Bounds
//
// The queue has at most newsMost bytes. If it is full, a change goes directly to the
// records, and the next view is made from all records. That takes longer, but no memory.
// Taking over an override remakes its policy. So overrides that no check asks for are
// taken over only ten times per second (followPause).
package policies
