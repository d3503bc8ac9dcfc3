package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/raftlog/member"
)

// memberCommands returns the commands that change the members of a cluster.
func (f *clusterFlags) memberCommands() []*cobra.Command {
	return []*cobra.Command{
		f.command("join <node-id> <peer-address>", "Add a node to the cluster. Unless it is a nonvoter, it gets a vote after it has kept up for a while",
			cobra.ExactArgs(2), f.act("joining", f.join)),
		f.removeCommand(),
		f.replaceCommand(),
		f.command("promote <node-id>", "Give a nonvoter its vote", cobra.ExactArgs(1), f.act("promoted", f.promote)),
	}
}

func (f *clusterFlags) join(ctx context.Context, c *cluster.Client, args []string) error {
	if err := checkMember(args[0], args[1]); err != nil {
		return err
	}
	return c.Each(ctx, f.peer, f.timeout, func(_ int, c *cluster.Client) error { return c.Join(ctx, f.peer, args[0], args[1]) })
}

// promote makes a node a voter. It refuses a node that is far behind, because such a voter
// would delay every commit until it has caught up.
func (f *clusterFlags) promote(ctx context.Context, c *cluster.Client, args []string) error {
	return c.Each(ctx, f.peer, f.timeout, func(_ int, c *cluster.Client) error {
		s, err := c.Status(ctx, f.peer)
		if err != nil {
			return err
		}
		for _, m := range s.Members {
			if m.ID == args[0] && (!m.Up || m.Lag > raftlog.PromoteLag) {
				return fmt.Errorf("node %s has not caught up (up: %t, %d entries behind); as a voter it would delay every commit", m.ID, m.Up, m.Lag)
			}
		}
		return c.Promote(ctx, f.peer, args[0])
	})
}

func (f *clusterFlags) removeCommand() *cobra.Command {
	var force bool
	cmd := f.command("remove <node-id>", "Remove a node from the cluster for good; stop the node afterwards", cobra.ExactArgs(1),
		func(ctx context.Context, c *cluster.Client, out io.Writer, args []string) error {
			done, err := c.RemoveNode(ctx, f.peer, args[0], force, f.timeout)
			switch {
			case err != nil && !force && errors.Is(err, raftlog.ErrQuorum):
				return fmt.Errorf("%w; start or replace the voters that do not answer (headgate cluster replace), or use --force to remove %s anyway", err, args[0])
			case err != nil:
				return err
			case f.json:
				return printJSON(out, struct {
					Result string `json:"result"`
					raftlog.Removal
				}{"removed", done})
			case done.Pending != "":
				_, err = fmt.Fprintf(out, "removed by force, not committed yet: %s\n", done.Pending)
			default:
				_, err = fmt.Fprintln(out, "removed")
			}
			return err
		})
	cmd.Long = "remove takes a node out of the cluster for good; stop it afterwards. A leader hands\n" +
		"leadership over first. The removal is refused if too few of the other voters answer:\n" +
		"nothing could be decided any more, not even to take the removal back."
	cmd.Flags().BoolVar(&force, "force", false, "remove the node even if too few of the remaining voters answer: the cluster then decides nothing until they answer")
	return cmd
}

func (f *clusterFlags) replaceCommand() *cobra.Command {
	var cmd *cobra.Command
	cmd = f.long("replace <node-id> <new-node-id> <new-peer-address>", "Replace a node, dead or alive, with a new node", cobra.ExactArgs(3),
		func(ctx context.Context, c *cluster.Client, out io.Writer, args []string) error {
			if err := checkMember(args[1], args[2]); err != nil {
				return err
			}
			tell := func(step string) { fmt.Fprintln(out, step) }
			if f.json {
				tell = func(string) {}
			}
			wait, answer := replaceTimeout, f.timeout
			if cmd.Flags().Changed("timeout") {
				wait, answer = f.timeout, min(f.timeout, defaultTimeout)
			}
			ctx, cancel := context.WithTimeoutCause(ctx, wait, errors.New("not finished in time; the finished steps stay, so run the command again to continue"))
			defer cancel()
			r := cluster.Replacement{Old: args[0], New: args[1], NewAddr: args[2], Timeout: answer, Tell: tell}
			if err := c.Replace(ctx, f.peer, r); err != nil {
				return err
			}
			if f.json {
				return printJSON(out, map[string]string{"result": "replaced"})
			}
			_, err := fmt.Fprintf(out, "%s is in the place of %s\n", args[1], args[0])
			return err
		})
	cmd.Long = "replace takes the new node in, waits until it has caught up and has a vote, if the old\n" +
		"one had, and removes the old one. Start the new node first, with the addresses of some\n" +
		"others in join. The old one may be dead, or lead. Interrupted at any moment the cluster\n" +
		"is sound; give the command again, and it goes on. Once the new node has its vote, only\n" +
		"the removal is left: headgate cluster remove. It takes 10 minutes at most, or --timeout."
	return cmd
}

// replaceTimeout bounds a replacement if --timeout is not set. A new node may have much to
// read before it has caught up.
const replaceTimeout = 10 * time.Minute

func checkMember(id, addr string) error {
	return errors.Join(member.CheckNodeID(id), config.CheckPeerAddress(addr))
}
