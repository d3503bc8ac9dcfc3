package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/raftlog"
)

// snapshotCommand waits for the end of a snapshot. Meanwhile it reports that the snapshot
// is being written.
func (f *clusterFlags) snapshotCommand() *cobra.Command {
	var cmd *cobra.Command
	cmd = f.long("snapshot", "Have the asked node write a snapshot and shorten its log", cobra.NoArgs,
		func(ctx context.Context, c *cluster.Client, out io.Writer, _ []string) error {
			return c.Each(ctx, f.peer, f.timeout, func(_ int, c *cluster.Client) error {
				s, err := c.Snapshot(ctx, f.peer, f.timeout, func(s raftlog.SnapshotRun) {
					fmt.Fprintf(cmd.ErrOrStderr(), "the node has been writing a snapshot for %v; it continues if you stop this command\n", s.Took.Round(time.Second))
				})
				switch {
				case err != nil:
					return err
				case s.Error != "":
					return errors.New("snapshot: " + s.Error)
				case f.json:
					return printJSON(out, s)
				case s.Nothing:
					_, err = fmt.Fprintln(out, "there is nothing to write yet")
				default:
					_, err = fmt.Fprintf(out, "snapshot written, up to entry %d, in %v\n", s.Index, s.Took.Round(time.Millisecond))
				}
				return err
			})
		})
	return cmd
}
