// Package policies has the policies of a node: a Book follows the records that are
// committed, and an Editor makes changes of them (RL.POLICY, RL.OVERRIDE).
//
// The rule: a check never sees policies older than those that were committed when it
// came. Nobody pays for the rule while nothing changes: a check loads two words.
//
// # The way of a change
//
//  1. Try. The editor makes the set that the change leads to from the one that is
//     committed, and readies its limits. What does not fit is refused. The set is
//     staged (staged.go).
//  2. Put. The records are put if no other change has been put since the set was
//     tried. Otherwise the editor waits for that change and begins again.
//  3. Hear. When the records are committed the engine hands them to the book, on every
//     node. The book queues them, and says in waits that it has (queue.go). It does
//     not wait here, since the engine does not.
//  4. Take over. Whoever holds making takes all that is queued, makes the next view of
//     it, and publishes that with one store (next.go). If the queue is the change that
//     was staged, the view is ready. This is done by the goroutine that hearing
//     starts, and by every reader that must not wait for that goroutine.
//  5. Give back. The engine gets back the limits that only the last view had. Checks
//     that have loaded it finish with it (engine.Ready).
//
// # Who waits for what
//
//	Set      all that is committed: checks, changes, explanations
//	texts    all but overrides: who sets many overrides
//	Void     changes of this node alone: it is asked with a shard locked
//	Current  all but a large change: logs, INFO, answers without a leader
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
//  1. The bit in waits is set while the engine tells the book, hence before the reply of
//     a change leaves.
//  2. A bit is cleared only when the view is published that has what it stands for.
//     What is queued meanwhile keeps its own.
//  3. So a reader that finds no bit loads a view that has all. A reader that finds one
//     takes making, hence after the view that was being made is published, and takes
//     over what is still queued.
//
// # Bounds
//
// The queue has newsMost bytes. Beyond that news go among the records at once, and the
// next view is made of all records: that takes longer, and no memory. A stream of
// overrides that nobody asks for is taken over ten times a second (followPause), since
// each time makes its policy anew.
package policies
