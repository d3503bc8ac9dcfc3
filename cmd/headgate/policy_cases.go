package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/policycases"
	"github.com/headgate-io/headgate/policy"
)

func policyTestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "test file.yaml cases.yaml",
		Short: "Run your own test cases against a file of policies, on a simulated clock",
		Long: `Each case begins with empty counters, and its calls are decided as RL.CHECK decides
them, at the times that the case says: a case about a day takes no time. For a call
that is not as expected, it prints the state of each limit. The exit status is 1
if a case fails.

docs/policy-tests.md has the keys of cases.`,
		Example: "  headgate policy test policies.yaml cases.yaml",
		Args:    cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			if args[0] == "-" && args[1] == "-" {
				return errOneInput
			}
			f, err := readPolicies(cmd, args[0])
			if err != nil {
				return err
			}
			text, err := readText(cmd, args[1])
			if err != nil {
				return err
			}
			cases, err := policycases.Parse(args[1], text)
			if err != nil {
				return err
			}
			return runCases(cmd.OutOrStdout(), f, args[1], cases)
		},
	}
}

var errOneInput = errors.New("only one of the files can be the standard input")

// runCases runs cases and prints the result of each.
func runCases(out io.Writer, f *policyFile, file string, cases []policycases.Case) error {
	failed := 0
	for i := range cases {
		c := &cases[i]
		calls, failure, err := policycases.Run(f.records, c)
		if err != nil {
			return err
		}
		if failure == nil {
			fmt.Fprintf(out, "ok    %s (%s)\n", c.Name, several(calls, "call"))
			continue
		}
		failed++
		fmt.Fprintf(out, "FAIL  %s\n", c.Name)
		printFailure(out, file, c, failure)
	}
	if failed > 0 {
		return fmt.Errorf("%d of %s failed", failed, several(len(cases), "case"))
	}
	fmt.Fprintf(out, "%s, all ok\n", several(len(cases), "case"))
	return nil
}

// printFailure prints the call that was not answered as expected.
func printFailure(out io.Writer, file string, c *policycases.Case, f *policycases.Failure) {
	s := f.Step
	fmt.Fprintf(out, "      %s:%d: at %s, %s", file, s.Line, policy.FormatDuration(int64(s.At)), c.Start.Add(s.At).Format(time.RFC3339Nano))
	if s.Times > 1 {
		fmt.Fprintf(out, ", call %d of %d", f.Call, s.Times)
	}
	fmt.Fprintf(out, ":\n      %s\n", s)
	for _, d := range f.Differs {
		fmt.Fprintf(out, "        %s\n", d)
	}
	if len(f.Limits) > 0 {
		fmt.Fprintln(out, "      the limits say:")
	}
	for _, l := range f.Limits {
		fmt.Fprintf(out, "        %s\n", l)
	}
}
