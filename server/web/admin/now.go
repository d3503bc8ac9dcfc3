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
	Started  string `json:"started"`
	Leader   bool   `json:"leader"`
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
	per := func(now, before uint64) float64 {
		if now < before { // CONFIG RESETSTAT has set the counts to 0
			before = 0
		}
		return float64(now-before) / took.Seconds()
	}
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

// Cluster is what a node knows of its cluster.
type Cluster struct {
	Node    string   `json:"node"`
	State   string   `json:"state"`
	Leader  string   `json:"leader"` // "" if the node knows no leader
	Term    uint64   `json:"term"`
	Commit  uint64   `json:"commit_index"`
	Applied uint64   `json:"applied_index"`
	Level   uint32   `json:"feature_level"`
	Differ  []string `json:"settings_differ"`
	Members []Member `json:"members"`
}

// Member is one node of a cluster.
type Member struct {
	ID     string `json:"id"`
	Peers  string `json:"peers"`
	Client string `json:"clients"`
	Leader bool   `json:"leader"`
	Voter  bool   `json:"voter"`
	Up     bool   `json:"up"`
	Lag    uint64 `json:"lag_entries"`
	LagMS  int64  `json:"lag_ms"`
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
