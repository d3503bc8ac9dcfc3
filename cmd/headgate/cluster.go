package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cmd/headgate/certs"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/cmd/headgate/secret"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/peer"
)

// clusterFlags say how the cluster commands reach a node.
type clusterFlags struct {
	peer    string
	timeout time.Duration
	json    bool
	dataDir string
	secret  string
	tls     certs.Files
}

const defaultTimeout = 10 * time.Second

// clusterCommand groups the commands that look after a cluster.
func clusterCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cluster",
		Short: "Look after a cluster: status, members, leadership, clock, disaster recovery",
		Long: "All commands but recover ask a running node, at its peer port (--peer). Any node of\n" +
			"the cluster will do: it passes on what only the leader can do. They prove the\n" +
			"secret that the nodes have: --peer-secret-file, or --data-dir for the one in there.",
	}
	f := &clusterFlags{tls: certs.Files{Parameters: "peer-tls"}}
	flags := cmd.PersistentFlags()
	flags.StringVar(&f.peer, "peer", "127.0.0.1:7381", "peer-listen `address` of the node to ask")
	flags.DurationVar(&f.timeout, "timeout", defaultTimeout, "how long to wait for an answer; with replace, how long to wait for its end")
	flags.BoolVar(&f.json, "json", false, "print JSON; durations in it are nanoseconds")
	flags.StringVar(&f.dataDir, "data-dir", "", "`path` of the asked node's data directory, for the peer.secret in it")
	flags.StringVar(&f.secret, "peer-secret-file", "", "`path` as for serve")
	flags.StringVar(&f.tls.Cert, "peer-tls-cert", "", "`path` as for serve, if the nodes use TLS")
	flags.StringVar(&f.tls.Key, "peer-tls-key", "", "`path` of its private key")
	flags.StringVar(&f.tls.CA, "peer-tls-ca", "", "`path` of the authority that signs the nodes' certificates")

	cmd.AddCommand(
		f.command("status", "Show the nodes as the asked node sees them", cobra.NoArgs, f.status),
		f.transferCommand(),
		f.snapshotCommand(),
		f.command("set-clock", "Move the cluster clock forward to the leader's wall clock; all limits refill by the difference", cobra.NoArgs, f.setClock),
		recoverCommand(),
	)
	cmd.AddCommand(f.memberCommands()...)
	return cmd
}

// clusterRun does a command's work with a client, and prints the result.
type clusterRun func(ctx context.Context, c *cluster.Client, out io.Writer, args []string) error

// command returns a command whose whole run must end within --timeout.
func (f *clusterFlags) command(use, short string, args cobra.PositionalArgs, run clusterRun) *cobra.Command {
	return f.long(use, short, args, func(ctx context.Context, c *cluster.Client, out io.Writer, args []string) error {
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		return run(ctx, c, out, args)
	})
}

// long returns a command that asks the node several times. --timeout bounds each question.
func (f *clusterFlags) long(use, short string, args cobra.PositionalArgs, run clusterRun) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: args, RunE: func(cmd *cobra.Command, args []string) error {
		client, err := f.client()
		if err != nil {
			return err
		}
		return f.explain(cmd.Context(), client, run(cmd.Context(), client, cmd.OutOrStdout(), args))
	}}
}

// explain adds to err a hint for the operator.
func (f *clusterFlags) explain(ctx context.Context, c *cluster.Client, err error) error {
	switch {
	case errors.Is(err, raftlog.ErrNotLeader):
		ctx, cancel := context.WithTimeout(ctx, f.timeout)
		defer cancel()
		if s, unknown := c.Status(ctx, f.peer); unknown == nil && s.Removed {
			return fmt.Errorf("%s: %s %w", f.peer, s.NodeID, cluster.ErrRemoved)
		}
		return fmt.Errorf("%s: no leader is known (the answer was: %w)", f.peer, err)
	case errors.Is(err, peer.ErrSecret) && f.secretFile() == "":
		return fmt.Errorf("%w; give --peer-secret-file, or the --data-dir of a node on this machine, which holds its peer.secret", err)
	case errors.Is(err, raftlog.ErrNoAnswer) && f.tls.CA == "":
		return fmt.Errorf("%w; is this the peer port of a node? If the nodes use TLS, give --peer-tls-cert, --peer-tls-key and --peer-tls-ca", err)
	case errors.Is(err, raftlog.ErrNoAnswer):
		return fmt.Errorf("%w; is this the peer port of a node, do the nodes use TLS, and does each side trust the other's certificate?", err)
	}
	return err
}

// secretFile returns the file of the secret that nodes share, in the same way as serve
// finds it; "" if there is none.
func (f *clusterFlags) secretFile() string {
	if f.secret == "" && f.dataDir != "" && f.tls.CA == "" {
		return filepath.Join(f.dataDir, secret.FileName)
	}
	return f.secret
}

func (f *clusterFlags) client() (*cluster.Client, error) {
	if err := errors.Join(config.CheckPeerTLS(f.tls.Cert, f.tls.Key, f.tls.CA), checkDataDir(f.dataDir)); err != nil {
		return nil, err
	}
	discard := slog.New(slog.DiscardHandler)
	var files reloaders
	var err error
	if name := f.secretFile(); name != "" {
		if files.secret, err = secret.Open(name, discard); err != nil {
			return nil, err
		}
	}
	if f.tls.CA != "" {
		if files.peers, err = certs.New(f.tls, discard); err != nil {
			return nil, err
		}
	}
	return cluster.NewClient(cluster.Dialer(clientTLS(files.peers)), files.secrets()), nil
}

// act returns the run of a command that prints only that it has succeeded.
func (f *clusterFlags) act(done string, run func(context.Context, *cluster.Client, []string) error) clusterRun {
	return func(ctx context.Context, c *cluster.Client, out io.Writer, args []string) error {
		if err := run(ctx, c, args); err != nil {
			return err
		}
		if f.json {
			return printJSON(out, map[string]string{"result": done})
		}
		_, err := fmt.Fprintln(out, done)
		return err
	}
}

// transferCommand moves the leadership of one group.
func (f *clusterFlags) transferCommand() *cobra.Command {
	group := -1
	cmd := f.command("transfer [node-id]", "Hand the leadership of a group over, to the named node or to the one most caught up", cobra.MaximumNArgs(1),
		f.act("transferred", func(ctx context.Context, c *cluster.Client, args []string) error {
			s, err := c.Status(ctx, f.peer)
			switch {
			case err != nil:
				return err
			case group < 0 && s.Groups > 1:
				return fmt.Errorf("the cluster has %d groups: name one with --group", s.Groups)
			case group >= max(s.Groups, 1):
				return fmt.Errorf("--group %d: the cluster has the groups 0 to %d", group, max(s.Groups, 1)-1)
			}
			return c.Of(max(group, 0)).Transfer(ctx, f.peer, append(args, "")[0])
		}))
	cmd.Flags().IntVar(&group, "group", -1, "`number` of the group; it may be left out if there is only one")
	return cmd
}

// setClock sets the clocks of all groups. The other groups follow the clock of group 0, so
// what is printed is how far that one has moved.
func (f *clusterFlags) setClock(ctx context.Context, c *cluster.Client, out io.Writer, _ []string) error {
	var set cluster.ClockSet
	err := c.Each(ctx, f.peer, f.timeout, func(group int, c *cluster.Client) error {
		s, err := c.SetClock(ctx, f.peer)
		if group == 0 {
			set = s
		}
		return err
	})
	if err != nil {
		return err
	}
	if f.json {
		return printJSON(out, set)
	}
	_, err = fmt.Fprintf(out, "the cluster clock has moved forward by %v to %s\n", set.Moved, set.Now.UTC().Format(time.RFC3339Nano))
	return err
}

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
