// Package askers runs processes that ask for one limit by Headgate's own Go client, and
// reads what they were admitted. Their program is clients/compat/sdk/asker, which is not
// of this module, since the client is one of its own.
package askers

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// Scheme is how a process takes units.
type Scheme string

const (
	// Leases are those of the client.
	Leases Scheme = ""
	// Plain asks for each call.
	Plain Scheme = "plain"
	// Textbook takes blocks of Config.Block units by RL.LIMIT, and spends them within TTL.
	// Meanwhile the bucket refills fully.
	Textbook Scheme = "textbook"
)

// Config is what a process does.
type Config struct {
	Nodes   []string // addresses of the Redis protocol, the next one after a connection failed
	Key     string
	Policy  string // if it is set, it is asked instead, and Key is the attribute user
	Units   int64  // of the limit per Period
	Period  time.Duration
	Windows string        // fixed or sliding; empty: a bucket with a capacity of Units
	TTL     time.Duration // of blocks, 0 for the client's own
	Scheme  Scheme
	Block   int64         // of Textbook
	Clients int           // in the process, each with an id and connections of its own
	Rate    float64       // calls per second of each client
	Wave    time.Duration // 0: the calls come at random times; else see Waves
	For     time.Duration // then the process ends; 0: when its standard input does
	Warm    time.Duration // what is before is not in the Result
	Log     string        // file for a Log; empty: none
}

// Waves: of each wave, as of Now, the first three quarters have a tenth of the rate, and
// the last one has the rest. All processes have their waves at one time: they hold much
// when it begins, and spend it at once.
const (
	quietPart = 0.75
	quietRate = 0.1
)

// RateAt returns the rate of the calls at a time, and the time until it changes.
func (c *Config) RateAt(now int64) (rate float64, lasts time.Duration) {
	if c.Wave == 0 {
		return c.Rate, time.Second
	}
	at, quiet := time.Duration(now%int64(c.Wave)), time.Duration(quietPart*float64(c.Wave))
	if at < quiet {
		return quietRate * c.Rate, quiet - at
	}
	return c.Rate * (1 - quietPart*quietRate) / (1 - quietPart), c.Wave - at
}

// Result is what a process prints at its end.
type Result struct {
	Asked, Admitted int64
	Errors          int64
	Sent            int64         // commands to the server
	Local           int64         // admitted from a lease
	Worst           time.Duration // of a call
}

// Now returns the time of a clock that is the same in all processes, in ns.
func Now() int64 {
	var t unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &t) // does not fail
	return t.Nano()
}

// Build builds the program into dir, from the source tree that the working directory is
// in.
func Build(dir string) (bin string, err error) {
	mod, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	source := filepath.Join(filepath.Dir(strings.TrimSpace(string(mod))), "clients/compat/sdk")
	if bin, err = filepath.Abs(filepath.Join(dir, "asker")); err != nil {
		return "", err
	}
	if out, err := exec.Command("go", "build", "-C", source, "-o", bin, "./asker").CombinedOutput(); err != nil {
		return "", fmt.Errorf("build the asker: %w\n%s", err, out)
	}
	return bin, nil
}

// Process is a process that asks.
type Process struct {
	*subprocess.Process
	Config

	in  io.WriteCloser
	out strings.Builder
	err strings.Builder

	ended sync.Once
}

// Start starts a process.
func Start(bin string, c Config) (*Process, error) {
	do, err := json.Marshal(c)
	if err != nil {
		return nil, err
	}
	p := &Process{Config: c}
	cmd := subprocess.Command(bin, string(do))
	cmd.Stdout, cmd.Stderr = &p.out, &p.err
	if p.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	p.Process, err = subprocess.Start(cmd)
	return p, err
}

// SetUnits has the process ask with another limit.
func (p *Process) SetUnits(units int64) error {
	_, err := fmt.Fprintln(p.in, units)
	return err
}

// End lets the process return its leases and end, and waits for it. Without a Result it
// was killed.
func (p *Process) End() (r Result, err error) {
	p.ended.Do(func() { p.in.Close() })
	return p.Result()
}

// Result waits for the end of the process.
func (p *Process) Result() (r Result, err error) {
	if err := p.Wait(); err != nil {
		return r, fmt.Errorf("asker: %w\n%s", err, p.err.String())
	}
	return r, json.Unmarshal([]byte(p.out.String()), &r)
}

// Span is a time, as of Now.
type Span struct{ From, To int64 }

// Grant is a request for a lease and its reply.
type Grant struct {
	Span       // when it was sent, and answered
	Seq        int64
	Held       int64
	Need       int64
	OK         bool // NEED was allowed
	Granted    int64
	TTL        time.Duration
	Refill     int64
	RefillTime time.Duration
	Failed     bool // there was no reply, and nothing is known
}

// Log is what the clients of one process did, as far as it lived to write it.
type Log struct {
	Admitted []Span // calls of a unit, by their end
	Denied   []Span
	Errors   []Span
	Grants   []Grant // by when they were sent
	Returned []Span  // blocks
}

// Writer writes entries of a Log to a file, each in one write: what a process has written
// stays when it is killed.
type Writer struct {
	mu sync.Mutex
	f  *os.File
}

// NewWriter writes to a new file; an empty path is a Writer that writes nothing.
func NewWriter(path string) (*Writer, error) {
	if path == "" {
		return &Writer{}, nil
	}
	f, err := os.Create(path)
	return &Writer{f: f}, err
}

// Kinds of entries.
const (
	kindAdmitted = "a"
	kindDenied   = "d"
	kindError    = "e"
	kindGrant    = "g"
	kindReturn   = "r"
)

func (w *Writer) line(format string, args ...any) {
	if w.f == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, err := fmt.Fprintf(w.f, format+"\n", args...); err != nil {
		panic(err) // without its log the process proves nothing
	}
}

// Call notes a call.
func (w *Writer) Call(s Span, admitted bool, err error) {
	kind := kindDenied
	switch {
	case err != nil:
		kind = kindError
	case admitted:
		kind = kindAdmitted
	}
	w.line("%s %d %d", kind, s.From, s.To)
}

// Grant notes a request.
func (w *Writer) Grant(g Grant) {
	w.line(kindGrant+" %d %d %d %d %d %t %d %d %d %d %t", g.From, g.To, g.Seq, g.Held, g.Need, g.OK, g.Granted, g.TTL, g.Refill, g.RefillTime, g.Failed)
}

// Return notes that a block was given back.
func (w *Writer) Return(s Span) { w.line(kindReturn+" %d %d", s.From, s.To) }

// Read reads what a process has written. A last line that is not whole is left out.
func Read(path string) (*Log, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	l := &Log{}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		kind, rest, _ := strings.Cut(line, " ")
		var s Span
		if kind == kindGrant {
			var g Grant
			if _, err := fmt.Sscan(rest, &g.From, &g.To, &g.Seq, &g.Held, &g.Need, &g.OK, &g.Granted, (*int64)(&g.TTL), &g.Refill, (*int64)(&g.RefillTime), &g.Failed); err != nil {
				return nil, fmt.Errorf("%s: %q: %w", path, line, err)
			}
			l.Grants = append(l.Grants, g)
			continue
		}
		if _, err := fmt.Sscan(rest, &s.From, &s.To); err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, line, err)
		}
		switch kind {
		case kindAdmitted:
			l.Admitted = append(l.Admitted, s)
		case kindDenied:
			l.Denied = append(l.Denied, s)
		case kindError:
			l.Errors = append(l.Errors, s)
		case kindReturn:
			l.Returned = append(l.Returned, s)
		default:
			return nil, errors.New(path + ": " + line)
		}
	}
	slices.SortFunc(l.Grants, func(a, b Grant) int { return cmp.Compare(a.From, b.From) })
	return l, nil
}
