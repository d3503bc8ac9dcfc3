package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/poll"
	"github.com/headgate-io/headgate/raftlog"
)

// opHandover announces that the leader hands over, or that it has given up doing so.
const opHandover = "handover"

// opPrepare announces that a node is about to become leader. A node that does not know this
// operation becomes leader without preparation, which is slower.
const opPrepare = "prepare"

type prepareArgs struct {
	Next   string `json:"next"`
	Pinned bool   `json:"pinned,omitempty"` // an operator has chosen Next
}

type handoverArgs struct {
	From   string `json:"from"`
	Cancel bool   `json:"cancel,omitempty"`
}

// flushAhead bounds how long a handover waits for the commit of earlier decisions
// before new commands begin to wait.
const flushAhead = 50 * time.Millisecond

// announceTimeout bounds the wait for peers that may be gone.
const announceTimeout = 200 * time.Millisecond

// Handover makes another node the leader: the node with id to or, if to is empty, the node
// that has the most of the log. It announces the handover to the peers, stops deciding,
// commits all decisions, and sends the replies that wait for them. Then it transfers
// leadership. If it fails, this node stays leader. If this node is not leader, or there is
// no other voter, it does nothing.
func (g *Group) Handover(ctx context.Context, to string) error { return g.handOver(ctx, to, false) }

// handOver is Handover. pinned says that an operator wants it: see bringHome.
func (g *Group) handOver(ctx context.Context, to string, pinned bool) error {
	// An operator, the end of the process and bringHome may want one at the same time.
	select {
	case g.handing <- struct{}{}:
		defer func() { <-g.handing }()
	case <-ctx.Done():
		return fmt.Errorf("hand leadership over: another handover is under way: %w", ctx.Err())
	}
	if !g.deciding() || !g.hasSuccessor() {
		return nil
	}
	next, err := g.raft.Successor(ctx, to)
	if err != nil {
		return fmt.Errorf("hand leadership over: %w", err)
	}
	g.prepare(ctx, prepareArgs{next.ID(), pinned})
	// Commit before commands begin to wait. They then wait only for the commit of the last
	// moment. flushAhead bounds this commit: while the leader still decides, a hanging disk
	// would make it stall.
	ahead, cancel := context.WithTimeout(ctx, flushAhead)
	_ = g.flush(ahead)
	cancel()
	// Announce at the same time, because commands wait. A peer that has not heard the
	// announcement yet notices the handover when it forwards a command.
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		g.announce(ctx, false)
	}()
	g.setLeaving(true)
	err = g.handover(ctx, next, announced)
	<-announced // it must not come after its cancellation
	g.setLeaving(false)
	if err != nil {
		g.announce(context.WithoutCancel(ctx), true)
		return fmt.Errorf("hand leadership over: %w", err)
	}
	return nil
}

func (g *Group) handover(ctx context.Context, next raftlog.Successor, announced <-chan struct{}) error {
	// Commands that began while this node led may still decide.
	if err := g.front.AwaitBatches(ctx); err != nil {
		return err
	}
	if err := g.flush(ctx); err != nil {
		return err
	}
	// Denials and peeks wait for more than commits.
	if err := poll.Until(ctx, flushPoll, g.ledger.Released); err != nil {
		return err
	}
	<-announced // at the latest after announceTimeout
	return g.raft.TransferTo(ctx, next)
}

// transfer is the operator's Handover. It replaces the log's own transfer, which would
// undo the decisions made meanwhile.
func (g *Group) transfer(ctx context.Context, raw json.RawMessage) (any, error) {
	if err := g.awaitOpened(ctx); err != nil {
		return nil, err
	}
	var args struct{ ID string }
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", raftlog.OpTransfer, err)
	}
	switch _, serving := g.raft.Serving(); {
	case !serving:
		return nil, raftlog.ErrNotLeader
	case args.ID == g.node.cfg.NodeID:
		return nil, fmt.Errorf("%s leads already", args.ID)
	case !g.hasSuccessor():
		return nil, raftlog.ErrNoTarget
	}
	return nil, g.handOver(ctx, args.ID, true)
}

// awaitOpened waits for Start to set the group.
func (g *Group) awaitOpened(ctx context.Context) error {
	select {
	case <-g.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasSuccessor reports whether some other voter may be up.
func (g *Group) hasSuccessor() bool {
	for _, m := range g.raft.Members() {
		if m.Voter && !m.Self && mayAnswer(&m) {
			return true
		}
	}
	return false
}

// mayAnswer reports whether m may answer. A member that has just joined has not been
// asked before.
func mayAnswer(m *raftlog.Member) bool { return m.Up || m.Seen.IsZero() }

// prepare makes all nodes prepare for the next leader. No command waits for it. A node
// that does not get the message finds out later, from the announcement or from the leader's
// answers.
func (g *Group) prepare(ctx context.Context, args prepareArgs) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { g.getReady(ctx, args) })
	for _, m := range g.raft.Members() {
		if m.Self || !mayAnswer(&m) {
			continue
		}
		wg.Go(func() {
			if err := g.raft.Call(ctx, m.Addr, opPrepare, args, nil); err != nil && !errors.Is(err, raftlog.ErrUnknownOp) {
				g.log.Warn("prepare handover", "with", m.ID, "error", err)
			}
		})
	}
	wg.Wait()
}

// prepared handles a leader's opPrepare.
func (g *Group) prepared(ctx context.Context, raw json.RawMessage) (any, error) {
	if err := g.awaitOpened(ctx); err != nil {
		return nil, err
	}
	var args prepareArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", opPrepare, err)
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	g.getReady(ctx, args)
	return nil, nil
}

// getReady opens the connections that this node needs when args.Next is the leader. It also
// makes commands on their way to the leader wait for the outcome.
func (g *Group) getReady(ctx context.Context, args prepareArgs) {
	if args.Pinned {
		g.pin(args.Next)
	}
	g.front.NoteHandover()
	for _, m := range g.raft.Members() {
		switch {
		case m.ID != args.Next:
		case m.Self:
			g.raft.Prepare(ctx)
		default:
			g.dialAhead(ctx, m.Addr)
		}
	}
}

// setLeaving begins or ends a handover. After it, this node waits for the next leader as
// its peers do.
func (g *Group) setLeaving(leaving bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.situation.leaving = leaving
	if !g.situation.serving {
		g.situation.handoverFrom, g.situation.handoverUntil = g.node.cfg.NodeID, time.Now().Add(g.node.cfg.HandoverWait)
	}
	g.publishRole()
}

// announce tells all peers at once. A peer that misses it finds out from the
// leader's answers.
func (g *Group) announce(ctx context.Context, cancelled bool) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range g.raft.Members() {
		if m.Self || !mayAnswer(&m) {
			continue
		}
		wg.Go(func() {
			if err := g.raft.Call(ctx, m.Addr, opHandover, handoverArgs{g.node.cfg.NodeID, cancelled}, nil); err != nil {
				g.log.Warn("announce handover", "to", m.ID, "error", err)
			}
		})
	}
	wg.Wait()
}

// announced handles a peer's announcement.
func (g *Group) announced(_ context.Context, raw json.RawMessage) (any, error) {
	var args handoverArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", opHandover, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := &g.situation
	// The sender may have been leader so briefly that this node does not know it as leader.
	// If another leader has followed, nothing changes while that leader is in office.
	s.handoverFrom, s.handoverUntil = args.From, time.Now().Add(g.node.cfg.HandoverWait)
	if args.Cancel {
		s.handoverUntil = time.Time{}
	}
	g.publishRole()
	return nil, nil
}
