package engine

import (
	"errors"
	"hash/fnv"
	"sync"

	"github.com/headgate-io/headgate/engine/algo"
)

// ErrNotLocal is returned for a call that a node must not decide on its own share: a
// refund, a forced charge, a call on a limit in which it has no share. It is also
// returned for a cost that only the whole limit can hold, and for a call beyond the
// bounds of its memory.
var ErrNotLocal = errors.New("not decided without a leader")

const (
	// localBytes bounds the overlay's table.
	localBytes = 256 << 20
	// localKeys bounds the limits of keys whose consumption is remembered for the leader.
	localKeys = 1 << 20
)

// Local decides on a node's share of each limit while there is no leader. It never
// changes the replicated table. At the first use of a key, Local reads how many units
// the limit has left. The node's share is these units divided by the number of voters,
// and the share refills at the limit's rate divided by the number of voters. Local
// remembers the units that it admits. When there is a leader again, they are charged to
// the replicated table: see Take and Session.ChargeOnce.
//
// Let N be the number of voters. If all voters are cut off from each other, together
// they admit at most what was left of the limit, plus the refill. If k voters are cut
// off and the others have a leader, all voters together admit at most limit*(1+k/N).
//
// A limit of less than N units cannot be divided. One voter, chosen by the key, then has
// the whole limit, and the other voters deny every call.
//
// If a cost is more than the share, but not more than the whole limit, Local returns
// ErrNotLocal. A leader could admit the call. So Local does not answer algo.Never, which
// would mean that no wait helps. The share of a token bucket has N times the period and
// 1/N of the burst. The share of a window has 1/N of the limit. N, and this voter's rank
// among the voters, are fixed when the time without a leader begins.
//
// Methods are safe for concurrent use. All of them take one lock: times without a leader
// are rare and short, so the lock does not matter.
type Local struct {
	e *Engine

	// mu guards everything below.
	mu       sync.Mutex
	look     *Session // reads the replicated table
	overlay  *Engine
	session  *Session
	voters   int64
	rank     int64
	scratch  []Segment
	spent    map[spender]*spending
	order    []*spending // of spent, oldest first
	admitted uint64
	copied   map[spender]struct{} // counters on the overlay: see Count
}

// spender is one limit of a key.
type spender struct {
	key   string
	limit algo.Limit
}

// spending is the consumption admitted here of one limit of a key.
type spending struct {
	spender
	units int64

	initial, deadline, known int64 // for a counter, and for a calendar: see Charge
}

// NewLocal returns the local decisions of e's node. Call Begin before Decide.
func NewLocal(e *Engine) *Local {
	return &Local{e: e, look: e.NewSession(), spent: make(map[spender]*spending)}
}

// Begin starts a gap, a time without a leader: Local then takes new shares from the
// replicated table. The parameter voters is how many nodes share each limit, and rank is
// this node's number among them, from 0. Charges of earlier gaps are kept.
func (l *Local) Begin(voters, rank int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.voters, l.rank = int64(max(voters, 1)), int64(rank)
	l.overlay = New(Config{Shards: 16, MaxBytes: localBytes, LogMaxEntries: l.e.logMaxEntries, TopK: 1})
	l.session = l.overlay.NewSession()
	l.copied = make(map[spender]struct{})
}

// Decide is Session.DecideAll, or with one segment Session.Decide, on this node's shares.
// All limits must be of one database. The decisions name the limits of the shares. It
// returns the errors of Session's methods and ErrNotLocal. ErrNotLocal also replaces
// ErrFull.
func (l *Local) Decide(now int64, segs []Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.overlay != nil {
		l.overlay.tidyLimits() // the overlay has no Run
	}
	binding, err = l.decide(now, segs, o, out)
	if errors.Is(err, ErrFull) {
		err = ErrNotLocal
	}
	return binding, err
}

// decide is Decide with mu held.
func (l *Local) decide(now int64, segs []Segment, o *algo.Options, out []algo.Decision) (binding int, err error) {
	if l.overlay == nil || o.Force {
		return 0, ErrNotLocal
	}
	l.scratch = l.scratch[:0]
	for _, seg := range segs {
		l.session.Use(seg.Limit.DB)
		if seg.Cost < 0 {
			return 0, ErrNotLocal
		}
		share, err := l.share(now, seg)
		if err != nil {
			return 0, err
		}
		l.scratch = append(l.scratch, share)
	}
	if len(segs) == 1 {
		out[0], err = l.session.Decide(now, l.scratch[0].Key, l.scratch[0].Limit, segs[0].Cost, o)
	} else {
		binding, err = l.session.DecideAll(now, l.scratch, o, out)
	}
	if err != nil {
		return 0, err
	}
	for i := range segs {
		if !out[i].OK && out[i].RetryAfter == algo.Never && segs[i].Limit.Limit > 0 && segs[i].Cost-max(o.Debt, 0) <= segs[i].Limit.Capacity() {
			return 0, ErrNotLocal
		}
	}
	if out[binding].OK && !o.Peek {
		l.admitted++
		for i := range segs {
			l.note(segs[i], out[i].Allowed)
		}
	}
	return binding, nil
}

// share returns the overlay's segment for seg. At the key's first use it makes the
// counter. mu must be held.
func (l *Local) share(now int64, seg Segment) (Segment, error) {
	if l.spent[spender{string(seg.Key), seg.Limit}] == nil && len(l.order) >= localKeys {
		return Segment{}, ErrNotLocal
	}
	limit, voters, err := l.divide(seg)
	if err != nil {
		return Segment{}, err
	}
	if known, _ := l.session.Exists(now, seg.Key); !known { // its own engine is never sealed
		left, err := l.left(now, seg)
		if err != nil {
			return Segment{}, err
		}
		if used := limit.Capacity() - left/voters; used > 0 {
			if _, err := l.session.Decide(now, seg.Key, limit, used, &algo.Options{Force: true}); err != nil {
				return Segment{}, err
			}
		}
	}
	return Segment{seg.Key, limit, seg.Cost}, nil
}

// left returns what remains of a limit in the replicated table, even if that is sealed.
func (l *Local) left(now int64, seg Segment) (int64, error) {
	it, err := l.look.rule(seg.Limit)
	if err != nil {
		return 0, err
	}
	hash := l.e.hash(seg.Limit.DB, seg.Key)
	sh := l.e.table.At(hash)
	sh.Lock()
	defer sh.Unlock()
	var p plan
	err = l.look.plan(&p, sh, hash, seg.Key, it, now, 0, &algo.Options{Peek: true})
	return p.d.Remaining, err
}

// divide returns this node's share of a limit, and how many voters have an equal share.
func (l *Local) divide(seg Segment) (share algo.Limit, voters int64, err error) {
	share = seg.Limit
	if share.Limit == 0 {
		return share, 1, nil
	}
	if _, ok := share.Split(1); !ok { // it has no shares
		return algo.Limit{}, 0, ErrNotLocal
	}
	if share.Capacity() < l.voters {
		if rankOf(seg.Key, l.voters) != l.rank {
			return algo.Limit{}, 0, ErrNotLocal
		}
		return share, 1, nil
	}
	share, ok := share.Split(l.voters)
	if !ok {
		return algo.Limit{}, 0, ErrNotLocal
	}
	return share, l.voters, nil
}

// rankOf chooses the voter that has all of a limit too small to share. Every node chooses
// the same one.
func rankOf(key []byte, voters int64) int64 {
	h := fnv.New64a()
	h.Write(key)
	return int64(h.Sum64() % uint64(voters))
}

// note remembers admitted units. mu must be held.
func (l *Local) note(seg Segment, units int64) {
	if units <= 0 {
		return
	}
	l.spending(spender{string(seg.Key), seg.Limit}).units += units
}

// spending returns the entry of a limit of a key, and makes it if needed. mu must be
// held.
func (l *Local) spending(name spender) *spending {
	s := l.spent[name]
	if s == nil {
		s = &spending{spender: name}
		l.spent[name] = s
		l.order = append(l.order, s)
	}
	return s
}

// Take removes the consumption of up to n limits of keys and returns it for ChargeOnce.
func (l *Local) Take(n int) []Charge {
	l.mu.Lock()
	defer l.mu.Unlock()
	n = min(n, len(l.order))
	charges := make([]Charge, n)
	for i, s := range l.order[:n] {
		charges[i] = Charge{[]byte(s.key), s.limit, s.units, s.initial, s.deadline, s.known}
		delete(l.spent, s.spender)
	}
	clear(l.order[:n])
	l.order = l.order[n:]
	return charges
}

// Admitted returns how many calls were admitted locally.
func (l *Local) Admitted() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.admitted
}
