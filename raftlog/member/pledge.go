package member

import (
	"crypto/rand"
	"encoding/json"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"github.com/headgate-io/headgate/raftlog/stable"
)

// loadPledge reads what a node has promised about the founding of its cluster.
func loadPledge(s raft.StableStore, data string) (pledge, error) {
	var p pledge
	raw, err := stable.Text(s, pledgeKey)
	if err != nil || raw == "" {
		return p, err
	}
	if err := json.Unmarshal([]byte(raw), &p); err != nil {
		return p, fmt.Errorf("%w: %s: %w", ErrCorrupt, pledgeKey, err)
	}
	switch {
	case p.Founding == nil:
		return p, nil
	case p.Founding.check() != nil || p.Stage <= unknown || p.Stage > founded:
		return p, fmt.Errorf("%w: %s: %s; wipe this node's data and join again", ErrCorrupt, pledgeKey, raw)
	case p.Founding.founder(data) < 0:
		return pledge{}, nil // the node was recovered since, and is another member now
	}
	return p, nil
}

// keep makes next the node's pledge. It stores the pledge before any other node hears of
// it. The caller holds mu.
func (i *Identity) keep(next pledge) error {
	if next.Founding != i.pledge.Founding || next.Stage != i.pledge.Stage {
		raw, err := json.Marshal(next)
		if err != nil {
			return err
		}
		if err := stable.SetText(i.store, pledgeKey, string(raw)); err != nil {
			return err
		}
	}
	i.pledge = next
	return nil
}

// propose makes the node the first to accept a founding.
func (i *Identity) propose(f founding) error {
	if err := f.check(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keep(i.pledge.propose(f, rand.Text()))
}

// abandon votes against the founding that the node is bound to.
func (i *Identity) abandon() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.keep(i.pledge.abandon(rand.Text()))
}

// hear takes note of another node's word on a founding and returns this node's word: see
// pledge.hear.
func (i *Identity) hear(w word, size int) ([]stage, error) {
	if err := w.Founding.check(); err != nil {
		return nil, err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	next, stages := i.pledge.hear(w, size, i.groups, rand.Text())
	if err := i.keep(next); err != nil {
		return nil, err
	}
	if f := i.pledge.Founding; f != nil && f.ID == w.Founding.ID && f.Proposer == w.From {
		i.proposerHeard = time.Now()
	}
	return stages, nil
}

// Adopt makes the node part of the cluster whose leader adds it.
func (i *Identity) Adopt(cluster string) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if own := i.Cluster(); own != "" {
		if own != cluster {
			return ErrOtherCluster
		}
		return nil
	}
	next, err := i.pledge.adopt(cluster, rand.Text())
	if err != nil {
		return err
	}
	if next.Founding == nil {
		if err := i.setCluster(cluster); err != nil {
			return err
		}
		i.cluster.Store(&cluster)
	}
	return i.keep(next)
}

// bound returns the founding that the node has accepted, its stage, and when the node last
// heard from the proposer. It returns nil if there is no founding, or if the node is
// already part of the cluster.
func (i *Identity) bound() (*founding, stage, time.Time) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.Cluster() != "" {
		return nil, unknown, time.Time{}
	}
	return i.pledge.Founding, i.pledge.Stage, i.proposerHeard
}

// say returns the node's word on a founding to which it is bound.
func (i *Identity) say(f *founding) []stage {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pledge.Founding != f {
		return nil
	}
	return i.pledge.say(f)
}

// free reports whether the node may found a cluster, and returns its token.
func (i *Identity) free() (token string, ok bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.pledge.token, i.pledge.free()
}

// Founding returns the id of the cluster whose founding the node has accepted or once
// took part in.
func (i *Identity) Founding() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pledge.Founding == nil {
		return ""
	}
	return i.pledge.Founding.ID
}

// waitsFor names the nodes for which the decision of the founding waits.
func (i *Identity) waitsFor() string {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.pledge.Founding == nil {
		return ""
	}
	return i.pledge.waitsFor()
}

// enter makes the node part of the cluster that it has founded. bootstrap writes the
// founders into Raft's log. The cluster's id is on disk before there is a log. Other nodes
// hear the id only after that.
func (i *Identity) enter(f *founding, bootstrap func() error) error {
	if err := i.setCluster(f.ID); err != nil {
		return err
	}
	if err := bootstrap(); err != nil {
		return err
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.cluster.Store(&f.ID)
	return nil
}
