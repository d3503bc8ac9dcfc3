// Package respclient is a client of the Redis protocol without retries, pools
// or pushes. It sends every call once, and returns what became of it.
package respclient

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/headgate-io/headgate/resp"
)

// maxReply bounds a reply in bytes: no Headgate sends a longer one unasked.
const maxReply = 1 << 20

// Read reads one reply.
func Read(r *bufio.Reader) (resp.Reply, error) { return resp.ReadReply(r, maxReply) }

// Append appends a command to b.
func Append(b []byte, args ...string) []byte { return resp.AppendCommand(b, args) }

// Do connects to addr, executes one command within the timeout, and
// returns its reply. Error replies are errors.
func Do(addr string, timeout time.Duration, args ...string) (resp.Reply, error) {
	c, err := net.DialTimeout("tcp", addr, timeout)
	if err != nil {
		return resp.Reply{}, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(timeout)); err != nil {
		return resp.Reply{}, err
	}
	if _, err := c.Write(Append(nil, args...)); err != nil {
		return resp.Reply{}, err
	}
	r, err := Read(bufio.NewReader(c))
	if err != nil {
		return resp.Reply{}, fmt.Errorf("%s: %w", strings.Join(args, " "), err)
	}
	if text := r.Error(); text != "" {
		return r, errors.New(text)
	}
	return r, nil
}
