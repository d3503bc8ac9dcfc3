package server

import (
	"bytes"
	"context"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/resp"
)

// # Commands that only the leader may decide
//
// A command that reads or writes keys has flagLeader. On a node on its own it
// just runs. In a cluster each batch begins with one look at the node's role:
//
//   - Leading, replies not durable: nothing differs from a node on its own.
//   - Holding, or durable replies (modeHolding, modeDurable): each such command
//     is followed by commit, which holds its reply until everything decided so
//     far is committed, denials and peeks included: what they tell may rest on
//     an effect that could still be lost. A reply that is not durable is held
//     for pace only, and sent even if its commit fails.
//   - Any other role (modeElsewhere): relay sends the command to the leader, or
//     says where it is, or lets the failure policy answer.
//
// # Leadership lost within a batch
//
// The engine seals itself before it takes anything back, and a session that
// meets the seal executes nothing and says so (Session.Refused). commit takes
// its ticket first and then looks at the seal: a ticket read before the seal is
// among those that the deposed leader fails. A node that loses its leadership
// and wins it again in between is found by the failure it left behind: a
// segment remembers the ticket of its batch's beginning, and a failure anywhere
// from there to its own ticket fails it (partition.Completed.Outcome). A job on a worker
// may outlast its batch: it takes its ticket when it ends.

// Errors of a cluster: the command has certainly not been executed.
const (
	errNoLeader     = "CLUSTERDOWN no leader is known"
	errLeaderSilent = "CLUSTERDOWN the leader does not answer"
	errBusy         = "BUSY too many commands wait for the leader, try again later"
	errStalled      = "CLUSTERDOWN the followers are too far behind"
	errNotShared    = "CLUSTERDOWN no leader answers, and this is not decided without one"
)

// beginDeciding looks at who decides in this batch.
func (l *lane) beginDeciding() {
	now := l.srv.part.Standing()
	l.role, l.since, l.async = now.Role, now.Ticket, false
	switch {
	case !now.Role.Decides():
		l.mode |= modeElsewhere
	case now.Role == partition.Holding:
		l.mode |= modeHolding
	case now.Durable:
		l.mode |= modeDurable
	}
}

// decides reports whether this node decides the running command for the whole
// cluster.
func (c *conn) decides(cmd *command) bool { return cmd.flags&flagLeader != 0 && c.lane.role.Decides() }

// commits reports whether the reply of the command that has just run waits for
// its commit.
func (l *lane) commits(cmd *command) bool {
	if l.mode&(modeHolding|modeDurable) == 0 || cmd.flags&flagLeader == 0 {
		return false
	}
	async := l.async
	l.async = false
	return l.mode&modeHolding != 0 || !async
}

// durability applies a call's SYNC or ASYNC.
func (c *conn) durability(m syncMode) {
	switch m {
	case syncCommit:
		c.commit(true)
	case syncNone:
		c.lane.async = true
	}
}

// commit makes the reply of the running command wait until everything decided
// so far is committed; if that fails, a strict reply becomes an error.
func (c *conn) commit(strict bool) {
	l := c.lane
	ticket := l.srv.part.TakeTicket()
	if ticket == partition.TicketLost {
		c.ticket = ticket
		return
	}
	c.since = l.since
	// Of several calls in a transaction one that is strict decides.
	c.lenient = !strict && (c.lenient || c.ticket == 0)
	c.hold(ticket)
	l.await = true
}

// jobTicket is the ticket of a job that has decided and ends now. A handover waits for it, whether a client
// does or not: what becomes of the job is known before the table is sealed.
func (s *Server) jobTicket() uint64 {
	ticket := s.part.TakeTicket()
	if ticket != partition.TicketLost {
		s.part.Await()
	}
	return ticket
}

// jobReply is what becomes of the reply of a job that decided and ended under
// ticket, for a command of a batch that began under the ticket since. It waits
// for its commit if commits is set; otherwise it is good unless what it tells
// of is known to be lost.
func (c *conn) jobReply(reply []byte, since, ticket uint64, commits bool) []byte {
	s := c.srv
	completed := s.part.Completed()
	switch {
	case ticket != partition.TicketLost && commits:
		c.since, c.lenient = since, !s.part.Durable()
		c.hold(ticket)
	case ticket != partition.TicketLost && !completed.Lost(since, ticket) && (completed.Has(ticket) || !s.engine.Sealed()):
	case !bytes.HasPrefix(reply, []byte("-")):
		var w resp.Writer
		s.uncertain(&w)
		reply = w.B
	}
	return reply
}

// batchPoll is how often awaitBatches looks: batches take microseconds.
const batchPoll = 200 * time.Microsecond

// awaitBatches waits until the batches that have begun have ended, and what
// they have given to workers to decide is decided: batches that begin later see
// the role as it was set before the call.
func (s *Server) awaitBatches(ctx context.Context) error {
	under := make(map[*lane]uint64)
	s.eachLane(func(l *lane) {
		if turn := l.turn.Load(); turn&1 != 0 {
			under[l] = turn
		}
	})
	for l, turn := range under {
		if err := poll(ctx, func() bool { return l.turn.Load() != turn }); err != nil {
			return err
		}
	}
	return poll(ctx, func() bool { return s.workers.deciding.Load() == 0 })
}

// poll waits until done.
func poll(ctx context.Context, done func() bool) error {
	for !done() {
		select {
		case <-time.After(batchPoll):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// overtaken replaces what a command has written since start after the engine
// was sealed under it, and lets the rest of the batch find a node that does not
// decide.
func (c *conn) overtaken(cmd *command, args [][]byte, start int) {
	l := c.lane
	refused := c.ticket != partition.TicketLost
	l.w.B = l.w.B[:start]
	c.ticket = 0
	l.mode = l.mode&^(modeHolding|modeDurable) | modeElsewhere
	if l.role = l.srv.part.Role(); l.role.Decides() {
		// Deposed and elected again within a batch.
		l.role = partition.Following
	}
	switch {
	case cmd.flags&flagExec != 0, cmd.flags&flagWrite != 0 && (!refused || cmd.keys.many(args)):
		c.srv.uncertain(c.w)
	default:
		c.relay(cmd, args)
	}
}

// uncertain answers a command of which nobody knows whether it was executed.
func (s *Server) uncertain(w *resp.Writer) {
	s.stats.counts[countUncertain].Add(1)
	w.Error(partition.ErrUncertain.Error())
}

// many reports whether a command executes key by key, so that it may have
// executed in part. A chain is all or nothing.
func (k keySpec) many(args [][]byte) bool {
	return k.find == nil && k.last != k.first && len(args) > k.first+1
}
