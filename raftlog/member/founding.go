package member

import (
	"errors"
	"fmt"
	"slices"
)

// One of the founders proposes a founding. All founders decide it in two votes.
//
//	free --> accepted --> confirmed --> founded
//	  ^          |             |
//	  |          v             |
//	  +------ abandoned        |
//	  +------------------------+
//
// First every founder accepts. A founder that has accepted takes part in no other founding
// and joins no cluster, until this founding is decided. A founder that knows that all have
// accepted confirms. A founder that has waited for too long votes to abandon instead. No
// founder votes twice. The founding takes place when a majority has confirmed. The founding
// fails when so many have abandoned that no majority can confirm. It also fails when one
// founder is not bound to it, because that founder will never be.
//
// A node is bound to one founding at a time, and its promise is on disk before any other
// node hears of it. A founding takes place only with all of its founders. So of two
// foundings that share a founder, at most one takes place.
//
// The procedure depends on no particular node. What founders have said stays true forever,
// in any order and even if it is repeated, and any of them can pass it on. A node must wait
// only while the nodes that answer cannot know the outcome.
//
// This file does no input or output; Convener and Identity do. The model in
// founding_test.go runs these functions in all possible orders.

// stage is how far a founder is in a founding. A later stage replaces an earlier one.
type stage int

const (
	unknown   stage = iota // nothing is known
	accepted               // bound, has not voted
	confirmed              // bound, has voted for it
	abandoned              // bound, has voted against it
	founded                // knows that it takes place
	released               // is not bound, and never will be
)

// founder is a node that founds a cluster, as it has introduced itself.
type founder struct {
	ID   string `json:"id"`
	Addr string `json:"addr"`

	// Data is the id of the founder's data directory. A founder that has lost its data has
	// forgotten what it accepted. Nobody asks it any more.
	Data string `json:"data"`

	// Token is what a proposal must show to be accepted. A node makes a new token after
	// each start, proposal and refusal. So it never accepts a proposal later that it has
	// refused, or from which it was released.
	Token string `json:"token"`
}

// founding is a proposal to found a cluster. It is immutable.
type founding struct {
	ID       string    `json:"id"`       // of the cluster, random
	Proposer string    `json:"proposer"` // node id
	Founders []founder `json:"founders"` // sorted by id

	// Groups is how many groups the cluster has; 0 means 1. A founder with another number
	// accepts no such founding.
	Groups int `json:"groups,omitempty"`
}

// founder returns the position of the founder with the given data, or -1.
func (f *founding) founder(data string) int {
	return slices.IndexFunc(f.Founders, func(o founder) bool { return o.Data == data })
}

func (f *founding) proposer() int {
	return slices.IndexFunc(f.Founders, func(o founder) bool { return o.ID == f.Proposer })
}

// maxAddr bounds the length of a founder's address: a name and a port.
const maxAddr = 253 + len(":65535")

// check returns an error for a founding that no correct node proposes.
func (f *founding) check() error {
	if f.ID == "" || len(f.ID) > MaxRandomID || f.proposer() < 0 || len(f.Founders) > maxFounders {
		return errors.New("malformed founding")
	}
	for i, o := range f.Founders {
		if err := CheckNodeID(o.ID); err != nil {
			return err
		}
		if o.Data == "" || o.Token == "" || len(o.Data)+len(o.Token) > 2*MaxRandomID || len(o.Addr) > maxAddr || i > 0 && f.Founders[i-1].ID >= o.ID || f.founder(o.Data) != i {
			return errors.New("malformed founding")
		}
	}
	return nil
}

// word is what a node says about a founding.
type word struct {
	Founding founding `json:"founding"`
	From     string   `json:"from"`   // node id
	Stages   []stage  `json:"stages"` // by founder
}

// pledge is what a node has promised about the founding of its cluster. Its exported fields
// are stored on disk. The methods that change a pledge return the next pledge, which must
// be on disk before any other node hears of it. fresh is an unused token.
type pledge struct {
	Founding *founding `json:"founding,omitempty"` // nil: free
	Stage    stage     `json:"stage,omitempty"`

	data   string
	token  string
	closed bool    // already in a cluster, or about to be
	heard  []stage // by founder
}

// newPledge returns the state of a node that starts with the pledge stored on its disk.
func newPledge(stored pledge, data string, closed bool, fresh string) pledge {
	p := pledge{Founding: stored.Founding, Stage: stored.Stage, data: data, token: fresh, closed: closed}
	if p.Founding != nil {
		p.heard = p.first()
	}
	return p
}

// first returns what every bound node knows: the proposer had accepted before it asked
// others.
func (p pledge) first() []stage {
	heard := make([]stage, len(p.Founding.Founders))
	heard[p.Founding.proposer()] = accepted
	heard[p.Founding.founder(p.data)] = p.Stage
	return heard
}

func (p pledge) free() bool { return p.Founding == nil && !p.closed }

func (p pledge) bind(f founding, fresh string) pledge {
	p.Founding, p.Stage, p.token = &f, accepted, fresh
	p.heard = p.first()
	return p.advance(fresh)
}

func (p pledge) release(fresh string) pledge {
	return pledge{data: p.data, token: fresh, closed: p.closed}
}

// propose makes a node the first to accept a founding, if it is free.
func (p pledge) propose(f founding, fresh string) pledge {
	me := f.founder(p.data)
	if !p.free() || me < 0 || f.Founders[me].ID != f.Proposer || f.Founders[me].Token != p.token {
		return p
	}
	return p.bind(f, fresh)
}

// hear notes another node's statement about a founding. It returns this node's statement
// about the same founding, or nil if this node is not a founder. It accepts a founding only
// if the statement comes from the proposer itself and shows this node's token. size is how
// many founders this node expects, and groups is how many groups it has.
func (p pledge) hear(w word, size, groups int, fresh string) (pledge, []stage) {
	me := w.Founding.founder(p.data)
	if me < 0 {
		return p, nil
	}
	mine := w.Founding.Founders[me].Token == p.token
	if p.free() && mine && w.From == w.Founding.Proposer && len(w.Founding.Founders) == size && max(w.Founding.Groups, 1) == max(groups, 1) {
		p = p.bind(w.Founding, fresh)
	} else if mine {
		p.token = fresh // refused for ever
	}
	if p.Founding != nil && p.Founding.ID == w.Founding.ID {
		p.heard = slices.Clone(p.heard)
		for i, s := range w.Stages {
			if i < len(p.heard) && i != me && s <= released {
				p.heard[i] = max(p.heard[i], s)
			}
		}
		p = p.advance(fresh)
	}
	return p, p.say(&w.Founding)
}

// say returns a node's word on a founding that it has heard of, nil if it is not a
// founder.
func (p pledge) say(f *founding) []stage {
	me := f.founder(p.data)
	switch {
	case me < 0:
		return nil
	case p.Founding != nil && p.Founding.ID == f.ID:
		return slices.Clone(p.heard)
	}
	stages := make([]stage, len(f.Founders))
	stages[me] = released
	return stages
}

// advance draws conclusions from everything that was heard.
func (p pledge) advance(fresh string) pledge {
	for p.Stage != founded {
		known := func(of ...stage) (n int) {
			for _, s := range p.heard {
				if slices.Contains(of, s) {
					n++
				}
			}
			return n
		}
		majority := len(p.heard)/2 + 1
		switch {
		case known(founded) > 0 || known(confirmed) >= majority:
			p = p.at(founded)
		case known(released) > 0 || known(abandoned) > len(p.heard)-majority:
			return p.release(fresh)
		case p.Stage == accepted && known(abandoned) > 0:
			p = p.at(abandoned)
		case p.Stage == accepted && known(unknown) == 0:
			p = p.at(confirmed)
		default:
			return p
		}
	}
	return p
}

// at returns the pledge with another stage of its own.
func (p pledge) at(s stage) pledge {
	p.Stage, p.heard = s, slices.Clone(p.heard)
	p.heard[p.Founding.founder(p.data)] = s
	return p
}

// abandon votes against the founding, unless the node has voted.
func (p pledge) abandon(fresh string) pledge {
	if p.Founding == nil || p.Stage != accepted {
		return p
	}
	return p.at(abandoned).advance(fresh)
}

// adopt makes a node part of an existing cluster, unless it is bound to a
// founding.
func (p pledge) adopt(cluster, fresh string) (pledge, error) {
	switch {
	case p.Founding == nil:
		p.closed, p.token = true, fresh
		return p, nil
	case p.Founding.ID == cluster:
		return p.at(founded), nil
	}
	return p, fmt.Errorf("this node has agreed to found a cluster, and does not know whether the cluster was founded: %s", p.waitsFor())
}

// waitsFor names the founders that must be heard for a decision.
func (p pledge) waitsFor() string {
	var all, silent []string
	for i, f := range p.Founding.Founders {
		all = append(all, f.ID)
		if p.heard[i] == unknown || p.heard[i] == accepted && f.Data != p.data {
			silent = append(silent, fmt.Sprintf("%s (%s)", f.ID, f.Addr))
		}
	}
	return fmt.Sprintf("founders %v, proposed by %s; no answer yet from %v", all, p.Founding.Proposer, silent)
}
