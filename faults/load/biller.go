package load

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// Bill is the policy that billers ask: exact, durable, and refusing where nobody can
// say. Nothing comes back within a run.
const (
	Bill      = "bill"
	BillLimit = 40
	billText  = "{durability: sync, on_failure: closed, hold: {ttl: 1h, keep: 1h}, limits: {log: {by: user, algorithm: log, rate: 40/24h}, year: {by: user, calendar: UTC, rate: 40/year}}}"
)

// BillLimits are its limits.
var BillLimits = []string{"log", "year"}

// BillKey is the key of a limit's counter for a user.
func BillKey(limit, user string) string { return "@" + Bill + ":" + limit + ";user=" + user }

// BillerConfig describes billers.
type BillerConfig struct {
	Billers int
	Nodes   int
	Dial    func(node int) string // address to reach a node at now
	HTTP    func(node int) string // the same of its HTTP port; nil for none
	Epoch   time.Time
	Seed    uint64
	Every   time.Duration // from one bill of a biller to the next, on average
	Life    time.Duration // of a user
	Timeout time.Duration // of one command
	Patient time.Duration // how long a call is made again
}

// Billers charge users as a billing system does. A call has a name. It is repeated, on whatever node comes next, by the
// Redis protocol or over HTTP, until it is answered. Then it is repeated for no reason: the answer must be the same.
// Some calls hold, and are settled, again and again.
type Billers struct {
	cfg   BillerConfig
	quit  chan struct{}
	wg    sync.WaitGroup
	pause atomic.Bool
	all   []*biller
}

// biller is one of them.
type biller struct {
	*BillerConfig
	n      int
	rnd    *rand.Rand
	client http.Client
	node   int
	named  int
	busy   sync.Mutex // held while a bill is under way
	bills  []history.Bill
}

// NewBillers returns billers, having set their policy.
func NewBillers(cfg BillerConfig) (*Billers, error) {
	b := &Billers{cfg: cfg, quit: make(chan struct{})}
	for n := range cfg.Billers {
		b.all = append(b.all, &biller{BillerConfig: &b.cfg, n: n, rnd: rand.New(rand.NewPCG(cfg.Seed, uint64(1000+n))), node: n, client: http.Client{Timeout: cfg.Timeout, Transport: new(http.Transport)}})
	}
	if err := setPolicy(cfg.Dial(0), cfg.Timeout, Bill, billText); err != nil {
		return nil, err
	}
	return b, nil
}

// Start begins to bill.
func (b *Billers) Start() {
	for _, one := range b.all {
		b.wg.Go(func() { b.run(one) })
	}
}

// Pause waits for the bills that are under way, and begins no more until Resume.
func (b *Billers) Pause() {
	b.pause.Store(true)
	for _, one := range b.all {
		one.idle()
	}
}

// Resume ends a pause.
func (b *Billers) Resume() { b.pause.Store(false) }

// Stop ends the bills and returns them.
func (b *Billers) Stop() (bills []history.Bill) {
	close(b.quit)
	b.wg.Wait()
	for _, one := range b.all {
		bills = append(bills, one.bills...)
	}
	return bills
}

func (b *Billers) run(one *biller) {
	for {
		select {
		case <-b.quit:
			return
		case <-time.After(time.Duration((0.5 + one.rnd.Float64()) * float64(b.cfg.Every))):
		}
		one.busy.Lock()
		if !b.pause.Load() {
			one.bills = append(one.bills, one.bill())
		}
		one.busy.Unlock()
	}
}

// idle waits until no bill is under way.
func (b *biller) idle() {
	b.busy.Lock()
	defer b.busy.Unlock()
}

func (b *biller) now() int64 { return int64(time.Since(b.Epoch)) }

// bill is one call until it is answered, and its settlement.
func (b *biller) bill() history.Bill {
	b.named++
	now := b.now()
	bill := history.Bill{
		User: fmt.Sprintf("b%d.%d", b.n/2, now/int64(b.Life)), Name: fmt.Sprintf("%d.%d", b.n, b.named),
		Cost: 1 + b.rnd.Int32N(3), Holds: b.rnd.IntN(2) == 0, Start: now, Settled: history.Refused,
	}
	verb := "RL.CHECK"
	if bill.Holds {
		verb = "RL.RESERVE"
	}
	call := []string{verb, Bill, "user", bill.User, "COST", number(bill.Cost), "ID", bill.Name}
	first, open, ok := b.until(call)
	switch {
	case !ok:
		bill.Outcome = history.Unknown
	case first.error != "":
		bill.Outcome, bill.Differs = history.Unknown, first.error
	case first.allowed:
		bill.Outcome = history.Admitted
	case open: // of a try without an answer nobody knows whether it comes still
		bill.Outcome = history.Unknown
	default:
		bill.Outcome = history.Denied
	}
	if bill.Retried = open; ok {
		bill.Answers++
	}
	if bill.Outcome == history.Admitted {
		b.again(&bill, first, func() []string { return call })
		if bill.Holds {
			b.settle(&bill, first.hold)
		}
	}
	bill.End = b.now()
	return bill
}

// settle settles a hold, in one way until that is answered, and then in others.
func (b *biller) settle(bill *history.Bill, hold string) {
	how := []string{"RL.CANCEL", hold}
	if b.rnd.IntN(4) > 0 {
		bill.Final = b.rnd.Int32N(2 * bill.Cost)
		how = []string{"RL.COMMIT", hold, "COST", number(bill.Final)}
	}
	bill.Settled = history.Unknown
	first, open, ok := b.until(how)
	bill.Retried = bill.Retried || open
	switch {
	case !ok:
		return
	case first.error != "":
		bill.Differs = first.error
		return
	}
	bill.Settled = history.Admitted
	bill.Answers++
	b.again(bill, first, func() []string {
		return [][]string{how, {"RL.CANCEL", hold}, {"RL.COMMIT", hold, "COST", strconv.Itoa(b.rnd.IntN(9))}}[b.rnd.IntN(3)]
	})
}

// again makes calls again that were answered, and compares what they are told now.
func (b *biller) again(bill *history.Bill, first answer, of func() []string) {
	for range b.rnd.IntN(3) {
		time.Sleep(time.Duration(b.rnd.Int64N(int64(b.Every))))
		call := of()
		next, _, ok := b.until(call)
		if !ok {
			return
		}
		if bill.Answers++; next != first && bill.Differs == "" {
			bill.Differs = fmt.Sprintf("%v answered %+v, and first %+v", call, next, first)
		}
	}
}

// answer is what a reply says that is the same each time.
type answer struct {
	allowed bool
	hold    string
	error   string
	rest    string
}

// until makes a call until it is answered. open reports whether some try has been sent whose answer is not known.
func (b *biller) until(call []string) (a answer, open, ok bool) {
	for deadline := time.Now().Add(b.Patient); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		b.node++
		addr := b.Dial(b.node % b.Nodes)
		if addr == "" {
			continue
		}
		a, code := b.try(addr, call)
		switch {
		case code == "":
			return a, open, true
		case refusals[code]:
		case code == "UNCERTAIN":
			open = true
		default:
			return answer{error: fmt.Sprintf("%v: %s", call, code)}, open, true
		}
	}
	return a, open, false
}

// try makes a call once, by the protocol that comes. code is the error's, "" without one, and "UNCERTAIN" if the call
// may have been executed.
func (b *biller) try(addr string, call []string) (a answer, code string) {
	if b.HTTP != nil && b.rnd.IntN(2) == 0 {
		return b.overHTTP(b.HTTP(b.node%b.Nodes), call)
	}
	reply, err := respclient.Do(addr, b.Timeout, call...)
	if err == nil {
		return answerOf(&reply), ""
	}
	switch code, _, _ = strings.Cut(reply.Error(), " "); {
	case code == "":
		return a, "UNCERTAIN"
	case refusals[code], code == "UNCERTAIN":
		return a, code
	}
	return a, reply.Error()
}

// answerOf leaves out the limits, which only the first answer has.
func answerOf(r *resp.Reply) (a answer) {
	if len(r.Elems) < 13 {
		return answer{error: fmt.Sprintf("a reply of %d elements", len(r.Elems))}
	}
	a.allowed, a.hold = r.Elems[0].Int == 1, r.Elems[8].Str
	var parts []string
	for i := range r.Elems {
		if e := &r.Elems[i]; i < 11 || i > 12 {
			parts = append(parts, e.Str+strconv.FormatInt(e.Int, 10))
		}
	}
	a.rest = strings.Join(parts, " ")
	return a
}
