package server

import (
	"errors"
	"runtime"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

// execAside runs a transaction on a worker, as a slow script: on copies of its
// keys, which are stored at the end in one step.
// What is watched ends with it.
func (c *conn) execAside(tx *transaction, watched watches) {
	s, e, db, admin := c.srv, c.lane.sess.Engine(), c.db, c.relayed || c.administers()
	run := &queueRun{tx: tx, watched: watched.keys, resp3: c.resp3}
	c.blockSync(tx.size, watched.end, func(w *resp.Writer, spent *memory.Spending, x *turns.Turn) command.SyncMode {
		w.Divide()
		s.aside(x, e, db, spent, func(r *scriptRun) {
			r.now = e.Now()
			r.queue, r.keys, r.grip = run, tx.keys(watched.keys, r.now), gripCopies
			r.readonly, r.admin, r.aside.addr, r.shown = false, admin, c.addr, tx.shown
			if err := r.onWorker(w); err != nil {
				r.fail(w, err)
			}
		})
		return command.SyncDefault
	})
}

// queueRun is a transaction that a scriptRun runs in place of a script.
type queueRun struct {
	tx      *transaction
	watched []engine.Watch
	resp3   bool
}

// runQueue runs the commands of a transaction and writes its reply, of at most
// most bytes.
func (r *scriptRun) runQueue(w *resp.Writer, most int) error {
	changed, err := r.changed()
	if err != nil {
		return err
	}
	if changed {
		w.NullArray()
		return nil
	}
	start := len(w.B)
	copied := 0
	w.Array(len(r.queue.tx.queue))
	for _, q := range r.queue.tx.queue {
		reply, err := r.Call(q.args, r.queue.resp3)
		if err != nil {
			return err
		}
		if w.Len()+len(reply)-start > most {
			return errLongReply
		}
		if w.Raw(reply); w.Refused {
			return memory.ErrFull
		}
		if copied += len(reply); copied > yieldAfter {
			copied = 0
			runtime.Gosched()
		}
		if err := r.look(); err != nil {
			return err
		}
	}
	return nil
}

// changed reports whether a watched key has changed. If not, nobody changes it
// until the end of the attempt: else it runs again.
func (r *scriptRun) changed() (bool, error) {
	if r.grip != gripCopies && r.held.IsZero() {
		r.lock()
	}
	for i := range r.queue.watched {
		if same, err := r.sess.Unchanged(r.now, &r.queue.watched[i]); err != nil || !same {
			return true, err
		}
	}
	return false, nil
}

// watched returns what the transaction watches, if it is one.
func (r *scriptRun) watched() []engine.Watch {
	if r.queue == nil {
		return nil
	}
	return r.queue.watched
}

// yieldAfter is how many bytes a worker copies before it lets others go first: it
// would keep its processor for ten milliseconds.
const yieldAfter = 1 << 20

// errLongReply ends a transaction whose reply is too long.
var errLongReply = errors.New("the reply is longer than client-output-buffer-limit")
