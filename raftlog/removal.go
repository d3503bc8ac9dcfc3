package raftlog

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/member"
)

// Removal is the result of a removal.
type Removal struct {
	// Pending is set after a forced removal, while a majority of the remaining voters has
	// not confirmed the removal. It says what the removal waits for. Until the majority
	// confirms, the cluster decides nothing.
	Pending string `json:"pending,omitempty"`
}

// forcedTimeout bounds the wait for the commit of a removal without a majority.
const forcedTimeout = 2 * time.Second

// Remove removes a member from the cluster. The removed node continues to run, but follows
// nobody and never stands for election. It does not stop itself, because it may only be
// replaying an old removal. Remove returns ErrQuorum if too few of the remaining voters
// answer now; force skips this check. If the leader itself is removed, it first hands
// leadership over, and the next leader removes it.
func (g *Group) Remove(ctx context.Context, id string, force bool) (done Removal, err error) {
	term, ok := g.Serving()
	if !ok {
		return done, ErrNotLeader
	}
	servers, index := g.configuration()
	s, ok := findServer(servers, id)
	if !ok {
		return done, fmt.Errorf("%w: %s", ErrUnknownMember, id)
	}
	short := g.quorumWithout(ctx, servers, s)
	if short != nil && !force {
		return done, short
	}
	if id == g.cfg.NodeID {
		return g.removeSelf(ctx, term, force)
	}
	if short != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, forcedTimeout)
		defer cancel()
	}
	g.cfg.Logger.Info("member is removed", "member", id, "forced", short != nil)
	err = g.change(ctx, func(r *raft.Raft) raft.IndexFuture { return r.RemoveServer(s.ID, index, enqueueTimeout) })
	switch {
	case overtaken(err): // by a new member that got its vote, for example
		return g.Remove(ctx, id, force)
	case short != nil && (errors.Is(err, raft.ErrLeadershipLost) || errors.Is(err, context.DeadlineExceeded)):
		return Removal{Pending: short.Error()}, nil
	}
	return done, err
}

// overtaken reports whether Raft refused a change of the members because another change
// came first. Raft has no error value for it.
func overtaken(err error) bool {
	return err != nil && strings.Contains(err.Error(), "configuration changed since")
}

// quorumWithout returns an ErrQuorum if the voters that remain after a removal could not
// decide anything now.
func (g *Group) quorumWithout(ctx context.Context, servers []raft.Server, gone raft.Server) error {
	if gone.Suffrage != raft.Voter {
		return nil
	}
	var (
		mu            sync.Mutex
		wg            sync.WaitGroup
		voters, short []string
	)
	for _, s := range servers {
		if s.Suffrage != raft.Voter || s.ID == gone.ID {
			continue
		}
		voters = append(voters, member.NodeOf(s.ID))
		wg.Go(func() {
			if member.NodeOf(s.ID) != g.cfg.NodeID && !g.peers.ask(ctx, s) {
				mu.Lock()
				defer mu.Unlock()
				short = append(short, member.NodeOf(s.ID))
			}
		})
	}
	wg.Wait()
	need := len(voters)/2 + 1
	if len(voters) > 0 && len(voters)-len(short) >= need {
		return nil
	}
	if len(voters) == 0 {
		return fmt.Errorf("%w: %s is the only voter", ErrQuorum, member.NodeOf(gone.ID))
	}
	slices.Sort(short)
	return fmt.Errorf("%w: without %s the voters are %s. %d of them must answer, but %s does not answer: the cluster could decide nothing",
		ErrQuorum, member.NodeOf(gone.ID), strings.Join(voters, ", "), need, strings.Join(short, ", "))
}

// removeSelf transfers leadership and lets the next leader remove this node.
func (g *Group) removeSelf(ctx context.Context, term uint64, force bool) (done Removal, err error) {
	transfer := func() error { return g.Transfer(ctx, "") }
	if h := g.cfg.Handlers[OpTransfer]; h != nil {
		transfer = func() error {
			_, err := h(ctx, json.RawMessage(`{}`))
			return err
		}
	}
	if err := transfer(); err != nil {
		return done, fmt.Errorf("hand leadership over before %s is removed: %w", g.cfg.NodeID, err)
	}
	args := removeArgs{ID: g.cfg.NodeID, Force: force}
	err = ErrNotLeader
	polled := g.poll(ctx, func() bool {
		if now, ok := g.Serving(); ok && now != term {
			err = fmt.Errorf("%w: leadership came back before %s was removed; repeat it", ErrNotLeader, g.cfg.NodeID)
			return true
		}
		if _, addr := g.Leader(); addr != "" && addr != g.cfg.Advertise {
			err = g.Caller().forward(ctx, addr, opRemove, args, &done)
		}
		return !errors.Is(err, ErrNotLeader) // the next leader may not serve yet
	})
	if polled != nil {
		return done, fmt.Errorf("remove %s: %w", g.cfg.NodeID, err)
	}
	return done, err
}
