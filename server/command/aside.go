package command

import (
	"errors"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
)

// # What is too long for a loop
//
// The work of a command decides where it runs, not the length of its reply. The work is the
// entries that it walks over or changes, and the bytes that it copies or moves. A handler
// knows the work when it visits its key. It asks Long, and if that returns true it ends its
// visit and returns.

const (
	// InlineEntries is how many entries of a collection, or arguments of a command, a loop
	// handles itself, at 20 to 100 ns each. More go to a worker.
	InlineEntries = 1000
	// BytesOfEntry is how many bytes a loop copies in the time of an entry.
	BytesOfEntry = 256
)

// Long reports whether the call must leave its loop for a worker, since it has so many
// entries to pass over: see Leave.
func (c *Call) Long(entries int) bool {
	c.Entries = entries
	return entries > InlineEntries && (!c.InExec || c.Movable) && !c.OnWorker
}

// LongReply reports whether the call must leave its loop because its reply, which begins at
// start of W, is long. If so, it removes the reply.
func (c *Call) LongReply(start int) bool {
	if len(c.W.B)-start <= InlineEntries*BytesOfEntry || !c.Long((len(c.W.B)-start)/BytesOfEntry) {
		return false
	}
	c.W.B = c.W.B[:start]
	return true
}

// LongKeys reports whether the call must leave its loop because it copies as much as keys
// hold, and that is large.
func (c *Call) LongKeys(keys ...[]byte) bool {
	if c.OnWorker {
		return false
	}
	bytes := 0
	for _, key := range keys {
		n, _, _ := c.Sess.Footprint(c.Now, key) // an error is replied when the call runs
		bytes += n
	}
	return c.Long(bytes / BytesOfEntry)
}

// Leave runs the call's handler again, on a worker and with a session of its own. Until
// then the handler must have changed and replied nothing. If the call is part of a step
// that can move, the whole step runs again.
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
	// apartEntries is how many entries a call on a worker passes over with its key locked:
	// some milliseconds.
	apartEntries = 64 * InlineEntries
	// apartTries is how often a call with more entries works on a copy of its key.
	apartTries = 4
)

// apart runs a call on a worker, on a copy of its key, and stores the result. So nobody
// waits for the key meanwhile. It returns false if others keep changing the key, or if
// there is no memory for copies; then it has changed and replied nothing.
func (c *Call) apart() bool {
	main, start := c.Sess, len(c.W.B)
	copies := main.Engine().NewScratch()
	defer func() { c.Sess, c.InExec = main, false }()
	for range apartTries {
		if copies.Bring(main, c.Now, c.Args[1]) != nil {
			return false // the error is found again without copies
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
