package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/diff"
	"github.com/headgate-io/headgate/policy/grammar"
)

func policyDiffCommand() *cobra.Command {
	var word string
	cmd := &cobra.Command{
		Use:   "diff old.yaml new.yaml",
		Short: "Show what an edit of a file changes, and what happens to the units consumed",
		Long: `For every policy that differs, it prints the limits that are new, gone, renamed or
changed, and what happens to their counters. --change is the CHANGE of
RL.POLICY SET and LOAD: for limits with new numbers, consumed units stay
(keep), the consumed share stays (proportional), or counters begin at zero (reset).

It fails if a file is wrong, and if the change would be refused: another algorithm
takes --change reset, or another id.`,
		Example: `  headgate policy diff policies.yaml edited.yaml
  git show HEAD:policies.yaml | headgate policy diff - policies.yaml --change proportional`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			change, ok := diff.ParseChange(strings.ToLower(word))
			if !ok {
				return fmt.Errorf("unknown change %q, use keep, proportional or reset", word)
			}
			if args[0] == "-" && args[1] == "-" {
				return errOneInput
			}
			old, err := readPolicies(cmd, args[0])
			if err != nil {
				return err
			}
			edited, err := readPolicies(cmd, args[1])
			if err != nil {
				return err
			}
			return diffPolicies(cmd.OutOrStdout(), old, edited, change)
		},
	}
	cmd.Flags().StringVar(&word, "change", "keep", "`what` becomes of consumed units: keep, proportional or reset")
	return cmd
}

// diffPolicies writes the differences between two files.
func diffPolicies(out io.Writer, old, edited *policyFile, change diff.Change) error {
	var refused []error
	differ := false
	for _, rec := range old.records {
		is := edited.record(rec.Name)
		found := diff.Compare(rec, is)
		if is != nil && len(found) == 0 {
			continue
		}
		differ = true
		if is == nil {
			printGone(out, rec)
			continue
		}
		fmt.Fprintln(out, title(rec))
		printDifferences(out, found, change)
		if rec.Kind == policy.PolicyRecord {
			if _, err := diff.Revise(rec, nil, is, change); err != nil {
				refused = append(refused, fmt.Errorf("%s: %w", title(rec), err))
			}
		}
	}
	for _, rec := range edited.records {
		if old.record(rec.Name) == nil {
			differ = true
			fmt.Fprintf(out, "%s is new\n", title(rec))
			printDifferences(out, diff.Compare(nil, rec), change)
		}
	}
	if !differ {
		fmt.Fprintln(out, "nothing changes")
	}
	return errors.Join(refused...)
}

// record returns the record with a name, or nil.
func (f *policyFile) record(name string) *policy.Record {
	for _, rec := range f.records {
		if rec.Name == name {
			return rec
		}
	}
	return nil
}

// title returns a record's kind and name, for people.
func title(rec *policy.Record) string {
	switch rec.Kind {
	case policy.AttributesRecord:
		return "attributes"
	case policy.RoutesRecord:
		return strings.Replace(rec.Name, "/", " ", 1)
	case policy.ListRecord:
		return "list " + strings.TrimPrefix(rec.Name, "lists/")
	}
	return "policy " + rec.Name
}

// printGone prints a record that is missing in the new file.
func printGone(out io.Writer, rec *policy.Record) {
	fmt.Fprintf(out, "%s is gone\n", title(rec))
	fmt.Fprintf(out, "  a node whose parameter policies names the file deletes it; RL.POLICY LOAD keeps it, RL.POLICY DEL %s deletes it\n", rec.Name)
}

// printDifferences writes the differences of one record. After the differences of a limit,
// it writes what happens to the limit's counters.
func printDifferences(out io.Writer, found []diff.Difference, change diff.Change) {
	for len(found) > 0 {
		n := 1
		for n < len(found) && ofLimit(&found[n]) != "" && ofLimit(&found[n]) == ofLimit(&found[0]) {
			n++
		}
		for i := range found[:n] {
			fmt.Fprintf(out, "  %s\n", inWords(&found[i]))
		}
		if fate := countersFate(found[:n], change); fate != "" {
			fmt.Fprintf(out, "    %s\n", fate)
		}
		found = found[n:]
	}
}

// ofLimit returns the name that a limit has after the edit. It returns "" if the difference
// is not about a limit that stays.
func ofLimit(d *diff.Difference) string {
	rest, ok := strings.CutPrefix(d.Path, "limits.")
	switch name, _, isField := strings.Cut(rest, "."); {
	case !ok:
		return ""
	case isField:
		return name
	case isRenamed(d):
		return d.New
	}
	return ""
}

// isRenamed reports whether the difference is the name of a limit.
func isRenamed(d *diff.Difference) bool {
	return d.Old != "" && d.New != "" && d.Path == "limits."+d.Old
}

// inWords returns a difference as text.
func inWords(d *diff.Difference) string {
	name, isLimit := strings.CutPrefix(d.Path, "limits.")
	name, field, isField := strings.Cut(name, ".")
	what := d.Path
	switch {
	case isLimit && isField:
		what = "limit " + name + ": " + strings.Replace(field, ".", " ", 1)
	case isLimit && isRenamed(d):
		return "limit " + d.Old + " is now called " + d.New
	case isLimit:
		what = "limit " + name
	}
	switch {
	case d.Old == "":
		return what + " is new: " + d.New
	case d.New == "":
		return what + " is gone: " + d.Old
	}
	return what + ": " + d.Old + " -> " + d.New
}

// countersFate returns what happens to the counters of a limit, or of a whole record,
// because of these differences.
func countersFate(found []diff.Difference, change diff.Change) string {
	first := &found[0]
	var most grammar.Effect
	for i := range found {
		if strings.HasSuffix(found[i].Path, ".id") && ofLimit(&found[i]) != "" {
			most = grammar.NewKeys // the limit has a new id, so there are no counters under it
			break
		}
		most = max(most, found[i].Effect)
	}
	switch most {
	case grammar.NewKeys:
		return "counters have other keys: they begin empty, and the old ones expire"
	case grammar.NewKind:
		if change == diff.ChangeReset {
			return "counters begin at zero"
		}
		return "refused: another algorithm, period or calendar takes CHANGE reset, or another id"
	case grammar.NewNumbers:
		return [...]string{
			diff.ChangeKeep:         "counters stay: what was consumed stays, in units",
			diff.ChangeProportional: "counters stay: what was consumed stays, as a share of the limit",
			diff.ChangeReset:        "counters begin at zero",
		}[change]
	}
	switch {
	case strings.HasPrefix(first.Path, "limits.") && ofLimit(first) == "" && first.New == "":
		return "its counters expire by themselves"
	case isRenamed(first):
		return "counters stay, since the id does"
	}
	return ""
}
