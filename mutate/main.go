package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	only := flags.String("only", "", "run the mutations whose package, declaration or what they break matches this `pattern`, a regular expression")
	sample := flags.Int("sample", 0, "run this `number` of them, others each day (default: all)")
	fit := flags.Bool("check", false, "run none, and list each edit or test that is missing in the sources")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := load(lists)
	if err != nil {
		return err
	}
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	all = slices.DeleteFunc(all, func(m Mutation) bool { return !pattern.MatchString(m.Name()) })
	if len(all) == 0 {
		return fmt.Errorf("no mutation matches %q", *only)
	}
	if *fit {
		return check(root, all)
	}
	if *sample > 0 && *sample < len(all) {
		fmt.Fprintf(out, "%d of %d mutations\n", *sample, len(all))
		all = choose(all, *sample, int(time.Now().Unix()/86400))
	}
	dir, err := os.MkdirTemp("", "headgate-mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return runAll(ctx, newRunner(root, dir), all, out)
}

// choose returns n of the mutations, mixed: others each day, until all have had
// their turn.
func choose(all []Mutation, n, day int) []Mutation {
	turns := rand.New(rand.NewPCG(0, 0)).Perm(len(all))
	chosen := make([]Mutation, n)
	for i := range chosen {
		chosen[i] = all[turns[(day*n+i)%len(all)]]
	}
	return chosen
}

// runAll runs the mutations, as many at a time as there are processors, and
// tells of each.
func runAll(ctx context.Context, r *runner, all []Mutation, out io.Writer) error {
	begin := time.Now()
	var mu sync.Mutex // guards alive and the output
	alive := 0
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for _, m := range all {
		if ctx.Err() != nil {
			break
		}
		g.Go(func() error {
			one := time.Now()
			err := r.run(ctx, &m)
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				fmt.Fprintf(out, "killed %5.1fs  %s\n", time.Since(one).Seconds(), m.Name())
			} else if ctx.Err() == nil {
				alive++
				fmt.Fprintf(out, "ERROR          %s (%s in %s): %v\n", m.Name(), m.Killed, m.TestPackage, err)
			}
			return nil
		})
	}
	_ = g.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d mutants killed, %v\n", len(all)-alive, len(all), time.Since(begin).Round(time.Second))
	if alive > 0 {
		return errors.New("not every mutant was killed")
	}
	return nil
}
