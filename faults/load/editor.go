package load

import (
	"bufio"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// EditorConfig describes an editor.
type EditorConfig struct {
	Policies []history.Policy
	Nodes    int
	Dial     func(node int) string // address to reach a node at now
	Epoch    time.Time
	Seed     uint64
	Every    time.Duration // from one edit to the next, on average
	Timeout  time.Duration // of one command

	// Amounts chooses the amounts of a version, Caller somebody of a policy's who calls
	// now, and Overridden the amount of an override for one.
	Amounts    func(p *history.Policy, rnd *rand.Rand) []int32
	Caller     func(p *history.Policy, rnd *rand.Rand, at time.Duration) *history.Caller
	Overridden func(p *history.Policy, rnd *rand.Rand) int32
}

// Editor changes policies and overrides, one change after another, as a careful client
// does. Each version is for the one before it (IF). After a change without an answer it
// reads the policy before it makes the next one, and notes what became of the change if
// that shows.
type Editor struct {
	cfg   EditorConfig
	rnd   *rand.Rand
	quit  chan struct{}
	done  sync.WaitGroup
	pause atomic.Bool
	// busy is held while a change is made.
	busy sync.Mutex

	edits []history.Edit
	seen  []history.Sight
	node  int
	marks int
	known map[string]uint64 // the version of each policy
	look  map[string]bool   // policies that have to be read before the next edit

	// open are the overrides, by policy and user, of which an edit is open: there are
	// no further ones. unread are those of these edits that are to be read once.
	open   map[string]bool
	unread []int
}

// NewEditor returns an editor that has put the first version of each policy.
func NewEditor(cfg EditorConfig) (*Editor, error) {
	e := &Editor{
		cfg: cfg, rnd: rand.New(rand.NewPCG(cfg.Seed, 77)), quit: make(chan struct{}),
		known: make(map[string]uint64), look: make(map[string]bool), open: make(map[string]bool),
	}
	for i := range cfg.Policies {
		p := &cfg.Policies[i]
		for range setTries {
			if e.set(p); e.known[p.Name] != 0 {
				break
			}
			time.Sleep(setPause)
		}
		if e.known[p.Name] != 1 {
			return nil, fmt.Errorf("policy %s was not set", p.Name)
		}
	}
	return e, nil
}

// Start begins to make changes.
func (e *Editor) Start() { e.done.Go(e.run) }

// Pause waits for the change that is under way, and makes no more until Resume.
func (e *Editor) Pause() {
	e.pause.Store(true)
	e.busy.Lock()
	defer e.busy.Unlock()
}

// Resume ends a pause.
func (e *Editor) Resume() { e.pause.Store(false) }

// Stop ends the changes.
func (e *Editor) Stop() {
	close(e.quit)
	e.done.Wait()
}

// Into adds the changes to h, after Stop.
func (e *Editor) Into(h *history.History) {
	h.Policies, h.Edits, h.Seen = e.cfg.Policies, e.edits, e.seen
}

func (e *Editor) run() {
	for {
		select {
		case <-e.quit:
			return
		case <-time.After(time.Duration((0.5 + e.rnd.Float64()) * float64(e.cfg.Every))):
		}
		e.busy.Lock()
		if !e.pause.Load() {
			e.edit()
		}
		e.busy.Unlock()
	}
}

// edit makes a random change.
func (e *Editor) edit() {
	if len(e.unread) > 0 && e.readOverride(e.unread[0]) {
		e.unread = e.unread[1:]
	}
	p := &e.cfg.Policies[e.rnd.IntN(len(e.cfg.Policies))]
	if e.look[p.Name] && !e.Read(p.Name) {
		return
	}
	switch n := e.rnd.IntN(10); {
	case n < 5:
		e.set(p)
	case n < 6:
		e.rollback(p)
	default:
		e.override(p)
	}
}

func (e *Editor) now() int64 { return int64(time.Since(e.cfg.Epoch)) }

// set makes a new text the policy.
func (e *Editor) set(p *history.Policy) {
	amounts := e.cfg.Amounts(p, e.rnd)
	e.marks++
	change := "KEEP"
	resets := e.known[p.Name] > 0 && e.rnd.IntN(8) == 0
	if resets {
		change = "RESET"
		// Limits whose numbers stay keep their counts: all get others.
		for i, n := range e.amounts(p.Name) {
			if amounts[i] == n {
				amounts[i]++
			}
		}
	}
	base := e.known[p.Name]
	ed := history.Edit{Kind: history.SetPolicy, Policy: p.Name, Base: base, Text: policyText(p, amounts, e.marks), Amounts: amounts, Resets: resets}
	e.change(ed, "RL.POLICY", "SET", p.Name, "IF", strconv.FormatUint(base, 10), "CHANGE", change, ed.Text)
}

// rollback makes an earlier text the policy again.
func (e *Editor) rollback(p *history.Policy) {
	var earlier []history.Edit
	base := e.known[p.Name]
	current := ""
	for _, ed := range e.edits {
		if ed.Policy == p.Name && ed.Kind.OfVersion() && ed.Outcome == history.Admitted {
			if ed.Version == base {
				current = ed.Text
			}
			if ed.Version+10 > base { // which is kept
				earlier = append(earlier, ed)
			}
		}
	}
	if len(earlier) == 0 {
		return
	}
	to := earlier[e.rnd.IntN(len(earlier))]
	if to.Text == current {
		return // which would change nothing
	}
	ed := history.Edit{Kind: history.Rollback, Policy: p.Name, Base: base, Text: to.Text, Amounts: to.Amounts}
	e.change(ed, "RL.POLICY", "ROLLBACK", p.Name, strconv.FormatUint(to.Version, 10), "IF", strconv.FormatUint(base, 10))
}

// amounts are those of the version that the editor knows last.
func (e *Editor) amounts(name string) []int32 {
	for i := len(e.edits) - 1; i >= 0; i-- {
		if ed := &e.edits[i]; ed.Policy == name && ed.Kind.OfVersion() && ed.Outcome == history.Admitted && ed.Version == e.known[name] {
			return ed.Amounts
		}
	}
	return nil
}

// change sends an edit that makes a version.
func (e *Editor) change(ed history.Edit, args ...string) {
	reply := e.send(&ed, args...)
	if ed.Outcome == history.Admitted {
		ed.Acknowledged, ed.Version = true, uint64(reply.Int)
		e.known[ed.Policy] = ed.Version
	}
	e.edits = append(e.edits, ed)
	e.look[ed.Policy] = e.look[ed.Policy] || ed.Outcome == history.Unknown || strings.HasPrefix(reply.Error(), "VERSION")
}

// override sets, changes or ends an override for somebody who calls now.
func (e *Editor) override(p *history.Policy) {
	who := e.cfg.Caller(p, e.rnd, time.Duration(e.now()))
	id := p.Name + " " + who.User
	if e.open[id] {
		return
	}
	ed := history.Edit{Kind: history.DeleteOverride, Policy: p.Name, User: who.User}
	about := []string{p.Name, "LIMIT", "user"}
	if e.rnd.IntN(4) > 0 {
		ed.Kind, ed.Amounts = history.SetOverride, []int32{e.another(p, who.User)}
		about = append(about, "RATE", rateText(ed.Amounts[0], p.Limits[0]))
		if e.rnd.IntN(3) == 0 {
			// Whole seconds, by the clock of the limits.
			until := time.Now().Add(time.Duration(1+e.rnd.IntN(4)) * time.Second).Unix()
			ed.Until = int64(time.Unix(until, 0).Sub(e.cfg.Epoch))
			about = append(about, "UNTIL", strconv.FormatInt(until, 10))
		}
	}
	verb := "SET"
	if ed.Kind == history.DeleteOverride {
		verb = "DEL"
	}
	e.send(&ed, append(append([]string{"RL.OVERRIDE", verb}, about...), "user", who.User)...)
	ed.Acknowledged = ed.Outcome == history.Admitted
	if ed.Outcome == history.Unknown {
		e.open[id] = true
		e.unread = append(e.unread, len(e.edits))
	}
	e.edits = append(e.edits, ed)
}

// another is an amount that no override of a user had.
func (e *Editor) another(p *history.Policy, user string) int32 {
	n := e.cfg.Overridden(p, e.rnd)
	for i := 0; i < len(e.edits); i++ {
		if ed := &e.edits[i]; ed.Kind == history.SetOverride && ed.Policy == p.Name && ed.User == user && ed.Amounts[0] == n {
			n, i = n+1, -1
		}
	}
	return n
}

// send sends a command of an edit once, and notes what became of it.
func (e *Editor) send(ed *history.Edit, args ...string) resp.Reply {
	ed.Start = e.now()
	reply, sent, err := e.ask(args...)
	ed.End = e.now()
	code, _, _ := strings.Cut(reply.Error(), " ")
	switch {
	case err == nil && code == "":
		ed.Outcome = history.Admitted
	case !sent || refusals[code] || code == "VERSION":
		ed.Outcome = history.Refused
	case err == nil && code == "ERR":
		ed.Outcome = history.Refused
		e.complain(ed, reply.Error())
	default:
		ed.Outcome = history.Unknown
	}
	return reply
}

// complain notes what is no answer to the edit: the history then has a version that
// nobody made.
func (e *Editor) complain(ed *history.Edit, text string) {
	e.seen = append(e.seen, history.Sight{At: ed.End, Policy: ed.Policy, Text: text})
}

// ask sends a command to the next node. sent is false if it certainly was not.
func (e *Editor) ask(args ...string) (reply resp.Reply, sent bool, err error) {
	addr := e.cfg.Dial(e.node % e.cfg.Nodes)
	e.node++
	if addr == "" {
		return reply, false, errors.New("no address")
	}
	nc, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return reply, false, err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(e.cfg.Timeout)); err != nil {
		return reply, false, err
	}
	if _, err := nc.Write(respclient.Append(respclient.Append(nil, "HELLO", "3"), args...)); err != nil {
		return reply, true, err
	}
	in := bufio.NewReader(nc)
	if _, err = respclient.Read(in); err == nil {
		reply, err = respclient.Read(in)
	}
	return reply, true, err
}

// Read reads which versions a policy has now, and what became of the edits of it
// that are open. It reports whether that could be read.
func (e *Editor) Read(name string) bool {
	reply, _, err := e.ask("RL.POLICY", "GET", name)
	if err != nil || reply.Error() != "" {
		return false
	}
	version := reply.Field("version")
	if version == nil {
		e.seen = append(e.seen, history.Sight{At: e.now(), Policy: name}) // it is gone
		return false
	}
	for v := e.known[name] + 1; v <= uint64(version.Int); v++ {
		reply, _, err := e.ask("RL.POLICY", "GET", name, "VERSION", strconv.FormatUint(v, 10))
		if err != nil || reply.Error() != "" {
			return false
		}
		text := ""
		if f := reply.Field("text"); f != nil {
			text = f.Str
		}
		e.sight(name, v, text)
	}
	e.look[name] = false
	return true
}

// sight notes a version that was read, and whose it is.
func (e *Editor) sight(name string, version uint64, text string) {
	now := e.now()
	e.seen = append(e.seen, history.Sight{At: now, Policy: name, Version: version, Text: text})
	for i := range e.edits {
		ed := &e.edits[i]
		if ed.Policy == name && ed.Kind.OfVersion() && ed.Outcome == history.Unknown && ed.Base+1 == version && ed.Text == text {
			ed.Outcome, ed.Version, ed.End = history.Admitted, version, now
			break
		}
	}
	e.known[name] = max(e.known[name], version)
}

// readOverride reads what became of an edit of an override that is open, and reports
// whether that could be read. A missing override may still come.
func (e *Editor) readOverride(at int) bool {
	ed := &e.edits[at]
	reply, _, err := e.ask("RL.OVERRIDE", "GET", ed.Policy, "LIMIT", "user", "user", ed.User)
	if err != nil || reply.Error() != "" {
		return false
	}
	there := ""
	if f := reply.Field("rate"); f != nil {
		there, _, _ = strings.Cut(f.Str, "/")
	}
	if ed.Kind == history.SetOverride && there == number(ed.Amounts[0]) {
		ed.Outcome, ed.End = history.Admitted, e.now()
		delete(e.open, ed.Policy+" "+ed.User)
	}
	return true
}
