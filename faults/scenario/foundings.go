package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
)

const (
	// founders is bootstrap-expect, and processes how many nodes are started, with all addresses in join.
	founders  = 3
	processes = 5
	// spread is the time in which they are started.
	spread = time.Second
)

// foundings starts nodes for the first time, at random times, again and again: each time one cluster must result, with all
// of them.
func foundings(r *Run) error {
	for i := range r.Rounds {
		dir := filepath.Join(r.Dir, fmt.Sprintf("founding%d", i+1))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		cfg := cluster.Config{Bin: r.Bin, Dir: dir, Nodes: processes, Founders: founders, Args: r.Args}
		for range processes {
			cfg.After = append(cfg.After, time.Duration(r.rnd.Int64N(int64(spread))))
		}
		c, err := cluster.New(cfg)
		if err == nil {
			err = c.AwaitSettled(recovery)
		}
		if err == nil {
			var ids []string
			for _, n := range c.Nodes {
				s, e := c.Status(n)
				if err = e; err != nil {
					break
				}
				if len(ids) == 0 || ids[0] != s.ClusterID {
					ids = append(ids, s.ClusterID)
				}
			}
			r.expect(len(ids) == 1, "founding", "started after %v: clusters %s", cfg.After, strings.Join(ids, ", "))
		}
		if err != nil {
			r.expect(false, "founding", "started after %v: %v", cfg.After, err)
		}
		c.Close()
	}
	return nil
}
