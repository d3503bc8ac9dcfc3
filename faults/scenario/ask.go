package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// do executes one command on a node, patiently. Right after a failover it may need a second try, so executing it twice
// must change nothing.
func (r *Run) do(n *cluster.Node, args ...string) (resp.Reply, error) {
	var reply resp.Reply
	var err error
	for deadline := time.Now().Add(failover); time.Now().Before(deadline); time.Sleep(100 * time.Millisecond) {
		if reply, err = respclient.Do(n.Addr, patience, args...); err == nil {
			return reply, nil
		}
	}
	return reply, fmt.Errorf("%s on %s: %w", strings.Join(args, " "), n.Name, err)
}

// once executes one command on a node that must not be executed twice: it is sent again only where it certainly was not.
func (r *Run) once(n *cluster.Node, args ...string) (resp.Reply, error) {
	var reply resp.Reply
	var err error
	for deadline := time.Now().Add(failover); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		reply, err = respclient.Do(n.Addr, patience, args...)
		if err == nil || !strings.HasPrefix(reply.Error(), "CLUSTERDOWN") && !strings.HasPrefix(reply.Error(), "TRYAGAIN") {
			break
		}
	}
	return reply, err
}

// used is what a fixed window of a day, from its first use, has consumed, read with a limit above what it can be.
func (r *Run) used(n *cluster.Node, key string) (int64, error) {
	const above = 1_000_000
	reply, err := r.do(n, "RL.LIMIT", key, strconv.Itoa(above), "1d", "ALGORITHM", "fixed", "ALIGN", "first", "COST", "0")
	if err != nil {
		return 0, err
	}
	if len(reply.Elems) < 3 {
		return 0, fmt.Errorf("peek at %s: %d elements", key, len(reply.Elems))
	}
	return above - reply.Elems[2].Int, nil
}

// info reads a number from a node's INFO.
func info(n *cluster.Node, section, field string) (int64, error) {
	reply, err := respclient.Do(n.Addr, patience, "INFO", section)
	if err != nil {
		return 0, err
	}
	_, after, ok := strings.Cut(reply.Str, "\r\n"+field+":")
	text, _, _ := strings.Cut(after, "\r\n")
	v, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return 0, fmt.Errorf("INFO %s of %s: no %s", section, n.Name, field)
	}
	return v, nil
}
