package scenario

import (
	"bufio"
	"errors"
	"net"
	"strconv"
	"time"

	"github.com/headgate-io/headgate/faults/cluster"
	"github.com/headgate-io/headgate/internal/respclient"
)

// bulkBatch is how many keys are written at once.
const bulkBatch = 500

// preload writes keys that no load uses. A leader that is overtaken by so much may lose its office; the next one goes on.
func (r *Run) preload(n int) error {
	var err error
	for i, deadline := 0, time.Now().Add(5*recovery); i < n && time.Now().Before(deadline); {
		var leader *cluster.Node
		if leader, err = r.leader(); err != nil {
			return err
		}
		i, err = preload(leader.Addr, i, n)
	}
	return err
}

// preload writes the keys from i to n on one connection, and returns how far it came.
func preload(addr string, i, n int) (int, error) {
	c, err := net.Dial("tcp", addr)
	if err != nil {
		return i, err
	}
	defer c.Close()
	in := bufio.NewReader(c)
	var out []byte
	for ; i < n; i += bulkBatch {
		out = out[:0]
		for j := i; j < i+bulkBatch; j++ {
			out = respclient.Append(out, "RL.LIMIT", "bulk:"+strconv.Itoa(j), "10", "1d", "ALGORITHM", "fixed", "ALIGN", "first")
		}
		c.SetDeadline(time.Now().Add(recovery))
		if _, err := c.Write(out); err != nil {
			return i, err
		}
		for range bulkBatch {
			reply, err := respclient.Read(in)
			if err == nil && reply.Error() != "" {
				err = errors.New(reply.Error())
			}
			if err != nil {
				return i, err
			}
		}
	}
	return n, nil
}
