package server

import (
	"bytes"
	"math"
	"slices"
	"strconv"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # What WAIT confirms
//
// A client's connection outlives the leader: the client may send a command to one leader,
// and WAIT to the next one, which knows only what it has decided itself. So the client's
// node compares terms. WAIT answers 0 if a leader of another term may have decided an
// earlier command of the connection.
//
// The node keeps only one number for each connection, because an idle one must be small.
// Server.terms rises whenever a term of any partition changes (partition.SeeTerm).
// conn.since is the value at the connection's first command since its last WAIT. If the
// values are equal when WAIT has its answer, no term has changed meanwhile. The value is
// read before the roles of the batch are read, and before a frame's term is compared. So no
// change is missed. A change of an idle partition also counts: WAIT may answer 0 although
// nothing is lost.
//
// Some answers come from a leader of another term than the last one: a leader that does not
// know yet that it was replaced, or a leader of an older version, which does not tell its
// term. Then conn.since is termsLost. It is also termsLost after an answer of the failure
// policy, which no leader has decided.
//
// A leader tells the term of a stream in its reply to HELLO (conn.term). In another term it
// refuses the stream's commands, until the other node sends HELLO again. A node that does not
// lead tells 0. If it becomes the leader, it refuses nothing on this stream, but WAIT
// answers 0.
//
// conn.since begins anew after WAIT has answered at least 1, or 0 because of a change. After
// a 0 for another reason, such as a timeout, conn.since stays.

// termsLost is the value of conn.since if WAIT must answer 0.
const termsLost = math.MaxUint64

// noteTerms notes that the connection has run commands in this batch.
func (c *conn) noteTerms() {
	if c.since == 0 || c.lane.terms == termsLost {
		c.since = c.lane.terms
	}
}

// noteAnswered notes the term of the leader that has answered f.
func (c *conn) noteAnswered(f *frame) {
	c.noteTerms()
	if f.Replied() > 0 && (f.Term() == 0 || f.Term() != c.lane.portions[f.portion].part.LastTerm()) {
		c.since = termsLost
	}
}

// confirm returns the answer of a WAIT that has counted have nodes. over reports whether
// conn.since, whose value is since, begins anew.
func (s *Server) confirm(since uint64, have int64) (answer int64, over bool) {
	if since != s.terms.Load() {
		return 0, true
	}
	return have, have > 0
}

// confirmer returns a function that does the same as Server.confirm for a WAIT that runs
// here. Any goroutine may call it while the connection waits.
func (c *conn) confirmer() func(have int64) int64 {
	if c.relayed { // the client's node confirms
		part, term := c.lane.part, c.term
		return func(have int64) int64 {
			if term != 0 && part.Term() != term {
				return 0
			}
			return have
		}
	}
	c.noteTerms()
	since, single := c.since, !c.inExec
	return func(have int64) int64 {
		answer, over := c.srv.confirm(since, have)
		if over && single {
			c.post(func() { c.since = 0 })
		}
		return answer
	}
}

// confirmed returns the reply of item i of a frame. It replaces the answer of WAIT, also in
// a transaction.
func (c *conn) confirmed(f *frame, i int, reply []byte) []byte {
	it := &f.items[i]
	switch {
	case it.tx != nil && reply[0] == '*':
		return c.confirmedIn(it.tx, reply)
	case it.tx == nil && it.cmd.Flags&command.Wait != 0 && reply[0] == ':':
		answer, over := c.srv.confirm(c.since, number(reply))
		if over && i == len(f.items)-1 { // the terms of later items count too
			c.since = 0
		}
		return integer(answer)
	}
	return reply
}

// confirmedIn returns the reply of a transaction.
func (c *conn) confirmedIn(tx *transaction, reply []byte) []byte {
	waits := func(q queued) bool { return q.cmd.Flags&command.Wait != 0 }
	if !slices.ContainsFunc(tx.queue, waits) {
		return reply
	}
	rest, _ := elements(reply)
	out := bytes.Clone(reply[:len(reply)-len(rest)])
	for _, q := range tx.queue {
		var one []byte
		if one, rest = first(rest); waits(q) && one[0] == ':' {
			answer, _ := c.srv.confirm(c.since, number(one))
			one = integer(answer)
		}
		out = append(out, one...)
	}
	return out
}

// integer returns n as a reply.
func integer(n int64) []byte { return append(strconv.AppendInt([]byte{':'}, n, 10), "\r\n"...) }

// followLegs notes the terms of the legs of a command, whose reply is in w, and replaces the
// answer of WAIT.
func (c *conn) followLegs(x *scattered, w *resp.Writer, waits bool) {
	if !waits {
		for i := range x.legs {
			if x.legs[i].lost {
				c.since = termsLost
			}
		}
		return
	}
	if w.B[0] == ':' {
		answer, over := c.srv.confirm(c.since, number(w.B))
		if w.B = integer(answer); over {
			c.since = 0
		}
	}
}
