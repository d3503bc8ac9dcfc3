package main

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// policyCommand groups the commands about files of policies.
func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, compare and test files of policies, without a server",
		Long: `The commands read files that RL.POLICY LOAD takes, with policies, attributes and
lists; "-" is the standard input. They ask no server. The exit status is 1 if
something is wrong.`,
	}
	cmd.AddCommand(policyCheckCommand(), policyDiffCommand(), policyTestCommand())
	return cmd
}

func policyCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check file.yaml",
		Short: "Report the errors of a file of policies, and what in it has no effect",
		Long: `Every error is a line, file:line:column: path: text. Warnings name what has no
effect, such as an override after one that always matches first; they do not
fail.`,
		Example: "  headgate policy check policies.yaml",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := readPolicies(cmd, args[0])
			if err != nil {
				return err
			}
			for _, rec := range f.records {
				for _, w := range grammar.Warnings(rec, f.set.Attributes()) {
					fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", w)
				}
			}
			for _, w := range f.set.RouteWarnings() {
				fmt.Fprintf(cmd.ErrOrStderr(), "warning: %v\n", w)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %s, nothing is wrong\n", f.name, f.count())
			return nil
		},
	}
}

// policyFile is a valid file of policies.
type policyFile struct {
	name    string
	records []*policy.Record
	set     *policy.Set
}

// readPolicies reads and compiles a file. It prints the errors of an invalid file, and
// returns an error that says how many there are.
func readPolicies(cmd *cobra.Command, name string) (*policyFile, error) {
	f := &policyFile{name: name}
	text, err := readText(cmd, name)
	if err != nil {
		return nil, err
	}
	f.records, err = grammar.ParseFile(name, text)
	if err == nil {
		f.set, err = compilePolicies(f.records)
	}
	if err == nil {
		err = f.set.CheckRoutes()
	}
	var errs *policy.Errors
	if !errors.As(err, &errs) {
		return f, err
	}
	for _, e := range errs.List {
		fmt.Fprintln(cmd.ErrOrStderr(), e)
	}
	if errs.More > 0 {
		fmt.Fprintf(cmd.ErrOrStderr(), "and %d more\n", errs.More)
	}
	return nil, fmt.Errorf("%s: %s", name, several(len(errs.List)+errs.More, "error"))
}

// readText reads a file, or the standard input if name is "-". It reads one byte more than
// a file may have, so that a longer file is noticed.
func readText(cmd *cobra.Command, name string) ([]byte, error) {
	in := cmd.InOrStdin()
	if name != "-" {
		f, err := os.Open(name)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		in = f
	}
	return io.ReadAll(io.LimitReader(in, grammar.MaxFile+1))
}

// compilePolicies returns the set of a file's records. It hashes secret attributes with a
// key that no cluster uses.
func compilePolicies(records []*policy.Record) (*policy.Set, error) {
	e := policy.NewSet(policy.Config{Seed: maphash.MakeSeed(), Secret: []byte("headgate policy")}).Edit()
	for _, rec := range records {
		e.Set(rec, policy.Meta{})
	}
	return e.Finish(1)
}

// count returns a text that says how many policies and other records are in the file.
func (f *policyFile) count() string {
	limits := 0
	for _, name := range f.set.Names() {
		p := f.set.Policy([]byte(name))
		if limits += len(p.Limits); p.Descriptors() != nil {
			limits += len(p.Descriptors().Rules())
		}
	}
	counted := several(len(f.set.Names()), "policy") + " with " + several(limits, "limit")
	if n := len(f.routes()); n > 0 {
		counted += " and " + several(n, "set") + " of routes"
	}
	return counted
}

// routes returns the sets of routes in the file.
func (f *policyFile) routes() (sets []*policy.Routes) {
	for _, rec := range f.records {
		if r := rec.Routes; r != nil {
			sets = append(sets, r.Set)
		}
	}
	return sets
}

// several returns a text such as "2 limits". The thing's plural must end with s.
func several(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	if stem, ok := strings.CutSuffix(thing, "y"); ok {
		thing = stem + "ie"
	}
	return fmt.Sprintf("%d %ss", n, thing)
}
