package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/difftest/sequence"
)

// Pair is two servers that ought to say the same. Everything that they hold is
// removed at the beginning of each sequence.
type Pair struct {
	oracle, subject *conn // for what is done between sequences
	addrs           [2]string
	common          map[string]bool // commands that both have, in upper case
	databases       int
}

// Failure is a difference that is documented nowhere.
type Failure struct {
	// Step is the position of the command, or the number of steps if what is
	// stored at the end differs.
	Step int
	// What is the command's name, or what of the state differs.
	What string
	// Oracle and Subject are the two replies.
	Oracle, Subject string
}

func (f *Failure) String() string {
	return fmt.Sprintf("%s\n  oracle:  %s\n  subject: %s", f.What, f.Oracle, f.Subject)
}

// Connect connects to two servers and asks which commands they have.
func Connect(oracle, subject string) (*Pair, error) {
	p := &Pair{addrs: [2]string{oracle, subject}, databases: 1}
	var err error
	if p.oracle, err = dial(oracle); err != nil {
		return nil, err
	}
	if p.subject, err = dial(subject); err != nil {
		p.oracle.Close()
		return nil, err
	}
	if err := p.learn(); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

// Close closes the connections.
func (p *Pair) Close() {
	p.oracle.Close()
	p.subject.Close()
}

// learn finds out what both servers have.
func (p *Pair) learn() error {
	var have [2][]string
	for i, c := range []*conn{p.oracle, p.subject} {
		reply, err := c.do("COMMAND", "LIST")
		if err != nil {
			return err
		}
		list, ok := elements(reply)
		if !ok {
			return fmt.Errorf("COMMAND LIST: %s", reply)
		}
		for _, e := range list {
			have[i] = append(have[i], strings.ToUpper(text(e)))
		}
	}
	p.common = map[string]bool{}
	for _, name := range have[0] {
		p.common[name] = slices.Contains(have[1], name)
	}
	reply, err := p.subject.do("SELECT", "1")
	if err != nil {
		return err
	}
	if reply[0] == '+' {
		p.databases = 16
	}
	return nil
}

// text returns a bulk or simple string without its frame.
func text(reply []byte) string {
	if reply[0] == '$' {
		_, reply, _ = bytes.Cut(reply, []byte("\n"))
		return string(reply[:max(0, len(reply)-2)])
	}
	return string(reply[1 : len(reply)-2])
}

// Has reports whether both servers have a command, in upper case, and more than
// one database if it needs them.
func (p *Pair) Has(command string) bool {
	if (command == "SELECT" || command == "MOVE" || command == "COPY") && p.databases == 1 {
		return false
	}
	return p.common[command]
}

// Common returns the commands that both servers have, in upper case.
func (p *Pair) Common() []string {
	var names []string
	for name, both := range p.common {
		if both {
			names = append(names, name)
		}
	}
	return names
}

// run is a sequence on its way.
type run struct {
	*Pair
	steps  []sequence.Step
	conns  [2][sequence.Conns]*conn
	queued [sequence.Conns][][]string // commands of a transaction
	waited bool                       // for keys to expire, or written such as have
}

// Run executes a sequence on both servers and returns the first difference, or
// nil. An error means that the oracle could not be asked.
func (p *Pair) Run(steps []sequence.Step) (*Failure, error) {
	if failure, err := p.reset(); failure != nil || err != nil {
		return failure, err
	}
	r := &run{Pair: p, steps: steps}
	defer r.close()
	for i, addr := range p.addrs {
		for n := range r.conns[i] {
			var err error
			if r.conns[i][n], err = dial(addr); err != nil {
				return nil, err
			}
		}
	}
	for at := 0; at < len(steps); {
		end := at + 1
		for end < len(steps) && steps[end].Joined && steps[end].Conn == steps[at].Conn && !steps[at].Scan && len(steps[at].Args) > 0 {
			end++
		}
		failure, err := r.batch(at, end)
		if failure != nil || err != nil {
			return failure, err
		}
		at = end
	}
	return r.state()
}

// reset empties both servers.
func (p *Pair) reset() (*Failure, error) {
	for i, c := range []*conn{p.oracle, p.subject} {
		err := c.must("FLUSHALL")
		if err == nil && p.Has("SCRIPT") {
			err = c.must("SCRIPT", "FLUSH")
		}
		if err != nil && i == 1 {
			return &Failure{What: "reset", Subject: err.Error()}, nil
		}
		if err != nil {
			return nil, err
		}
	}
	return nil, nil
}

func (r *run) close() {
	for _, conns := range r.conns {
		for _, c := range conns {
			if c != nil {
				c.Close()
			}
		}
	}
}

// batch executes the steps of one write, or a wait, or a scan.
func (r *run) batch(at, end int) (*Failure, error) {
	first := &r.steps[at]
	if len(first.Args) == 0 {
		time.Sleep(first.Wait)
		r.waited = true
		return nil, nil
	}
	oracle, subject := r.conns[0][first.Conn], r.conns[1][first.Conn]
	if first.Scan {
		a, err := scan(oracle, first)
		if err != nil {
			return nil, fmt.Errorf("oracle: %v: %w", first, err)
		}
		b, err := scan(subject, first)
		return r.judge(at, first.Args, a, b, err), nil
	}
	now := time.Now()
	var commands [][]string
	for i := at; i < end; i++ {
		args := r.steps[i].Resolve(now)
		r.waited = r.waited || slices.ContainsFunc(args, func(a string) bool { return strings.EqualFold(a, "EXAT") || strings.EqualFold(a, "PXAT") })
		commands = append(commands, args)
	}
	if err := oracle.send(commands...); err != nil {
		return nil, fmt.Errorf("oracle: %w", err)
	}
	lost := subject.send(commands...)
	for i, args := range commands {
		a, err := oracle.receive()
		if err != nil {
			return nil, fmt.Errorf("oracle: %v: %w", &r.steps[at+i], err)
		}
		var b []byte
		if lost == nil {
			b, lost = subject.receive()
		}
		if f := r.judge(at+i, args, a, b, lost); f != nil {
			return f, nil
		}
	}
	return nil, nil
}

// judge compares two replies of a step. lost is why the subject sent none.
func (r *run) judge(at int, args []string, oracle, subject []byte, lost error) *Failure {
	s := &r.steps[at]
	if lost == nil && r.agree(s, args, oracle, subject) {
		return nil
	}
	f := &Failure{Step: at, What: s.Name(), Oracle: show(oracle), Subject: show(subject)}
	if lost != nil {
		f.Subject = lost.Error()
	}
	return f
}

// agree reports whether two replies are equal but for documented differences,
// those of each command of a transaction included.
func (r *run) agree(s *sequence.Step, args []string, oracle, subject []byte) bool {
	queue := &r.queued[s.Conn]
	if string(oracle) == "+QUEUED\r\n" {
		*queue = append(*queue, args)
	}
	switch s.Name() {
	case "EXEC":
		commands := *queue
		*queue = nil
		a, ok := elements(oracle)
		b, ok2 := elements(subject)
		if !ok || !ok2 || len(a) != len(commands) || len(b) != len(a) || oracle[0] != subject[0] {
			return bytes.Equal(oracle, subject)
		}
		for i := range a {
			if !same(commands[i], a[i], b[i], r.waited) {
				return false
			}
		}
		return true
	case "DISCARD", "RESET":
		*queue = nil
	}
	return same(args, oracle, subject, r.waited)
}
