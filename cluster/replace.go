package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/headgate-io/headgate/raftlog"
)

const (
	// replaceInterval is the time between two checks of the members during a replacement.
	replaceInterval = 500 * time.Millisecond

	// tellInterval is the least time between two reports about a step in progress.
	tellInterval = 10 * time.Second
)

// ErrHasVote is returned by Replace if the new node already has a vote at the beginning.
var ErrHasVote = errors.New("it already has a vote")

// Replacement describes how one node replaces another.
type Replacement struct {
	Old, New string        // node ids
	NewAddr  string        // where other nodes reach the new node, which must be running
	Timeout  time.Duration // for one answer
	Tell     func(string)  // is called when a step begins, and with the state of a long step
}

// Replace replaces a member by a new node, in one group after the other. It adds the new
// node, waits until that node has caught up and, if the old node had a vote, has a vote too.
// Then it removes the old node, which may be dead. After each step, the members alone
// determine the next step, so Replace may be interrupted and repeated. It refuses a new node
// that already has a vote, because that may be any voter, and the cluster would lose one.
// It goes on if the old node has left some groups. addr is any node of the cluster. When ctx ends, the error contains ctx's
// cause.
func (c *Client) Replace(ctx context.Context, addr string, r Replacement) error {
	if r.Old == r.New {
		return fmt.Errorf("the new node must have another id than the old node; if %s has only lost its data, start it again, and the cluster takes it in", r.Old)
	}
	// Check every group before the first step, because meanwhile the new node may get its
	// vote in the other groups.
	groups, replaced := 0, 0
	var voter error
	err := c.Each(ctx, addr, r.Timeout, func(_ int, c *Client) error {
		known := []string{addr}
		return c.persist(ctx, &known, &r, true, func(s *raftlog.Status, _ func(step, string)) (bool, error) {
			groups++
			err := r.check(s)
			if errors.Is(err, ErrHasVote) {
				voter, err = err, nil
			} else if err == nil && find(s, r.Old) == nil {
				replaced++
			}
			return true, err
		})
	})
	if err != nil {
		return err
	}
	if voter != nil && replaced == 0 {
		return voter
	}
	// Otherwise the new node has its vote because an earlier call has begun.
	if replaced == groups {
		r.Tell(fmt.Sprintf("%s is not a member, and %s is: nothing is left to do", r.Old, r.New))
	}
	return c.Each(ctx, addr, r.Timeout, func(group int, c *Client) error {
		r, known := r, []string{addr}
		if groups > 1 {
			tell := r.Tell
			r.Tell = func(text string) { tell(fmt.Sprintf("group %d: %s", group, text)) }
		}
		return c.persist(ctx, &known, &r, false, func(s *raftlog.Status, tell func(step, string)) (bool, error) {
			return c.replaceStep(ctx, s, &r, tell)
		})
	})
}

// persist calls do with the leader's status, until do is done, or returns an error that
// a later call would also return. known lists addresses of nodes. first is set if no
// node has answered yet. Then persist returns the error if a node cannot be reached.
func (c *Client) persist(ctx context.Context, known *[]string, r *Replacement, first bool, do func(*raftlog.Status, func(step, string)) (done bool, err error)) error {
	lastStep := ""
	told := make(map[step]time.Time)
	tell := func(what step, text string) {
		lastStep = text
		if at, ok := told[what]; !ok || time.Since(at) >= tellInterval {
			told[what] = time.Now()
			r.Tell(text)
		}
	}
	t := time.NewTicker(replaceInterval)
	defer t.Stop()
	for answered := !first; ; {
		s, err := c.leaderStatus(ctx, known, r.Timeout)
		done := false
		if err == nil {
			answered = true
			done, err = do(&s, tell)
		}
		var network net.Error
		end, bounded := ctx.Deadline()
		switch {
		case done:
			return err
		case err == nil, bounded && !time.Now().Before(end): // the end of ctx says nothing about the node
		case errors.Is(err, raftlog.ErrNotLeader):
			tell(awaitsLeader, "waiting for a leader")
		case errors.Is(err, raftlog.ErrSilent):
			tell(awaitsNode, err.Error())
		case answered && (errors.Is(err, ErrRemoved) || errors.Is(err, raftlog.ErrNoAnswer) || errors.As(err, &network)): // a timeout is a net.Error
			tell(awaitsAnswer, "waiting for an answer")
		default:
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w (last: %s)", context.Cause(ctx), lastStep)
		case <-t.C:
		}
	}
}

// step is a kind of step of a replacement.
type step int

const (
	awaitsLeader step = iota
	awaitsAnswer
	awaitsNode
	joins
	lags
	awaitsVote
	removes
)

// check refuses a replacement that would take a voter away, or whose old node is not a
// member.
func (r *Replacement) check(s *raftlog.Status) error {
	was, is := find(s, r.Old), find(s, r.New)
	switch {
	case was == nil && is == nil:
		return fmt.Errorf("neither %s nor %s is a member", r.Old, r.New)
	case was == nil: // replaced already
	case is != nil && is.Voter:
		return fmt.Errorf("%s cannot replace %s: %w. The cluster would lose one voter. Nothing was changed. If %s was started to replace %s, run headgate cluster remove %s", r.New, r.Old, ErrHasVote, r.New, r.Old, r.Old)
	}
	return nil
}

// find returns the member of an id, or nil.
func find(s *raftlog.Status, id string) *raftlog.Member {
	if i := slices.IndexFunc(s.Members, func(m raftlog.Member) bool { return m.ID == id }); i >= 0 {
		return &s.Members[i]
	}
	return nil
}

// leaderStatus asks the leader for its status. It finds the leader through the known
// addresses. It returns ErrNotLeader if there is no leader, and ErrRemoved if all nodes
// that answer have been removed.
func (c *Client) leaderStatus(ctx context.Context, known *[]string, timeout time.Duration) (s raftlog.Status, err error) {
	var failed []error
	for _, addr := range *known {
		for range 2 {
			asked, cancel := context.WithTimeout(ctx, timeout)
			s, err = c.Status(asked, addr)
			cancel()
			if err != nil {
				failed = append(failed, err)
				break
			}
			if s.Serving {
				*known = []string{s.Addr}
				for _, m := range s.Members {
					if !m.Self {
						*known = append(*known, m.Addr)
					}
				}
				return s, nil
			}
			if s.Removed {
				failed = append(failed, fmt.Errorf("%s %w", s.NodeID, ErrRemoved))
				break
			}
			failed = append(failed, raftlog.ErrNotLeader)
			if s.LeaderAddr == "" {
				break
			}
			addr = s.LeaderAddr
		}
	}
	return s, errors.Join(failed...)
}

// replaceStep takes the next step if it is possible yet, and reports whether nothing is
// left to do.
func (c *Client) replaceStep(ctx context.Context, s *raftlog.Status, r *Replacement, tell func(step, string)) (done bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	was, is := find(s, r.Old), find(s, r.New)
	switch {
	case is == nil:
		tell(joins, r.New+" joins")
		return false, c.Join(ctx, s.Addr, r.New, r.NewAddr)
	case is.Addr != r.NewAddr:
		return false, fmt.Errorf("%s is a member at %s, not at %s", r.New, is.Addr, r.NewAddr)
	case was == nil:
		return true, nil
	case !is.Up || is.Lost:
		tell(awaitsNode, "waiting for "+r.New+" to answer")
		return false, nil
	case is.Lag > raftlog.PromoteLag:
		tell(lags, fmt.Sprintf("%s is %d entries behind", r.New, is.Lag))
		return false, nil
	case was.Voter && !is.Voter:
		asked, err := c.Status(ctx, is.Addr)
		if err == nil && !asked.WantsVote {
			tell(awaitsVote, r.New+" has caught up and gets its vote")
			return false, c.Promote(ctx, s.Addr, r.New)
		}
		tell(awaitsVote, r.New+" has caught up; it gets its vote when it has kept up for a while")
		return false, nil
	}
	tell(removes, r.Old+" is removed")
	_, err = c.Remove(ctx, s.Addr, r.Old, false)
	return false, err
}
