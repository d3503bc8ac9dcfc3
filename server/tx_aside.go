package server

import (
	"errors"

	"github.com/headgate-io/headgate/resp"
)

// execAside runs a transaction on a worker, as a slow script: on copies of its
// keys, which are stored at the end in one step.
func (c *conn) execAside(tx *transaction, watched []watch) {
	s, e, db := c.srv, c.lane.sess.Engine(), c.db
	run := &queueRun{tx: tx, watched: watched, resp3: c.resp3}
	c.blockKeeping(tx.size, func(w *resp.Writer) {
		turn := s.workers.turns.take()
		defer turn.end()
		r := s.scriptRun()
		defer s.scripts.give(r)
		s.scripts.begin(r)
		defer s.scripts.end(r)
		sess := e.NewSession()
		defer sess.Close()
		sess.Use(db)
		r.queue, r.sess, r.keys, r.grip = run, sess, tx.keys(watched), gripCopies
		r.turn, r.now, r.readonly = turn, e.Now(), false
		defer r.forget()
		if err := r.onWorker(w); err != nil {
			r.fail(w, err)
		}
	})
}

// queueRun is a transaction that a scriptRun runs in place of a script.
type queueRun struct {
	tx      *transaction
	watched []watch
	resp3   bool
}

// runQueue runs the commands of a transaction and writes its reply, of at most
// most bytes.
func (r *scriptRun) runQueue(w *resp.Writer, most int) error {
	changed, err := r.changed(r.queue.watched)
	if err != nil {
		return err
	}
	if changed {
		w.NullArray()
		return nil
	}
	start := len(w.B)
	w.Array(len(r.queue.tx.queue))
	for _, q := range r.queue.tx.queue {
		reply, err := r.Call(q.args, r.queue.resp3)
		if err != nil {
			return err
		}
		w.B = append(w.B, reply...)
		if len(w.B)-start > most {
			return errLongReply
		}
		if err := r.look(); err != nil {
			return err
		}
	}
	return nil
}

// changed tells whether a watched key is not what it was. If not, nobody changes
// it until the end of the attempt: else it runs again.
func (r *scriptRun) changed(watched []watch) (bool, error) {
	defer r.sess.Use(r.db)
	if r.grip != gripCopies && r.held.IsZero() {
		r.lock()
	}
	for _, w := range watched {
		r.sess.Use(w.db)
		key := []byte(w.key)
		if r.grip == gripCopies {
			if err := r.scratch.Bring(r.sess, r.now, key); err != nil {
				return false, err
			}
		}
		state, err := stateOf(r.sess, r.now, key)
		if err != nil {
			return false, err
		}
		if state != w.state {
			return true, nil
		}
	}
	return false, nil
}

// errLongReply ends a transaction whose reply is too long.
var errLongReply = errors.New("the reply is longer than client-output-buffer-limit")
