package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cmd/headgate/keycopy"
)

// copyInterval is the time between two reports of a copy's progress.
const copyInterval = time.Second

// copyNamed is how many keys are printed at most because they could not be copied.
const copyNamed = 1000

func copyCommand() *cobra.Command {
	var from, to string
	var cfg keycopy.Config
	cmd := &cobra.Command{
		Use:   "copy --from URL",
		Short: "Copy live keys from a Redis server to Headgate, or back",
		Long: `Copy the live keys of one database of a Redis server, with their times to live,
to a database of Headgate: strings, hashes, sorted sets, sets and lists.

Keys of other types, and values above Headgate's bounds, are not copied. They are
named on standard error, and the exit status is 1. A key expires at the same moment
at both ends, so the clocks of both machines should agree. A key that changes while
it is copied may arrive as it was before or after: stop its writers first, or copy
again with --replace.

To copy back, swap the URLs. Counters of Headgate's own commands, such as RL.LIMIT,
have a type that Redis does not have: they are named, and stay.`,
		Example: `  headgate copy --from redis://127.0.0.1:6379 --match 'rl:*'
  headgate copy --from rediss://user:secret@redis.example.com:6380/1 --to redis://127.0.0.1:7379/1 --replace
  headgate copy --from redis://127.0.0.1:7379 --to redis://127.0.0.1:6379 --match 'rl:*' --replace   # back`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return runCopy(cmd.Context(), cfg, from, to, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&from, "from", "", "`URL` of the source: redis://[user:password@]host:port[/database], or rediss:// for TLS")
	flags.StringVar(&to, "to", "redis://127.0.0.1:7379", "`URL` of the target")
	flags.StringVar(&cfg.Match, "match", "", "copy only keys that match this `pattern`, as of SCAN")
	flags.BoolVar(&cfg.Replace, "replace", false, "overwrite keys that the target has; without it they are kept")
	if err := cmd.MarkFlagRequired("from"); err != nil {
		panic(err)
	}
	return cmd
}

// runCopy copies the keys. It reports its progress on stderr and the totals on stdout.
func runCopy(ctx context.Context, cfg keycopy.Config, from, to string, stdout, stderr io.Writer) error {
	source, err := copyClient(from)
	if err != nil {
		return fmt.Errorf("from: %w", err)
	}
	defer source.Close()
	target, err := copyClient(to)
	if err != nil {
		return fmt.Errorf("to: %w", err)
	}
	defer target.Close()
	if err := source.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("source: %w", err)
	}
	if err := target.Ping(ctx).Err(); err != nil {
		return fmt.Errorf("target: %w", err)
	}
	cfg.From, cfg.To = source, target
	told := time.Now()
	cfg.Progress = func(t keycopy.Totals) {
		if time.Since(told) >= copyInterval {
			told = time.Now()
			fmt.Fprintf(stderr, "%d keys seen, %d copied\n", t.Seen(), t.Copied)
		}
	}
	named := 0
	cfg.Refused = func(key string, why error) {
		if named++; named <= copyNamed {
			fmt.Fprintf(stderr, "not copied: key %q: %v\n", key, why)
		}
	}
	t, err := keycopy.Copy(ctx, cfg)
	if named > copyNamed {
		fmt.Fprintf(stderr, "not copied: %d more keys\n", named-copyNamed)
	}
	fmt.Fprintf(stdout, "copied %d, kept %d that the target already had, %d expired or were deleted during the copy; not copied: %d of another type, %d too large, %d failed\n",
		t.Copied, t.Kept, t.Gone, t.Unsupported, t.TooLarge, t.Failed)
	switch {
	case err != nil:
		return err
	case t.Refused() > 0:
		return fmt.Errorf("%d of %d keys were not copied", t.Refused(), t.Seen())
	}
	return nil
}

// copyClient returns a client for a URL.
func copyClient(url string) (*redis.Client, error) {
	o, err := redis.ParseURL(url)
	if err != nil {
		return nil, err
	}
	o.Protocol = 2 // so that HGETALL keeps the server's order
	o.MaxRetries, o.DialerRetries = -1, 1
	o.ReadTimeout, o.WriteTimeout = time.Minute, time.Minute
	return redis.NewClient(o), nil
}
