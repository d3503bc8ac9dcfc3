package load

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
)

// maxAsked bounds the calls of one write of Ask.
const maxAsked = 100

// Ask sends calls with one key to addr at once, not by a plan, and fills in what became of them. A call that was not decided
// is an error. Epoch and Key of cfg are used, and Timeout for the whole.
func Ask(addr string, cfg Config, calls []history.Call) error {
	nc, err := net.DialTimeout("tcp", addr, dialTimeout)
	if err != nil {
		return err
	}
	defer nc.Close()
	if err := nc.SetDeadline(time.Now().Add(cfg.Timeout)); err != nil {
		return err
	}
	in := bufio.NewReader(nc)
	for len(calls) > 0 {
		some := calls[:min(maxAsked, len(calls))]
		calls = calls[len(some):]
		var out []byte
		now := int64(time.Since(cfg.Epoch))
		for i := range some {
			c := &some[i]
			c.Due, c.Start = now+int64(i), now // a call's id is from when it was due
			out = Encode(out, c, cfg.Key(c), history.Key{})
		}
		if _, err := nc.Write(out); err != nil {
			return err
		}
		for i := range some {
			c := &some[i]
			reply, err := respclient.Read(in)
			for range Preceding(c, cfg.Key(c)) {
				if err == nil {
					reply, err = respclient.Read(in)
				}
			}
			if err != nil {
				return err
			}
			c.End = int64(time.Since(cfg.Epoch))
			if code := classify(c, &reply, cfg.Key(c)); code != "" {
				return fmt.Errorf("%s: %s", cfg.Key(c).Name, code)
			}
		}
	}
	return nil
}

// How often, and after which pause, a node is asked to set a policy of the load.
const (
	setTries = 20
	setPause = 100 * time.Millisecond
)

// setPolicy sets a policy of the load at addr. It tries again while the node finds no leader,
// as happens when the groups of a busy machine have just begun.
func setPolicy(addr string, timeout time.Duration, name, text string) error {
	var err error
	for range setTries {
		_, err = respclient.Do(addr, timeout, "RL.POLICY", "SET", name, text)
		if err == nil || !strings.HasPrefix(err.Error(), "CLUSTERDOWN") {
			break
		}
		time.Sleep(setPause)
	}
	if err != nil {
		return fmt.Errorf("policy %s was not set: %w", name, err)
	}
	return nil
}
