package admin

import (
	"net/http"
	"sync"
	"time"
)

// Now is a node's state. Its counts begin at the node's start.
type Now struct {
	Node    string `json:"node"`
	Version string `json:"version"`
	// Started is the time of the node's start, in RFC 3339.
	Started string `json:"started"`
	Leader  bool   `json:"leader"`
	// InCluster reports that /v1/cluster has an answer.
	InCluster bool `json:"in_cluster"`

	Commands uint64 `json:"commands"`
	Allowed  uint64 `json:"allowed"`
	Denied   uint64 `json:"denied"`
	Degraded uint64 `json:"degraded"`
	Errors   uint64 `json:"errors"`
	Unknown  uint64 `json:"unknown_policies"`

	Clients     int64 `json:"clients"`
	Keys        int64 `json:"keys"`
	Memory      int64 `json:"memory_bytes"`
	MemoryLimit int64 `json:"memory_max_bytes"`
	Holds       int64 `json:"holds"`
	Offenders   int64 `json:"offenders"`
	Policies    int64 `json:"policies"`
	Revision    int64 `json:"policies_revision"`
}

// Rates are numbers per second.
type Rates struct {
	// Over is the time between the two readings that the rates come from, in ms.
	Over     int64   `json:"over_ms"`
	Commands float64 `json:"commands"`
	Allowed  float64 `json:"allowed"`
	Denied   float64 `json:"denied"`
	Degraded float64 `json:"degraded"`
}

// rateSpan is the least time between the two readings that rates come from.
const rateSpan = time.Second

// rates keeps earlier readings, to compute the rates of the next reading.
type rates struct {
	// mu guards the two readings below, which are at least rateSpan apart.
	mu            sync.Mutex
	old, latest   Now
	oldAt, lastAt time.Time
}

// of returns the rates from an earlier reading to n; nil if n is the first.
func (r *rates) of(n *Now, at time.Time) *Rates {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.Sub(r.lastAt) >= rateSpan {
		r.old, r.oldAt = r.latest, r.lastAt
		r.latest, r.lastAt = *n, at
	}
	if r.oldAt.IsZero() {
		return nil
	}
	took := at.Sub(r.oldAt)
	per := func(now, before uint64) float64 { return float64(grown(now, before)) / took.Seconds() }
	o := &r.old
	return &Rates{took.Milliseconds(), per(n.Commands, o.Commands), per(n.Allowed, o.Allowed), per(n.Denied, o.Denied), per(n.Degraded, o.Degraded)}
}

func (a *API) now(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	n := a.view.Now()
	return answer(struct {
		Now
		Rates *Rates `json:"per_second"`
	}{n, a.rates.of(&n, time.Now())})
}

// Cluster is what a node knows of its cluster. Indexes, the term and the members are those
// of group 0.
type Cluster struct {
	Node    string `json:"node"`
	State   string `json:"state"`
	Role    string `json:"role"`   // what this node may do now
	Leader  string `json:"leader"` // "" if the node knows no leader
	Term    uint64 `json:"term"`
	Commit  uint64 `json:"commit_index"`
	Applied uint64 `json:"applied_index"`
	Unacked int64  `json:"unacked_ms"` // on the leader: the age of the oldest effect that is not committed
	Level   uint32 `json:"feature_level"`
	// HeldBack says why the feature level is not the highest that some member can read; ""
	// if it is.
	HeldBack string `json:"feature_level_held_back"`
	// Troubles are states of this node that need an operator.
	Troubles    []string     `json:"troubles"`
	Differ      []string     `json:"settings_differ"`
	Differences []Difference `json:"differences"`
	Members     []Member     `json:"members"`
	Groups      []Group      `json:"groups"`
	// Handover is the last change of a group's leader that this node has seen; nil if it has
	// seen none.
	Handover *Handover `json:"last_handover"`
}

// Difference is a parameter whose value is not equal on all members.
type Difference struct {
	Parameter string            `json:"parameter"`
	Values    map[string]string `json:"values"` // by member; secrets are not shown
}

// Member is one node of a cluster. Times and lags are unknown for the asked node itself and
// for nodes that do not answer; they are then 0.
type Member struct {
	ID     string `json:"id"`
	Peers  string `json:"peers"`
	Client string `json:"clients"`
	Self   bool   `json:"self"`
	Leader bool   `json:"leader"`
	Voter  bool   `json:"voter"`
	Up     bool   `json:"up"`
	Lost   bool   `json:"lost"` // the member is up without the data that it had
	Lag    uint64 `json:"lag_entries"`
	LagMS  int64  `json:"lag_ms"`
	// ClockGap is the member's wall clock minus the clock of the asked node.
	ClockGap int64 `json:"clock_gap_ms"`
	RTT      int64 `json:"rtt_us"`
	// Seen is when the member last answered, in Unix ms; 0 if it has not answered yet.
	Seen int64 `json:"seen_at_ms"`
}

// Group is one Raft group, which decides for a part of the hash slots.
type Group struct {
	Group  int    `json:"group"`
	First  int    `json:"first_slot"`
	Last   int    `json:"last_slot"`
	Role   string `json:"role"` // what this node may do now in the group
	Leader string `json:"leader"`
	Term   uint64 `json:"term"`
	Commit uint64 `json:"commit_index"`
	Lag    uint64 `json:"lag_entries"` // of the slowest voter
}

// Handover is a change of the leader, as a node has seen it.
type Handover struct {
	Group int    `json:"group"`
	At    int64  `json:"at_ms"` // when the next leader was known, in Unix ms
	From  string `json:"from"`
	To    string `json:"to"`
	// Planned reports that the leader before has announced the handover.
	Planned bool `json:"planned"`
	// Without is how long no leader decided, as far as the node knows: of a leader that has
	// failed, since the node last heard from it.
	Without int64 `json:"without_leader_ms"`
}

func (a *API) cluster(r *Request) (Answer, error) {
	if _, err := r.query(); err != nil {
		return Answer{}, err
	}
	c := a.view.Cluster()
	if c == nil {
		return Answer{}, &Error{Status: http.StatusNotFound, Code: "NOCLUSTER", Detail: "this node is not in a cluster: it has no data-dir"}
	}
	return answer(c)
}
