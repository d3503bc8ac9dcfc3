package compare

import (
	"bufio"
	"fmt"
	"net"
	"time"

	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

const (
	replyTimeout = 10 * time.Second
	maxReply     = 64 << 20
)

// conn is a connection to one server.
type conn struct {
	net.Conn
	r *bufio.Reader
}

func dial(addr string) (*conn, error) {
	c, err := net.DialTimeout("tcp", addr, replyTimeout)
	if err != nil {
		return nil, err
	}
	return &conn{c, bufio.NewReader(c)}, nil
}

// send writes commands.
func (c *conn) send(commands ...[]string) error {
	var b []byte
	for _, args := range commands {
		b = respclient.Append(b, args...)
	}
	if err := c.SetDeadline(time.Now().Add(replyTimeout)); err != nil {
		return err
	}
	_, err := c.Write(b)
	return err
}

// receive reads one reply as it is on the wire.
func (c *conn) receive() ([]byte, error) { return resp.AppendReply(nil, c.r, maxReply) }

// do executes one command.
func (c *conn) do(args ...string) ([]byte, error) {
	if err := c.send(args); err != nil {
		return nil, err
	}
	return c.receive()
}

// must executes a command whose failure ends the run.
func (c *conn) must(args ...string) error {
	reply, err := c.do(args...)
	if err == nil && reply[0] == '-' {
		err = fmt.Errorf("%s", reply)
	}
	if err != nil {
		return fmt.Errorf("%s: %w", args[0], err)
	}
	return nil
}
