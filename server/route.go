package server

import (
	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/server/command"
)

// portion is one partition as a lane uses it: a session of the partition's engine, and the
// partition's state when the batch first used it.
type portion struct {
	part  *partition.Partition
	sess  *engine.Session // nil until the first use
	batch uint64          // the last batch that has used the portion
	role  partition.Role
	since uint64 // the partition's ticket when the batch first used the portion
	now   int64  // engine time, Unix ns
	mode  mode   // the bits in deciding
	db    uint8  // the database of sess; 0 between commands
	await bool   // a reply of this batch waits for its commit
}

// deciding has the bits of mode that can differ between partitions.
const deciding = modeElsewhere | modeWaiting | modeDurable | modeCrossing

// newPortions returns a portion of each partition of the server.
func (s *Server) newPortions() []portion {
	all := make([]portion, len(s.parts))
	for i, p := range s.parts {
		all[i].part = p
	}
	all[0].open()
	return all
}

// open makes the portion's session. Most lanes do not use all partitions.
func (p *portion) open() {
	if p.sess == nil {
		p.sess = p.part.Engine().NewSession()
	}
}

// begin reads the partition's role for this batch.
func (p *portion) begin() {
	now := p.part.Standing()
	p.role, p.since = now.Role, now.Ticket
	p.mode = 0
	switch {
	case !now.Role.Decides():
		p.mode = modeElsewhere
	case now.Role == partition.Waiting:
		p.mode = modeWaiting
	case now.Durable:
		p.mode = modeDurable
	}
	// Read the clock after the role. A node that becomes leader first sets its clock, and
	// then its role. After a time without any node, it sets the clock far forward.
	p.now = p.part.Engine().Now()
}

// lose makes the portion behave as on a node that does not decide, until the batch ends.
func (p *portion) lose() {
	p.mode = modeElsewhere
	if p.role = p.part.Role(); p.role.Decides() {
		// The node was deposed and elected again within a batch.
		p.role = partition.Following
	}
}

// current returns portion i with its state in this batch.
func (l *lane) current(i uint16) *portion {
	p := &l.portions[i]
	if p.batch != l.batches {
		p.batch = l.batches
		p.open()
		p.begin()
		l.begun = append(l.begun, i)
	}
	return p
}

// enter makes portion i the portion that commands run on.
func (l *lane) enter(i uint16) {
	p := l.current(i)
	l.portion, l.at = p, i
	l.mode = l.mode&^deciding | p.mode
	for _, call := range [...]*command.Call{&l.call, &l.queued} {
		call.Sess, call.Limits, call.Now = p.sess, p.sess, p.now
	}
}

// # Routes
//
// A command belongs to the partition of its keys. A command without keys belongs to the
// first partition. As in Redis Cluster, all keys of a command belong to one partition; so
// do all keys of a transaction and its watched keys. Handlers do not know partitions: they
// use the session and the time of the portion that the lane has entered. Objects that
// outlast a command, such as a parked reply, a frame or a job, keep the index of their
// portion.
//
// With one partition, a route costs one comparison, of the number of portions (execute).

const errCrossing = "CROSSSLOT Keys in request don't hash to the same slot"

// route enters the portion of a command. If the command's keys belong to several
// partitions, it sets modeCrossing.
func (c *conn) route(cmd *command.Spec, args [][]byte) {
	l := c.lane
	at, crossing := uint16(0), false
	if cmd != nil && cmd.Accepts(len(args)) {
		at, crossing = c.portionOf(cmd, args)
	}
	l.enter(at)
	if crossing {
		l.mode |= modeCrossing
	}
}

func (c *conn) portionOf(cmd *command.Spec, args [][]byte) (at uint16, crossing bool) {
	bound := &c.watched.bound
	if c.tx != nil {
		bound = &c.tx.bound
		if !bound.set {
			*bound = c.watched.bound
		}
	}
	if cmd.Flags&command.Exec != 0 {
		return bound.at, false
	}
	l := c.lane
	l.keysAt = cmd.Keys.Positions(args, l.keysAt[:0])
	keys := l.keysAt
	if len(keys) == 0 {
		return 0, false
	}
	at = c.srv.portionOf(keySlot(args[keys[0]]))
	for _, k := range keys[1:] {
		if c.srv.portionOf(keySlot(args[k])) != at {
			return at, true
		}
	}
	if c.tx == nil && cmd.Flags&command.OwnConn == 0 {
		return at, false
	}
	if bound.set {
		return at, at != bound.at
	}
	*bound = binding{at, true}
	return at, false
}

// binding is the portion of a transaction, if a command has already bound the transaction
// to one.
type binding struct {
	at  uint16
	set bool
}

// portionOf returns the index of the partition of a slot.
func (s *Server) portionOf(slot uint16) uint16 {
	return uint16(partition.GroupOf(slot, len(s.parts)))
}
