package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/headgate-io/headgate/cluster"
	"github.com/headgate-io/headgate/cmd/headgate/config"
	"github.com/headgate-io/headgate/engine"
	"github.com/headgate-io/headgate/raftlog"
	"github.com/headgate-io/headgate/server"
)

// serveGroups is serve for a node that may learn late how many groups its cluster has. If
// the parameter does not say it, the node may have started with another number, before any
// address of join answered. It then starts again with the cluster's number.
func serveGroups(ctx context.Context, c config.Config, stderr io.Writer, ready func(context.Context, *listeners)) error {
	for {
		err := serve(ctx, c, stderr, ready)
		var other *raftlog.GroupsError
		if c.Groups > 0 || !errors.As(err, &other) {
			return err
		}
		c.Groups = other.Theirs
		log, _ := newLogger(stderr, &c)
		log.Info("the node starts again with its cluster's number of groups", "groups", c.Groups)
	}
}

// groupsOf returns how many groups this node has: the number of the cluster to which its
// data belongs, or the parameter, or the number of the cluster that it is about to join. A
// node without data asks the addresses of join for the last one; if none of them answers
// for a cluster, it has 1 group.
func groupsOf(ctx context.Context, c *config.Config, ports *listeners, files reloaders) (int, error) {
	if !c.Replicated() {
		return 1, nil
	}
	stored, err := raftlog.Groups(c.DataDir)
	if err != nil {
		return 0, err
	}
	switch {
	case stored > 0 && c.Groups > 0 && c.Groups != stored:
		return 0, fmt.Errorf("groups is %d, and the cluster of data-dir %s was founded with %d: set groups to %d, or leave it out", c.Groups, c.DataDir, stored, stored)
	case stored > 0:
		return stored, nil
	case c.Groups > 0:
		return c.Groups, nil
	}
	own := peerAddr(c, ports.peers)
	client := cluster.NewClient(cluster.Dialer(clientTLS(files.peers)), files.secrets())
	found := make([]int, len(c.Join))
	ctx, cancel := context.WithTimeout(ctx, askForGroups)
	defer cancel()
	var asked sync.WaitGroup
	for i, addr := range c.Join {
		if addr == own {
			continue
		}
		asked.Go(func() {
			if s, err := client.Status(ctx, addr); err == nil && s.ClusterID != "" {
				found[i] = max(s.Groups, 1) // 0 is a node of a build without groups
			}
		})
	}
	asked.Wait()
	return max(slices.Max(append(found, 1)), 1), nil
}

// makeEngines returns an engine for each group.
func makeEngines(c *config.Config, groups int) []*engine.Engine {
	return engine.NewEngines(engine.Config{
		Shards:        c.Shards,
		MaxBytes:      c.MaxMemory,
		Evict:         c.MaxMemoryPolicy == config.EvictReplenished,
		LogMaxEntries: c.LogMaxEntries,
		LeaseShare:    engine.LeaseShare(c.LeaseShare),
		TopK:          c.TopK,
	}, groups)
}

// clusterFronts returns the server's partitions in the form that the node calls.
func clusterFronts(front *server.Server) (fronts []cluster.Front) {
	for _, p := range front.Partitions() {
		fronts = append(fronts, p)
	}
	return fronts
}

// askForGroups bounds how long groupsOf waits for the addresses of join.
const askForGroups = time.Second
