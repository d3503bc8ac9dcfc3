package scripts

import (
	"errors"
	"runtime"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/memory"
	"github.com/headgate-io/headgate/server/turns"
)

// Transaction is the content of an EXEC that takes too long for its loop.
type Transaction struct {
	Commands [][][]byte // with their arguments
	Watched  []engine.Watch
	Database uint8 // at the begin
	RESP3    bool
	Addr     string // the client's address
	Admin    bool   // the client may run guarded commands
	Shown    int    // how many commands MONITOR has already shown
	// Keys returns the keys that the commands touch at a time in Unix ns, and the watched
	// keys.
	Keys func(now int64) [][]byte
}

// Exec runs a transaction on a worker in the same way as a slow script: on copies of its
// keys, which are stored at the end in one step.
func (s *Scripts) Exec(e *engine.Engine, t *Transaction, w *resp.Writer, spent *memory.Spending, x *turns.Turn) {
	w.Divide()
	s.aside(x, e, t.Database, spent, func(r *run) {
		r.now = e.Now()
		r.tx, r.keys, r.grip = t, t.Keys(r.now), gripCopies
		r.readonly, r.admin, r.addr, r.shown = false, t.Admin, t.Addr, t.Shown
		if err := r.onWorker(w); err != nil {
			r.fail(w, err)
		}
	})
}

// runTransaction runs the commands of a transaction and writes its reply. most bounds the
// reply in bytes.
func (r *run) runTransaction(w *resp.Writer, most int) error {
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
	w.Array(len(r.tx.Commands))
	for _, args := range r.tx.Commands {
		reply, err := r.Call(args, r.tx.RESP3)
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

// changed reports whether somebody has changed a watched key. If it returns false, the
// watched keys stay unchanged until the attempt ends, or else the attempt is repeated.
func (r *run) changed() (bool, error) {
	if r.grip != gripCopies && r.held.IsZero() {
		r.lock()
	}
	for i := range r.tx.Watched {
		if same, err := r.sess.Unchanged(r.now, &r.tx.Watched[i]); err != nil || !same {
			return true, err
		}
	}
	return false, nil
}

// watched returns the keys that the transaction watches; nil for a script.
func (r *run) watched() []engine.Watch {
	if r.tx == nil {
		return nil
	}
	return r.tx.Watched
}

// yieldAfter is how many bytes a worker copies before it yields. If it did not yield, it
// would keep its processor for ten milliseconds.
const yieldAfter = 1 << 20

// errLongReply ends a transaction whose reply is too long.
var errLongReply = errors.New("the reply exceeds client-output-buffer-limit")
