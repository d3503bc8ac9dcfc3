package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// errAlive is the error of a run with a mutant that was not killed.
var errAlive = errors.New("not every mutant was killed")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Stdout)
	stop()
	switch {
	case err == nil:
	case errors.Is(err, errAlive):
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	only := flags.String("only", "", "run the mutations whose file or what they break matches this `pattern`, a regular expression")
	sample := flags.Int("sample", 0, "run so many of them, chosen at random (default: all)")
	seed := flags.Uint64("seed", 0, "seed of the choice (default: the number of the day, so that a run can be repeated)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	all, err := load(lists)
	if err != nil {
		return err
	}
	root, err := moduleRoot()
	if err != nil {
		return err
	}
	if err := check(root, all); err != nil {
		return fmt.Errorf("the lists do not fit the sources:\n%w", err)
	}
	pattern, err := regexp.Compile(*only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	chosen := slices.DeleteFunc(slices.Clone(all), func(m Mutation) bool { return !pattern.MatchString(m.Name()) })
	if len(chosen) == 0 {
		return fmt.Errorf("no mutation's file, or what it breaks, matches %q", *only)
	}
	if *sample > 0 && *sample < len(chosen) {
		if *seed == 0 {
			*seed = uint64(time.Now().Unix() / 86400)
		}
		fmt.Fprintf(out, "%d of %d mutations, seed %d\n", *sample, len(chosen), *seed)
		chosen = choose(chosen, *sample, *seed)
	}
	dir, err := os.MkdirTemp("", "headgate-mutate")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	return runAll(ctx, newRunner(root, dir), chosen, out)
}

// moduleRoot returns the directory of the module that the working directory is
// in.
func moduleRoot() (string, error) {
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		return "", fmt.Errorf("find the module: %w", err)
	}
	file := strings.TrimSpace(string(out))
	if filepath.Base(file) != "go.mod" {
		return "", errors.New("find the module: the working directory is in none")
	}
	return filepath.Dir(file), nil
}

// choose returns n of the mutations, in their order.
func choose(all []Mutation, n int, seed uint64) []Mutation {
	at := rand.New(rand.NewPCG(seed, 0)).Perm(len(all))[:n]
	slices.Sort(at)
	chosen := make([]Mutation, n)
	for i := range at {
		chosen[i] = all[at[i]]
	}
	return chosen
}

// runAll runs the mutations, as many at a time as there are processors, and
// tells of each.
func runAll(ctx context.Context, r *runner, all []Mutation, out io.Writer) error {
	begin := time.Now()
	var mu sync.Mutex // guards alive and the output
	alive := 0
	work := make(chan *Mutation)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for m := range work {
				one := time.Now()
				err := r.run(ctx, m)
				mu.Lock()
				if err == nil {
					fmt.Fprintf(out, "killed %5.1fs  %s\n", time.Since(one).Seconds(), m.Name())
				} else {
					alive++
					fmt.Fprintf(out, "ERROR          %s (%s in %s): %v\n", m.Name(), m.Killed, m.Package, err)
				}
				mu.Unlock()
			}
		})
	}
	for i := range all {
		if ctx.Err() != nil {
			break
		}
		work <- &all[i]
	}
	close(work)
	wg.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	fmt.Fprintf(out, "%d of %d mutants killed, %v\n", len(all)-alive, len(all), time.Since(begin).Round(time.Second))
	if alive > 0 {
		return fmt.Errorf("%w: %d of %d", errAlive, alive, len(all))
	}
	return nil
}
