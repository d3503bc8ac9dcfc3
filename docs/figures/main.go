// Command figures draws the pictures of the documentation. Those of docs/algorithms.md
// show what each algorithm does to the same calls, decided by the engine in simulated
// time. The others are diagrams of boxes and arrows.
//
//	go run ./docs/figures [directory]
package main

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/engine/algo"
)

//go:generate go run . ../img

func main() {
	dir := filepath.Join("docs", "img")
	if len(os.Args) > 1 {
		dir = os.Args[1]
	}
	if err := write(dir); err != nil {
		fmt.Fprintln(os.Stderr, "figures:", err)
		os.Exit(1)
	}
}

func write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, draw := range pictures() {
		svg, err := draw()
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".svg"), svg, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pictures returns what draws each picture, by the name of its file.
func pictures() map[string]func() ([]byte, error) {
	all := map[string]func() ([]byte, error){}
	for _, f := range figures() {
		all[f.name] = f.draw
	}
	for _, d := range diagrams() {
		all[d.name] = d.draw
	}
	return all
}

// Every limit is of this size, and every picture of this length.
const (
	limit  = 10
	period = 10 * time.Second
	length = 30 * time.Second
	// hold is the ttl of the slots of the concurrency limit.
	hold = 4 * time.Second
)

// start is where the pictures begin: a multiple of the period since 1970, so
// that windows aligned to the epoch begin at 0, 10 and 20 s.
const start = int64(1_800_000_000 * time.Second)

// arrivals are the times of the calls: nothing for 8 s, then ten calls a second
// for 4 s, over the edge of a window, then four a second.
func arrivals() []time.Duration {
	var at []time.Duration
	for t := 8 * time.Second; t < length; {
		at = append(at, t)
		if t < 12*time.Second {
			t += 100 * time.Millisecond
		} else {
			t += 250 * time.Millisecond
		}
	}
	return at
}

// call is one call and its outcome. runs is when an admitted call proceeds.
type call struct {
	at, runs time.Duration
	ok       bool
}

// figure is one picture.
type figure struct {
	name, title string
	// measure names the lower curve: the units that ran within span before
	// each moment.
	measure string
	span    time.Duration
	decide  func(s *engine.Session, now int64) (algo.Decision, error)
}

var key = []byte("user:42")

func figures() []figure {
	under := func(a algo.Algorithm) func(*engine.Session, int64) (algo.Decision, error) {
		l := algo.Limit{Algorithm: a, Limit: limit, Period: int64(period)}
		return func(s *engine.Session, now int64) (algo.Decision, error) {
			return s.Decide(now, key, l, 1, &algo.Options{})
		}
	}
	last := fmt.Sprintf("admitted in the last %.0f s", period.Seconds())
	per := fmt.Sprintf("%d per %.0f s", limit, period.Seconds())
	return []figure{
		{"token", "token, " + per, last, period, under(algo.Token)},
		{"leaky", "leaky, " + per, fmt.Sprintf("put out in the last %.0f s", period.Seconds()), period, under(algo.Leaky)},
		{"fixed", "fixed, " + per, last, period, under(algo.Fixed)},
		{"sliding", "sliding, " + per, last, period, under(algo.Sliding)},
		{"log", "log, " + per, last, period, under(algo.Log)},
		{
			"slots", fmt.Sprintf("RL.ACQUIRE, %d at a time, each for %.0f s", limit, hold.Seconds()), "held", hold,
			func(s *engine.Session, now int64) (algo.Decision, error) {
				d, _, err := s.Acquire(now, key, limit, int64(hold), nil, 1)
				return d, err
			},
		},
	}
}

// run makes the calls.
func (f *figure) run() ([]call, error) {
	s := engine.New(engine.Config{}).NewSession()
	defer s.Close()
	var calls []call
	for _, at := range arrivals() {
		d, err := f.decide(s, start+int64(at))
		if err != nil {
			return nil, err
		}
		calls = append(calls, call{at: at, runs: at + time.Duration(d.Delay), ok: d.OK})
	}
	return calls, nil
}
