// Command difftest sends random sequences of commands to redis-server, the
// oracle, and to Headgate, and compares every reply and every stored value.
//
//	go run ./difftest -for 1h
//	go run ./difftest -seed 7 -sequences 1
//	go run ./difftest -groups hashes,tx
//
// A difference that no row of compare.Documented allows is executed again. If it is still
// there, it is shrunk to a short sequence and printed with its seed. The exit status is 1
// if there was one, and 2 if nothing could be compared.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/difftest/compare"
	"github.com/headgate-io/headgate/difftest/sequence"
	"github.com/headgate-io/headgate/internal/hgtest"
	"github.com/headgate-io/headgate/internal/redisserver"
)

// errDifferent is the error of a run that found a difference.
var errDifferent = errors.New("the servers differ")

func main() {
	err := run(os.Args[1:], os.Stdout)
	hgtest.Clean()
	switch {
	case err == nil:
	case errors.Is(err, errDifferent):
		os.Exit(1)
	default:
		fmt.Fprintln(os.Stderr, "difftest:", err)
		os.Exit(2)
	}
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("difftest", flag.ContinueOnError)
	var o options
	flags.DurationVar(&o.length, "for", time.Minute, "run for this `long`; -sequences ends it earlier")
	flags.IntVar(&o.sequences, "sequences", 0, "`number` of sequences (default: as many as there is time for)")
	flags.Uint64Var(&o.seed, "seed", 0, "`seed` of the first sequence; those that follow count on from it (default: from the clock)")
	groups := flags.String("groups", "", "draw from these `groups` only, separated by commas: "+strings.Join(sequence.Groups(), ", "))
	list := flags.Bool("list", false, "print the documented differences and the commands, and end")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *list {
		printList(out)
		return nil
	}
	if *groups != "" {
		o.groups = strings.Split(*groups, ",")
		for _, name := range o.groups {
			if !slices.Contains(sequence.Groups(), name) {
				return fmt.Errorf("no group %q", name)
			}
		}
	}
	if o.seed == 0 {
		o.seed = uint64(time.Now().UnixNano()) % 1_000_000_000
	}
	oracle, err := startOracle()
	if err != nil {
		return err
	}
	defer func() { _ = oracle.Stop() }()           // a crash has been an error of the comparison
	headgate, err := hgtest.Start(hgtest.Config{}) // $HGTEST_BIN, or built from this tree
	if err != nil {
		return err
	}
	defer func() { _ = headgate.Stop() }() // as above
	return fuzz(oracle.Addr, headgate.Addr, o, out)
}

// startOracle starts redis-server. Its hashes keep the order of their fields,
// as Headgate's do, whatever their size.
func startOracle(args ...string) (*redisserver.Server, error) {
	return redisserver.Start("", append([]string{"--hash-max-listpack-entries", "100000", "--hash-max-listpack-value", "1048576"}, args...)...)
}

func printList(out io.Writer) {
	fmt.Fprintln(out, "Documented differences:")
	for _, d := range compare.Documented {
		fmt.Fprintf(out, "  %s\n      %s\n", strings.Join(d.Commands, " "), d.Reason)
	}
	fmt.Fprintf(out, "Commands:\n  %s\n", strings.Join(sequence.Commands(), " "))
}
