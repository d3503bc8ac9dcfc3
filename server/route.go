package server

import (
	"slices"
	"sync/atomic"

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
	since uint64 // the first ticket that may cover a decision of the batch
	now   int64  // engine time, Unix ns
	mode  mode   // the bits in deciding
	db    uint8  // the database of sess; 0 between commands
	await bool   // a reply of this batch waits for its commit

	decided uint64 // decisions of limits in this batch, until it ends

	held  int         // segments of the lane's connections that wait for tickets of the partition
	waits atomic.Bool // held > 0, which other threads read
}

// hold notes that so many more segments wait for tickets of the partition.
func (p *portion) hold(segments int) {
	if was := p.held; was == 0 || was+segments == 0 {
		p.waits.Store(was+segments > 0)
	}
	p.held += segments
}

// routing holds the state of each partition for the current batch of a lane.
type routing struct {
	portions []portion
	begun    []uint16 // indices of the portions that this batch has used
	*portion          // the portion that commands run on
	at       uint16   // the index of that portion
	crossing string   // why the command is refused, if modeCrossing is set
	several  bool     // the command is about several partitions
	homed    bool     // the command has its slot from its home; see command.Spec.Home
	keyed    bool     // the command has a slot
	keysAt   []int    // scratch memory of slotOf
}

// deciding has the bits of mode that can differ between partitions.
const deciding = modeElsewhere | modeWaiting | modeDurable | modeScattered | modeCrossing

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

// begin reads the partition's role for this batch. It reports Standing.Outdated.
func (p *portion) begin() (outdated bool) {
	now := p.part.Standing()
	p.role, p.since = now.Role, now.Since
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
	return now.Outdated
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
		if p.begin() {
			l.terms = termsLost
		}
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
// A command belongs to the partition of its keys. A call on a policy belongs to the
// partition of the policy's home (command.Spec.Home). Other commands without keys belong to
// the first partition, which has the policies and the scripts. As in Redis Cluster, all keys of
// a command have the same hash slot; so do all keys of a transaction and its watched keys.
// Keys of different slots are refused even if one partition has them, because slots may
// later move. The exceptions are commands that run in parts; see scatter.go. Handlers do not
// know partitions: they use the session and the time of the portion that the lane has
// entered. Objects that outlast a command, such as a parked reply, a frame or a job, keep the
// index of their portion.
//
// With one partition, a route costs one comparison, of the number of portions (execute).
// Slots then do not matter.

const (
	errCrossing = "CROSSSLOT Keys in request don't hash to the same slot"
	// errKeyless is the reply if a transaction has keys, and also a command that always
	// belongs to the first partition.
	errKeyless = "CROSSSLOT Commands with keys and commands without keys, such as RL.CHECK, need separate transactions"
	// errTable is the reply to a command about all keys in a transaction.
	errTable = "CROSSSLOT Commands about all keys, such as DBSIZE, cannot be in a transaction, which has one slot"
)

// keyless stands for the slot of commands without keys.
const keyless = clusterSlots

// route enters the portion of a command. If the command's keys belong to several slots, it
// sets modeCrossing. A stream of another node is for the commands of one portion, also of
// those without keys; other commands are answered as by a node that does not lead.
func (c *conn) route(cmd *command.Spec, args [][]byte) {
	l := c.lane
	slot := uint16(keyless)
	l.crossing, l.several, l.homed = "", false, false
	if cmd != nil && cmd.Accepts(len(args)) {
		slot = c.slotOf(cmd, args)
	}
	l.keyed = slot != keyless
	at := c.home
	if slot != keyless && !(l.homed && c.only) { // the node that sent it may know other policies: the handler compares
		at = c.srv.portionOf(slot)
	}
	astray := c.only && (at != c.home || l.several)
	if astray {
		at = c.home
	}
	l.enter(at)
	switch {
	case l.crossing != "":
		l.mode |= modeCrossing
	case l.several && !c.only:
		l.mode |= modeScattered
	}
	if astray { // the nodes disagree on which portion has the slot
		l.mode |= modeElsewhere
	}
}

// slotOf returns the slot of a command or, for EXEC, of its transaction. If the command is
// about several partitions, slotOf sets lane.several. If the command may not use its keys
// together, or not in its transaction, slotOf sets lane.crossing.
func (c *conn) slotOf(cmd *command.Spec, args [][]byte) uint16 {
	l := c.lane
	if cmd.Flags&command.Exec != 0 {
		return bindingOf(c).or(keyless)
	}
	if cmd.Home != nil {
		if slot, ok := cmd.Home(args); ok {
			l.homed = true
			return bind(c, cmd, slot)
		}
	}
	keys := cmd.Keys
	if c.moves { // such clients find the node of a sharded channel by its slot
		keys = cmd.Slots()
	}
	l.keysAt = keys.Positions(args, l.keysAt[:0])
	slot := uint16(keyless)
	for i, k := range l.keysAt {
		is := keySlot(args[k])
		switch {
		case i == 0:
			slot = is
		case is == slot:
		case cmd.Join == command.NoJoin || c.moves || c.tx != nil:
			l.crossing = errCrossing
			return slot
		case c.srv.portionOf(is) != c.srv.portionOf(slot):
			l.several = true
		}
	}
	if slot == keyless && cmd.Join != command.NoJoin && !c.only {
		if c.tx == nil {
			l.several = true
			return slot
		}
		if cmd.Flags&command.Wait == 0 {
			l.crossing = errTable
			return slot
		}
	}
	return bind(c, cmd, slot)
}

// bind binds the transaction to the slot of a command, if the command must be in a slot. It
// returns the slot. If the transaction is bound to another slot, it sets lane.crossing.
func bind(c *conn, cmd *command.Spec, slot uint16) uint16 {
	l, bound := c.lane, bindingOf(c)
	watch := cmd.Flags&command.OwnConn != 0 && cmd.HasKeys()
	if binds := c.tx != nil && cmd.Flags&command.Leader != 0 && cmd.Flags&command.Wait == 0; !binds && !watch {
		return slot
	}
	switch is := bound.or(slot); {
	case is == slot && watch: // cmdWatch binds, if it watches
	case is == slot:
		*bound = binding{slot, true}
	case is == keyless || slot == keyless:
		l.crossing = errKeyless
	default:
		l.crossing = errCrossing
	}
	return slot
}

// bindingOf returns the binding of the transaction or, outside of one, of the watched keys.
func bindingOf(c *conn) *binding {
	if c.tx == nil {
		return &c.watched.bound
	}
	if !c.tx.bound.set {
		c.tx.bound = c.watched.bound
	}
	return &c.tx.bound
}

// binding is the slot of a transaction, if a command has already bound the transaction to
// one.
type binding struct {
	slot uint16
	set  bool
}

// or returns the slot if there is one, and other otherwise.
func (b binding) or(other uint16) uint16 {
	if b.set {
		return b.slot
	}
	return other
}

// strays reports whether a script with these KEYS may not call a command. All keys of a
// script have one slot, and a script without keys calls commands without keys. Commands about
// the whole table would see one partition of it.
func strays(keys [][]byte, cmd *command.Spec, args [][]byte) bool {
	if cmd.Flags&command.Leader == 0 {
		return false
	}
	slot := uint16(keyless)
	if len(keys) > 0 {
		slot = keySlot(keys[0])
	}
	if cmd.Home != nil {
		if home, ok := cmd.Home(args); ok {
			return home != slot
		}
	}
	at := cmd.Keys.Positions(args, nil)
	return slices.ContainsFunc(at, func(i int) bool { return keySlot(args[i]) != slot }) ||
		len(at) == 0 && (slot != keyless || cmd.AboutTable())
}

// portionOf returns the index of the partition of a slot.
func (s *Server) portionOf(slot uint16) uint16 {
	return uint16(partition.GroupOf(slot, len(s.parts)))
}
