package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/raftlog/member"
)

func recoverCommand() *cobra.Command {
	var voters []string
	cmd := &cobra.Command{
		Use:   "recover",
		Short: "Make a stopped node the start of a new cluster, after the majority is lost for good",
		Long: "recover makes what this node has in its data directory the committed state of a cluster\n" +
			"of its own, when the other nodes' data is lost for good. The node must be stopped. Give\n" +
			"it the flags, environment and file that serve gets: data-dir, node-id, peer-listen or\n" +
			"peer-advertise. Then start it with serve, wipe the data directories of the other nodes,\n" +
			"and start those: they join.\n\n" +
			"Never run it while another node of the cluster may come back with its data: two clusters\n" +
			"would give every budget twice.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			loaded, err := config.Load(cmd.Flags(), os.Environ())
			if err != nil {
				return err
			}
			c := &loaded.Config
			if !c.Replicated() {
				return errors.New("recover needs data-dir")
			}
			if err := checkDataDir(c.DataDir); err != nil {
				return err
			}
			log, _ := newLogger(cmd.ErrOrStderr(), c)
			addr := c.PeerAdvertise
			if addr == "" {
				addr = c.PeerListen
			}
			peers, err := parseVoters(voters, member.Voter{ID: c.Node(), Addr: addr})
			if err != nil {
				return err
			}
			if err := cluster.Recover(c.Node(), c.DataDir, addr, peers, log); err != nil {
				return err
			}
			out := cmd.OutOrStdout()
			fmt.Fprintf(out, "%s holds a cluster of %d; start it with serve\n", c.DataDir, len(peers))
			for _, p := range peers {
				fmt.Fprintf(out, "voter %s at %s\n", p.ID, p.Addr)
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVar(&voters, "voter", nil, "node-id=peer-address of a voter of the new cluster, this node included; by default this node alone")
	addConfigFlags(cmd)
	return cmd
}

// parseVoters reads the values of --voter. Without values, self is the only voter. self
// must have the address that its configuration says.
func parseVoters(voters []string, self member.Voter) (peers []member.Voter, err error) {
	if len(voters) == 0 {
		return []member.Voter{self}, nil
	}
	for _, v := range voters {
		id, addr, ok := strings.Cut(v, "=")
		if !ok {
			return nil, fmt.Errorf("--voter %s: want node-id=peer-address", v)
		}
		if err := errors.Join(member.CheckNodeID(id), config.CheckPeerAddress(addr)); err != nil {
			return nil, fmt.Errorf("--voter %s: %w", v, err)
		}
		if id == self.ID && addr != self.Addr {
			return nil, fmt.Errorf("--voter %s: the address of this node is %s, from its peer-listen or peer-advertise", v, self.Addr)
		}
		peers = append(peers, member.Voter{ID: id, Addr: addr})
	}
	return peers, nil
}
