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
	Next string `json:"next"`
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
func (n *Node) Handover(ctx context.Context, to string) error {
	if !n.deciding() || !n.hasSuccessor() {
		return nil
	}
	next, err := n.group.Successor(ctx, to)
	if err != nil {
		return fmt.Errorf("hand leadership over: %w", err)
	}
	n.prepare(ctx, next.ID())
	// Commit before commands begin to wait. They then wait only for the commit of the last
	// moment. flushAhead bounds this commit: while the leader still decides, a hanging disk
	// would make it stall.
	ahead, cancel := context.WithTimeout(ctx, flushAhead)
	_ = n.flush(ahead)
	cancel()
	// Announce at the same time, because commands wait. A peer that has not heard the
	// announcement yet notices the handover when it forwards a command.
	announced := make(chan struct{})
	go func() {
		defer close(announced)
		n.announce(ctx, false)
	}()
	n.setLeaving(true)
	err = n.handover(ctx, next, announced)
	<-announced // it must not come after its cancellation
	n.setLeaving(false)
	if err != nil {
		n.announce(context.WithoutCancel(ctx), true)
		return fmt.Errorf("hand leadership over: %w", err)
	}
	return nil
}

func (n *Node) handover(ctx context.Context, next raftlog.Successor, announced <-chan struct{}) error {
	// Commands that began while this node led may still decide.
	if err := n.front.AwaitBatches(ctx); err != nil {
		return err
	}
	if err := n.flush(ctx); err != nil {
		return err
	}
	// Denials and peeks wait for more than commits.
	if err := poll.Until(ctx, flushPoll, n.ledger.Released); err != nil {
		return err
	}
	<-announced // at the latest after announceTimeout
	return n.group.TransferTo(ctx, next)
}

// transfer is the operator's Handover. It replaces the log's own transfer, which would
// undo the decisions made meanwhile.
func (n *Node) transfer(ctx context.Context, raw json.RawMessage) (any, error) {
	if err := n.awaitOpened(ctx); err != nil {
		return nil, err
	}
	var args struct{ ID string }
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", raftlog.OpTransfer, err)
	}
	switch _, serving := n.group.Serving(); {
	case !serving:
		return nil, raftlog.ErrNotLeader
	case args.ID == n.cfg.NodeID:
		return nil, fmt.Errorf("%s leads already", args.ID)
	case !n.hasSuccessor():
		return nil, raftlog.ErrNoTarget
	}
	return nil, n.Handover(ctx, args.ID)
}

// awaitOpened waits for Start to set the group.
func (n *Node) awaitOpened(ctx context.Context) error {
	select {
	case <-n.opened:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// hasSuccessor reports whether some other voter may be up.
func (n *Node) hasSuccessor() bool {
	for _, m := range n.group.Members() {
		if m.Voter && !m.Self && mayAnswer(&m) {
			return true
		}
	}
	return false
}

// mayAnswer reports whether m may answer. A member that has just joined has not been
// asked before.
func mayAnswer(m *raftlog.Member) bool { return m.Up || m.Seen.IsZero() }

// prepare makes all nodes prepare for next as the leader. No command waits for it. A node
// that does not get the message finds out later, from the announcement or from the leader's
// answers.
func (n *Node) prepare(ctx context.Context, next string) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { n.getReady(ctx, next) })
	for _, m := range n.group.Members() {
		if m.Self || !mayAnswer(&m) {
			continue
		}
		wg.Go(func() {
			if err := n.group.Call(ctx, m.Addr, opPrepare, prepareArgs{next}, nil); err != nil && !errors.Is(err, raftlog.ErrUnknownOp) {
				n.log.Warn("prepare handover", "with", m.ID, "error", err)
			}
		})
	}
	wg.Wait()
}

// prepared handles a leader's opPrepare.
func (n *Node) prepared(ctx context.Context, raw json.RawMessage) (any, error) {
	if err := n.awaitOpened(ctx); err != nil {
		return nil, err
	}
	var args prepareArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", opPrepare, err)
	}
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	n.getReady(ctx, args.Next)
	return nil, nil
}

// getReady opens the connections that this node needs when next is the leader. It also
// makes commands on their way to the leader wait for the outcome.
func (n *Node) getReady(ctx context.Context, next string) {
	n.front.NoteHandover()
	for _, m := range n.group.Members() {
		switch {
		case m.ID != next:
		case m.Self:
			n.group.Prepare(ctx)
		default:
			n.dialAhead(ctx, m.Addr)
		}
	}
}

// setLeaving begins or ends a handover. After it, this node waits for the next leader as
// its peers do.
func (n *Node) setLeaving(leaving bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.situation.leaving = leaving
	if !n.situation.serving {
		n.situation.handoverFrom, n.situation.handoverUntil = n.cfg.NodeID, time.Now().Add(n.cfg.HandoverWait)
	}
	n.publishRole()
}

// announce tells all peers at once. A peer that misses it finds out from the
// leader's answers.
func (n *Node) announce(ctx context.Context, cancelled bool) {
	ctx, cancel := context.WithTimeout(ctx, announceTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for _, m := range n.group.Members() {
		if m.Self || !mayAnswer(&m) {
			continue
		}
		wg.Go(func() {
			if err := n.group.Call(ctx, m.Addr, opHandover, handoverArgs{n.cfg.NodeID, cancelled}, nil); err != nil {
				n.log.Warn("announce handover", "to", m.ID, "error", err)
			}
		})
	}
	wg.Wait()
}

// announced handles a peer's announcement.
func (n *Node) announced(_ context.Context, raw json.RawMessage) (any, error) {
	var args handoverArgs
	if err := json.Unmarshal(raw, &args); err != nil {
		return nil, fmt.Errorf("arguments of %s: %w", opHandover, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	s := &n.situation
	// The sender may have been leader so briefly that this node does not know it as leader.
	// If another leader has followed, nothing changes while that leader is in office.
	s.handoverFrom, s.handoverUntil = args.From, time.Now().Add(n.cfg.HandoverWait)
	if args.Cancel {
		s.handoverUntil = time.Time{}
	}
	n.publishRole()
	return nil, nil
}
