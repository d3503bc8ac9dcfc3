package server

import (
	"bytes"
	"context"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # Commands that only the leader may decide
//
// A command that reads or writes keys has command.Leader. On a node without a cluster it
// just runs. In a cluster, each batch begins with one look at the node's role:
//
//   - Leading, and replies need not be durable: the command just runs.
//   - Waiting, or replies must be durable (modeWaiting, modeDurable): after each such
//     command, the function durability parks the reply until everything decided so far is
//     committed. That includes denials and peeks, because they may depend on an effect
//     that could still be lost. If a reply need not be durable, it is parked only to slow
//     the client down, and sent even if its commit fails.
//   - Any other role (modeElsewhere): answerElsewhere sends the command to the leader, or
//     says where the leader is, or lets the failure policy answer.
//
// # Leadership lost within a batch
//
// Before a deposed leader's engine undoes anything, it seals itself. A session of a sealed
// engine executes nothing and returns ErrSealed. The function durability takes its ticket
// first and then checks for the seal. So a ticket from before the seal is among the tickets
// whose outcome the deposed leader finds out, or fails.
//
// A node may lose its leadership and win it again within a batch. The failed tickets show
// this. A segment (consecutive parked replies, see park.go) keeps the ticket with which its
// batch began. The segment fails if any ticket between that one and its own has failed
// (partition.Completed.Outcome). A job on a worker may take longer than its batch, so it
// takes its ticket when it ends.

// Errors of a cluster. They say that the command was certainly not executed.
const (
	errNoLeader     = "CLUSTERDOWN no leader is known"
	errLeaderSilent = "CLUSTERDOWN the leader does not answer"
	errBusy         = "BUSY too many commands wait for the leader, try again later"
	errStalled      = "CLUSTERDOWN the followers are too far behind"
)

// decides reports whether this node decides the command for the whole cluster.
func (c *conn) decides(cmd *command.Spec) bool {
	return cmd.Flags&command.Leader != 0 && c.lane.role.Decides()
}

// commits reports whether the reply of a call waits for its commit.
func (l *lane) commits(call *command.Call) bool {
	switch {
	case call.Sync == command.SyncCommit:
		return true
	case l.mode&(modeWaiting|modeDurable) == 0 || call.Spec.Flags&command.Leader == 0:
		return false
	}
	return l.mode&modeWaiting != 0 || call.Sync != command.SyncNone
}

// durability makes the reply of a call wait, if it must, until everything decided so far is
// committed. If the commit fails, a strict reply becomes an error.
func (l *lane) durability(call *command.Call) {
	if !l.commits(call) {
		return
	}
	strict := call.Sync == command.SyncCommit || l.part.Durable()
	ticket := l.part.TakeTicket()
	if ticket == partition.TicketLost {
		call.Commit.Ticket = ticket
		return
	}
	call.Commit.Join(command.Commit{Ticket: ticket, Since: l.since, Lenient: !strict, Covered: !call.Acted})
	l.await = true
}

// jobTicket returns the ticket of a job that has decided and is about to end. A handover
// waits for this ticket, even if no client does. So the outcome of the job is known before
// the table is sealed. If soon is false, the commit keeps its usual time.
func jobTicket(p *partition.Partition, soon bool) uint64 {
	ticket := p.TakeTicket()
	switch {
	case ticket == partition.TicketLost:
	case soon:
		p.Await()
	default:
		p.Expect()
	}
	return ticket
}

// jobReply returns the commit for which the reply of a job waits. The job has decided and
// ended with ticket; the batch of its command began with the ticket jobSince. If jobCommits
// is set, the reply waits for the commit. Otherwise it becomes an error only if its effect
// is known to be lost.
func (c *conn) jobReply(w *resp.Writer, ticket uint64) command.Commit {
	p, since := c.lane.part, c.jobSince
	completed := p.Completed()
	switch {
	case ticket != partition.TicketLost && c.jobCommits:
		return command.Commit{Ticket: ticket, Since: since, Lenient: !c.jobStrict && !p.Durable()}
	case ticket != partition.TicketLost && !completed.Lost(since, ticket) && (completed.Has(ticket) || !p.Engine().Sealed()):
	case !bytes.HasPrefix(w.Head(), []byte("-")):
		*w = resp.Writer{}
		c.srv.uncertain(w)
	}
	return command.Commit{}
}

// batchPoll is how often awaitBatches looks. Batches take microseconds.
const batchPoll = 200 * time.Microsecond

// awaitBatches waits until all batches that are running have ended, and until the jobs that
// they gave to workers have decided. Batches that begin later see the role that the caller
// has set before.
func (s *Server) awaitBatches(ctx context.Context) error {
	under := make(map[*lane]uint64)
	s.eachLane(func(l *lane) {
		if beat := l.beat.Load(); beat&1 != 0 {
			under[l] = beat
		}
	})
	for l, beat := range under {
		if err := poll.Until(ctx, batchPoll, func() bool { return l.beat.Load() != beat }); err != nil {
			return err
		}
	}
	end := time.Now().Add(scriptGrace)
	return poll.Until(ctx, batchPoll, func() bool {
		if s.workers.deciding.Load() == 0 {
			return true
		}
		if time.Now().After(end) {
			s.scripts.HandOver()
		}
		return false
	})
}

// scriptGrace is how long a handover waits for slow scripts and transactions, which change
// nothing before their end. After that they end with the error TRYAGAIN.
const scriptGrace = 100 * time.Millisecond

// overtaken replaces what a command has written since start, because the engine was sealed
// while the command ran. The other commands of the batch then run on a node that does not
// decide.
func (c *conn) overtaken(call *command.Call, start int) {
	l := c.lane
	cmd, args := call.Spec, call.Args
	refused := call.Commit.Ticket != partition.TicketLost
	l.w.B = l.w.B[:start]
	call.Commit = command.Commit{}
	l.lose()
	l.enter(l.at)
	switch {
	case cmd.Flags&command.Exec != 0, cmd.Flags&command.Write != 0 && (!refused || cmd.Keys.Many(args)):
		c.srv.uncertain(c.w)
	default:
		c.answerElsewhere(cmd, args)
	}
}

// uncertain replies an error that says that the command may have been executed.
func (s *Server) uncertain(w *resp.Writer) {
	s.stats.counts[countUncertain].Add(1)
	w.Error(partition.ErrUncertain.Error())
}
