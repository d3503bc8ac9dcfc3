package policies

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"golang.org/x/sync/semaphore"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/policy/grammar"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/checks"
	"github.com/headgate-io/headgate/server/command"
)

// Editor changes and shows the policies of a book.
type Editor struct {
	book  *Book
	audit *slog.Logger // see server.Config
	// reading bounds the size, in bytes, of all texts that are being read and changed at a
	// time.
	reading  *semaphore.Weighted
	confirms confirmer
}

// NewEditor returns the editor of a book. It logs changes to audit. elsewhere is for a book
// with several groups.
func NewEditor(book *Book, audit *slog.Logger, elsewhere Elsewhere) *Editor {
	return &Editor{book: book, audit: audit, reading: semaphore.NewWeighted(grammar.MaxFile), confirms: confirmer{elsewhere: elsewhere, turn: make(chan struct{}, 1)}}
}

// change makes a change on a worker. It replies the new versions when they are committed.
// For a dry run it replies what would change.
func (e *Editor) change(call *command.Call, keep int, dry bool, of func() (*change, error)) {
	at, author := call.Now, call.Host.Author()
	run := func(sess *engine.Session, w *resp.Writer) error {
		end, err := e.admit(keep, !call.InExec)
		if err != nil {
			w.Error(err.Error())
			return nil
		}
		defer end()
		c, err := of()
		if err == nil {
			c.at, c.author = at, author
			if c.from != nil {
				c.author = "node " + c.from.node
			}
			if dry {
				err = e.rehearse(sess, c, w, !call.InExec)
			} else {
				err = e.carryOut(sess, c, w, !call.InExec)
			}
		}
		switch {
		case err == nil:
			return nil
		case errors.Is(err, engine.ErrSealed):
			w.Error(command.EngineError(err).Error())
			return err
		}
		w.Error(oneLine(err.Error()))
		return nil
	}
	if !dry {
		call.Sync = command.SyncCommit // reply only when every node that may become leader has the change
	}
	if call.InExec {
		call.Err = run(call.Sess, call.W)
		return
	}
	sess := call.NewSession()
	call.Waits = e.book.homes.Several() && !dry // for other groups, which need workers
	call.Host.Block(call, keep, func(w *resp.Writer) {
		defer sess.Close()
		_ = run(sess, w) // replied
	})
}

// carryOut makes a change and replies the new versions.
func (e *Editor) carryOut(sess *engine.Session, c *change, w *resp.Writer, waits bool) error {
	versions, err := e.commit(sess, c, waits)
	if err != nil {
		return err
	}
	for i := range c.edits {
		if ed := &c.edits[i]; ed.changed {
			e.audit.Info("policy changed", "author", c.author, "policy", ed.name, "old_version", ed.was, "version", versions[i],
				"revision", c.revision, "deleted", ed.text == nil, "reset", ed.void, "file", ed.file)
		}
	}
	if c.made != nil {
		if err := c.made(sess, versions); err != nil {
			return err
		}
	}
	version := uint64(0)
	if c.ends != "" {
		version = versions[0]
	}
	if err := e.confirm(c.ends, version); err != nil {
		return err
	}
	if c.reply != nil {
		c.reply(w, versions)
		return nil
	}
	w.Int(int64(versions[0]))
	return nil
}

// writeVersions replies the names of the edits with their new versions.
func (c *change) writeVersions(w *resp.Writer, versions []uint64) {
	w.Array(len(versions))
	for i, v := range versions {
		p := command.NewPairs(w)
		p.Str("name", c.edits[i].name)
		p.Int("version", int64(v))
		p.Flush()
	}
}

// admit permits the caller to read a text of size bytes, until the caller calls end.
// Reading a text takes ten times its size in memory. So all long texts that are read at a
// time have at most grammar.MaxFile bytes together. If there is too little room, admit
// waits or, if waits is false, returns an error.
func (e *Editor) admit(size int, waits bool) (end func(), err error) {
	if size <= grammar.MaxText {
		return func() {}, nil
	}
	n := int64(min(size, grammar.MaxFile))
	if !e.reading.TryAcquire(n) {
		if !waits {
			return nil, checks.ErrChanging
		}
		if err := e.reading.Acquire(context.Background(), n); err != nil {
			return nil, err
		}
	}
	return func() { e.reading.Release(n) }, nil
}

// oneLine replaces line breaks, because RESP's simple errors cannot contain them.
func oneLine(s string) string { return strings.NewReplacer("\r", " ", "\n", " ").Replace(s) }
