package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/headgate-io/headgate/difftest/compare"
	"github.com/headgate-io/headgate/difftest/sequence"
)

// options says what is run, and for how long.
type options struct {
	length    time.Duration
	sequences int // 0 is no bound
	seed      uint64
	groups    []string
}

// length is how many commands a sequence has.
const length = 200

// shrinkFor bounds the time that one difference is shrunk.
const shrinkFor = 30 * time.Second

// fuzz compares two servers, and returns errDifferent if they differ.
func fuzz(oracle, subject string, o options, out io.Writer) error {
	pair, err := compare.Connect(oracle, subject)
	if err != nil {
		return err
	}
	defer func() { pair.Close() }()
	var missing []string
	for _, name := range sequence.Commands() {
		if !pair.Has(name) && name != "NOSUCHCOMMAND" {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		fmt.Fprintf(out, "not compared, since one of the servers lacks them: %s\n", strings.Join(missing, " "))
	}
	f := &fuzzer{pair: pair, options: o, out: out, begin: time.Now()}
	for n := 0; (o.sequences == 0 || n < o.sequences) && time.Since(f.begin) <= o.length && !f.differ; n++ {
		if err := f.sequence(o.seed + uint64(n)); err != nil {
			return fmt.Errorf("seed %d: %w", o.seed+uint64(n), err)
		}
	}
	fmt.Fprintf(out, "%d sequences, %d commands in %v from seed %d\n",
		f.sequences, f.commands, time.Since(f.begin).Round(time.Second), o.seed)
	if f.once > 0 {
		fmt.Fprintf(out, "%d sequences differed once and not again\n", f.once)
	}
	if f.differ {
		return errDifferent
	}
	return nil
}

// fuzzer is a run, and what it has found.
type fuzzer struct {
	options
	pair  *compare.Pair
	out   io.Writer
	begin time.Time

	sequences, commands int
	once                int  // sequences whose difference did not show again
	differ              bool // ends the run
}

// sequence executes the sequence of a seed and prints what differs.
func (f *fuzzer) sequence(seed uint64) error {
	steps := sequence.New(seed, length, sequence.Options{Has: f.pair.Has, Groups: f.groups})
	failure, err := f.pair.Run(steps)
	f.sequences++
	f.commands += len(steps)
	if failure == nil || err != nil {
		return err
	}
	first := failure.What
	if failure, err = f.again(steps, first); err != nil {
		return err
	}
	if failure == nil {
		f.once++
		return nil
	}
	f.differ = true
	steps = steps[:min(failure.Step+1, len(steps))]
	deadline := time.Now().Add(shrinkFor)
	steps = sequence.Shrink(steps, func(steps []sequence.Step) bool {
		if err != nil || time.Now().After(deadline) {
			return false
		}
		var now *compare.Failure
		now, err = f.again(steps, first)
		if now != nil {
			failure = now
		}
		return now != nil
	})
	if err != nil {
		return err
	}
	fmt.Fprintf(f.out, "\nseed %d: %v\n", seed, failure)
	for i := range steps {
		fmt.Fprintf(f.out, "    %v\n", &steps[i])
	}
	fmt.Fprintln(f.out)
	return nil
}

// again executes a sequence twice and returns the difference if it shows both
// times, in the same command.
func (f *fuzzer) again(steps []sequence.Step, what string) (failure *compare.Failure, err error) {
	for range 2 {
		if failure, err = f.pair.Run(steps); err != nil || failure == nil || failure.What != what {
			return nil, err
		}
	}
	return failure, nil
}
