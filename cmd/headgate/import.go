package main

import (
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/policy"
	"github.com/headgate-io/headgate/policy/grammar"
)

// importCommand groups the commands that read configurations of other limiters.
func importCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Turn the configuration of another limiter into policies",
	}
	cmd.AddCommand(importEnvoyCommand())
	return cmd
}

func importEnvoyCommand() *cobra.Command {
	var merge bool
	cmd := &cobra.Command{
		Use:   "envoy config.yaml...",
		Short: "Turn files of Envoy's rate limit service into policies",
		Long: `Files of envoyproxy/ratelimit become a file of policies, one for each domain, in
the dialect of that service, and decide as it does. The file is printed as
RL.POLICY LOAD takes it, and the differences are on standard error; "-" is the
standard input. Nothing is printed if a file is wrong.`,
		Example: `  headgate import envoy config/*.yaml > policies.yaml
  redis-cli -p 7379 -x RL.POLICY LOAD < policies.yaml`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			records, err := readEnvoy(cmd, args, merge)
			if err != nil {
				return err
			}
			text := grammar.FileText(records)
			if _, err := grammar.ParseFile("the import", []byte(text)); err != nil {
				return err
			}
			reportEnvoy(cmd.ErrOrStderr(), records)
			_, err = io.WriteString(cmd.OutOrStdout(), text)
			return err
		},
	}
	cmd.Flags().BoolVar(&merge, "merge", false, "make one policy of files of one domain, as MERGE_DOMAIN_CONFIG does")
	return cmd
}

// readEnvoy reads configuration files of Envoy's rate limit service. It prints the errors
// of invalid files, and returns an error that says how many there are.
func readEnvoy(cmd *cobra.Command, names []string, merge bool) (records []*policy.Record, err error) {
	wrong := 0
	tell := func(err error) error {
		var errs *policy.Errors
		if !errors.As(err, &errs) {
			return err
		}
		for _, e := range errs.List {
			fmt.Fprintln(cmd.ErrOrStderr(), e)
		}
		wrong += len(errs.List) + errs.More
		return nil
	}
	for _, name := range names {
		text, err := readText(cmd, name)
		if err != nil {
			return nil, err
		}
		rec, err := grammar.ParseEnvoy(name, text)
		if err != nil {
			if err := tell(err); err != nil {
				return nil, err
			}
			continue
		}
		i := slices.IndexFunc(records, func(r *policy.Record) bool { return r.Name == rec.Name })
		switch {
		case i < 0:
			records = append(records, rec)
		case !merge:
			return nil, fmt.Errorf("%s: domain %s is in another file too: to make one policy of both, use --merge", name, rec.Name)
		default:
			both, err := grammar.Merge(records[i], rec)
			if err != nil {
				if err := tell(err); err != nil {
					return nil, err
				}
				continue
			}
			records[i] = both
		}
	}
	if wrong > 0 {
		return nil, fmt.Errorf("%s, nothing is imported", several(wrong, "error"))
	}
	return records, nil
}

// reportEnvoy prints what was imported, and how it differs from Envoy's service.
func reportEnvoy(out io.Writer, records []*policy.Record) {
	for _, rec := range records {
		u := grammar.UseOf(rec)
		fmt.Fprintf(out, "%s: %s, %s\n", rec.Name, several(u.Descriptors, "descriptor"), several(u.Limits, "limit"))
		for _, x := range []struct {
			n    int
			what string
		}{
			{u.Silent, "without requests_per_unit, which is 0 and denies every call"},
			{u.Quota, "in quota_mode: a request is denied if all of its quotas are exceeded; older releases of the service never deny by a quota"},
			{u.Months, "in months or years, which are 30 and 365 days, as in the service; a policy with limits can have calendar months"},
			{u.Metrics, "with values in metrics: a policy has 100 such values at most; calls with further values count for their limit"},
		} {
			if x.n > 0 {
				fmt.Fprintf(out, "  %s %s\n", several(x.n, "descriptor"), x.what)
			}
		}
	}
	fmt.Fprint(out, `what differs from the service:
  LOCAL_CACHE_SIZE_IN_BYTES and STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT have no counterpart: each request is decided by its counters
  SHADOW_MODE and QUOTA_MODE of all limits are not imported: shadow_mode and quota_mode of a descriptor are
  names of statsd have no counterpart: metrics have the labels policy and limit, and a descriptor's limit is named by its path
  counters begin at 0: their values are not imported
  while no node can decide, on_failure of the policy or the server decides the answer, in addition to Envoy's failure_mode_deny
`)
}
