package command

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
)

// # Commands that are too long for a loop
//
// A command that does much work leaves the thread of its loop and runs on a worker. The
// work is the number of entries that the command walks over or changes, and the number of
// bytes that it copies or moves. The length of the reply does not matter. A handler knows
// the work when it visits its key, and passes it to Long. If Long returns true, the handler
// ends its visit and returns.

const (
	// InlineEntries is the most entries of a collection, or arguments of a command, that a
	// call handles on a loop's thread, at 20 to 100 ns each. A call with more runs on a
	// worker.
	InlineEntries = 1000
	// BytesOfEntry is how many bytes a loop copies in the time that it takes for one entry.
	BytesOfEntry = 256
)

// Long reports whether the call must leave its loop for a worker, because it has so many
// entries to walk over. It stores the number in Call.Entries. See Leave.
func (c *Call) Long(entries int) bool {
	c.Entries = entries
	return entries > InlineEntries && (!c.InExec || c.Movable) && !c.OnWorker
}

// LongReply reports whether the call must leave its loop because its reply is long. The
// reply begins at W.B[start]. If LongReply returns true, it has removed the reply.
func (c *Call) LongReply(start int) bool {
	if len(c.W.B)-start <= InlineEntries*BytesOfEntry || !c.Long((len(c.W.B)-start)/BytesOfEntry) {
		return false
	}
	c.W.B = c.W.B[:start]
	return true
}

// LongKeys reports whether the call must leave its loop because it copies the values of
// keys, and these are large.
func (c *Call) LongKeys(keys ...[]byte) bool {
	if c.OnWorker {
		return false
	}
	bytes := 0
	for _, key := range keys {
		n, _, _ := c.Sess.Footprint(c.Now, key) // the call replies the error when it runs
		bytes += n
	}
	return c.Long(bytes / BytesOfEntry)
}

// Leave runs the call's handler again, on a worker and with a session of its own. Before it
// calls Leave, the handler must not have changed or replied anything. If the call is part
// of a step that can move to a worker, the whole step runs again.
func (c *Call) Leave() {
	if c.InExec {
		c.Moves = true
		return
	}
	spec, args, now, host := c.Spec, CloneArgs(c.Args), c.Now, c.Host
	apart := c.Entries > apartEntries && spec.Keys.First == 1 && spec.Keys.Last == 1 && spec.Flags&Write != 0 && spec.Flags&Databases == 0
	s := c.NewSession()
	host.Block(c, ArgsSize(args), func(w *resp.Writer) {
		defer s.Close()
		inner := Call{Spec: spec, Args: args, W: w, Now: now, Sess: s, Host: host, OnWorker: true}
		start := len(w.B)
		if !apart || !inner.apart() {
			spec.Handler(&inner)
		}
		if inner.Refused() {
			w.Cut(start)
			host.Uncertain(w)
		}
	})
}

const (
	// apartEntries is the most entries that a call on a worker walks over while its key is
	// locked. It takes some milliseconds.
	apartEntries = 64 * InlineEntries
	// apartTries is how often a call with more entries tries to work on a copy of its key.
	apartTries = 4
)

// apart runs a call on a worker, on a copy of its key, and then stores the result. So other
// calls need not wait for the key meanwhile. It returns false if other calls keep changing
// the key, or if there is no memory for copies. It has then changed and replied nothing.
func (c *Call) apart() bool {
	main, start := c.Sess, len(c.W.B)
	copies := main.Engine().NewScratch()
	defer func() { c.Sess, c.InExec = main, false }()
	for range apartTries {
		if copies.Bring(main, c.Now, c.Args[1]) != nil {
			return false // the call without copies finds and replies the error
		}
		c.Outcome, c.Sess, c.InExec = Outcome{}, copies.Session(), true
		c.Spec.Handler(c)
		stored, err := c.Err == nil, c.Err
		if stored {
			stored, err = copies.Commit(main, c.Now, nil)
		}
		copies.Reset()
		switch {
		case stored:
			return true
		case err != nil && !errors.Is(err, engine.ErrSealed):
			c.W.B = c.W.B[:start]
			return false
		case err != nil:
			c.Err = err
			return true
		}
		c.W.B = c.W.B[:start]
	}
	return false
}
