package server

import (
	"bufio"
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster/partition"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
)

// # on-failure local
//
// While no leader answers, a voter decides limits on its own share of them
// (engine.Local), flagged as degraded. A gap begins with the first such
// decision and is over when a leader has been charged everything that was
// admitted and nobody has asked for localQuiet. Charges travel in numbered
// batches over a stream to the leader, as RL.CHARGE; a batch whose answer does
// not come is sent again under its number, which the leader charges once.

const (
	// localHeal is the pause between two looks for something to charge.
	localHeal = 100 * time.Millisecond
	// localQuiet is how long after the last local decision shares are taken
	// anew.
	localQuiet = time.Second
	// chargeBatch bounds the keys of one batch.
	chargeBatch = 256
	// chargeBytes bounds the bytes of its keys, but for the last. With that, and
	// its limits, a batch is below the least QueryBufferLimit that the leader may
	// have.
	chargeBytes = 64 << 10
	// chargeTimeout bounds one attempt to charge a batch.
	chargeTimeout = 2 * time.Second
)

// localPolicy decides while no leader does, and settles afterwards.
type localPolicy struct {
	srv       *Server
	decisions *engine.Local
	wg        sync.WaitGroup

	// mu guards the fields below.
	mu   sync.Mutex
	gap  bool
	last time.Time // of the last local decision

	// The healer's own.
	session *engine.Session
	pending []engine.Charge
	number  int64
}

func newLocalPolicy(s *Server) *localPolicy {
	return &localPolicy{srv: s, decisions: engine.NewLocal(s.engine), session: s.engine.NewSession()}
}

// Decide implements command.Limiter on this node's share.
func (p *localPolicy) Decide(now int64, key []byte, l engine.Limit, cost int64, o *engine.Options) (engine.Decision, error) {
	var out [1]engine.Decision
	_, err := p.DecideAll(now, []engine.Segment{{Key: key, Limit: l, Cost: cost}}, o, out[:])
	return out[0], err
}

// Acquire implements command.Limiter: leases have no shares.
func (p *localPolicy) Acquire(int64, []byte, int64, int64, []byte, int64) (d engine.Decision, lease string, err error) {
	return d, "", engine.ErrNotLocal
}

// DecideAll implements command.Limiter.
func (p *localPolicy) DecideAll(now int64, segs []engine.Segment, o *engine.Options, out []engine.Decision) (binding int, err error) {
	if err := p.enter(); err != nil {
		return 0, err
	}
	return p.decisions.Decide(now, segs, o, out)
}

// enter begins a gap unless there is one. Only a voter that has replayed its
// log has a share.
func (p *localPolicy) enter() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = time.Now()
	if p.gap {
		return nil
	}
	if p.srv.part.Role() == partition.Starting {
		return engine.ErrNotLocal
	}
	top := p.srv.part.Topology()
	var voters []string
	for _, n := range top.Nodes {
		if n.Voter {
			voters = append(voters, n.ID)
		}
	}
	slices.Sort(voters)
	rank, voter := slices.BinarySearch(voters, top.Self)
	if !voter {
		return engine.ErrNotLocal
	}
	p.decisions.Begin(len(voters), rank)
	p.gap = true
	p.srv.log.Warn("no leader answers: deciding on this node's share", "share", fmt.Sprintf("1/%d", len(voters)))
	return nil
}

// leave ends a gap that has been quiet.
func (p *localPolicy) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.gap && time.Since(p.last) > localQuiet {
		p.gap = false
		p.srv.log.Info("a leader decides again, and has been charged what was admitted meanwhile", "admitted", p.decisions.Admitted())
	}
}

// start runs the healer until the server ends.
func (p *localPolicy) start() {
	p.wg.Go(func() {
		defer p.session.Close()
		tick := time.NewTicker(localHeal)
		defer tick.Stop()
		for {
			select {
			case <-p.srv.end:
				return
			case <-tick.C:
				p.heal()
			}
		}
	})
}

// heal charges what there is to charge, if there is a leader, until the server
// ends.
func (p *localPolicy) heal() {
	for p.srv.ending.Err() == nil {
		role := p.srv.part.Role()
		if !role.Decides() && role != partition.Following {
			return
		}
		if p.pending == nil {
			p.pending = p.take()
			if p.pending == nil {
				p.leave()
				return
			}
			// The cluster's clock never goes back, not even over a restart.
			p.number = max(p.number+1, p.srv.engine.Now())
		}
		if err := p.charge(role); err != nil {
			p.srv.log.Debug("charge what was admitted without a leader", "error", err)
			return
		}
		p.pending = nil
	}
}

// take returns the charges of one batch, nil if there are none.
func (p *localPolicy) take() (batch []engine.Charge) {
	most := min(chargeBatch, (p.srv.cfg.MaxArgs-chargeHead)/chargeFields)
	for size := 0; len(batch) < most && size < chargeBytes; {
		next := p.decisions.Take(1)
		if len(next) == 0 {
			break
		}
		batch = append(batch, next[0])
		size += len(next[0].Key)
	}
	return batch
}

// charge charges the pending batch at the leader, and returns nil only when
// that is committed.
func (p *localPolicy) charge(role partition.Role) error {
	ctx, cancel := context.WithTimeout(p.srv.ending, chargeTimeout)
	defer cancel()
	if !role.Decides() {
		return p.chargeAt(ctx)
	}
	s := p.srv
	// Deposed and elected again in the middle, this node has undone the charge.
	since := s.part.Ticket()
	if err := s.chargeOnce(p.session, s.engine.Now(), s.part.Topology().Self, p.number, p.pending); err != nil {
		return err
	}
	ticket := s.part.Ticket()
	if s.engine.Sealed() {
		return engine.ErrSealed
	}
	s.part.Await()
	return s.awaitRelease(ctx, since, ticket)
}

// chargeOnce charges what node admitted, and logs what of it is lost.
func (s *Server) chargeOnce(sess *engine.Session, now int64, node string, number int64, charges []engine.Charge) error {
	lost, err := sess.ChargeOnce(now, node, number, charges)
	if lost > 0 {
		s.log.Warn("not everything admitted without a leader could be charged", "node", node, "charges", len(charges), "lost", lost)
	}
	return err
}

// awaitRelease waits for a ticket of the server's own, and returns the error of
// the tickets from since on.
func (s *Server) awaitRelease(ctx context.Context, since, ticket uint64) error {
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		if complete, err := s.part.Completed().Outcome(since, ticket); complete {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-poll.C:
		}
	}
}

// chargeAt sends the pending batch to the leader.
func (p *localPolicy) chargeAt(ctx context.Context) error {
	nc, err := p.srv.part.DialLeader(ctx)
	if err != nil {
		return err
	}
	defer context.AfterFunc(ctx, func() { nc.Close() })()
	defer nc.Close()
	if _, err := nc.Write(resp.AppendCommand(nil, chargeCommand(p.srv.part.Topology().Self, p.number, p.pending))); err != nil {
		return err
	}
	reply, err := resp.AppendReply(nil, bufio.NewReader(nc), 4<<10)
	if err != nil {
		return err
	}
	if string(reply) != "+OK\r\n" {
		return fmt.Errorf("leader answered %q", reply)
	}
	return nil
}

// chargeHead is how many arguments RL.CHARGE begins with: itself, node, number.
// chargeFields is how many describe one charge: key, algorithm, rounding, align,
// limit, period in ns, burst, units.
const (
	chargeHead   = 3
	chargeFields = 8
)

// chargeCommand is RL.CHARGE node number charge [charge ...].
func chargeCommand(node string, number int64, charges []engine.Charge) [][]byte {
	args := [][]byte{[]byte("RL.CHARGE"), []byte(node), strconv.AppendInt(nil, number, 10)}
	for _, c := range charges {
		args = append(args, c.Key)
		for _, n := range [...]int64{int64(c.Limit.Algorithm), int64(c.Limit.Rounding), int64(c.Limit.Align),
			c.Limit.Limit, c.Limit.Period, c.Limit.Burst, c.Units} {
			args = append(args, strconv.AppendInt(nil, n, 10))
		}
	}
	return args
}

// parseCharges reads the charges of RL.CHARGE.
func parseCharges(args [][]byte) ([]engine.Charge, error) {
	if len(args)%chargeFields != 0 {
		return nil, command.ErrSyntax
	}
	var charges []engine.Charge
	for ; len(args) > 0; args = args[chargeFields:] {
		var n [chargeFields - 1]int64
		for i := range n {
			var ok bool
			if n[i], ok = resp.ParseInt(args[1+i]); !ok || n[i] < 0 || i < 3 && n[i] > 255 {
				return nil, command.ErrNotInteger
			}
		}
		l := engine.Limit{Algorithm: engine.Algorithm(n[0]), Rounding: engine.Rounding(n[1]), Align: engine.Align(n[2]),
			Limit: n[3], Period: n[4], Burst: n[5]}
		if err := l.Validate(); err != nil {
			return nil, command.EngineError(err)
		}
		charges = append(charges, engine.Charge{Key: args[0], Limit: l, Units: n[6]})
	}
	return charges, nil
}

// localCommands are what nodes tell each other after a time without leader.
func localCommands() []command.Spec {
	return []command.Spec{{
		Name: "rl.charge", Arity: -11, Flags: command.Write | command.Admin | command.Leader | command.Peers | command.NoMulti | command.SkipMonitor, Categories: command.CatLimiter,
		Group: "limiter", Complexity: "O(N), N the number of charges",
		Summary: "Between nodes: charges once what a node admitted while it had no leader.",
		Syntax:  "node number key algorithm rounding align limit period burst units [charge ...]",
		Handler: onConn(cmdCharge),
	}}
}

// cmdCharge answers when the charges are committed, whatever the durability:
// the node that sent them then forgets them.
func cmdCharge(c *conn, args [][]byte) {
	if !c.relayed {
		c.error("NOPERM RL.CHARGE is for the nodes of a cluster")
		return
	}
	number, ok := resp.ParseInt(args[2])
	if !ok {
		c.error(command.ErrNotInteger.Error())
		return
	}
	charges, err := parseCharges(args[chargeHead:])
	if err == nil {
		if err = c.srv.chargeOnce(c.sess, c.now(), string(args[1]), number, charges); err != nil {
			err = command.EngineError(err)
		}
	}
	if err != nil {
		c.error(err.Error())
		return
	}
	c.w.OK()
	c.lane.call.Sync = command.SyncCommit
}
