package load

import (
	"errors"
	"fmt"
	"time"
)

// Config describes one run.
type Config struct {
	// Addr is the server's host:port.
	Addr string
	// Clients is the number of connections.
	Clients int
	// Pipeline is how many commands are written at once. In an open loop that
	// many arrive at the same instant.
	Pipeline int
	// Command is the command and its arguments; see Placeholder.
	Command []string
	// Keys is the number of distinct keys, at most 10^12.
	Keys uint64
	// Sequential counts through the keys, over all connections together, instead of
	// drawing them at random. With Count equal to Keys every key is used once.
	Sequential bool
	// Rate is the number of commands that arrive per second over all
	// connections; 0 means a closed loop.
	Rate float64
	// Warmup is how long to send before the measurement starts.
	Warmup time.Duration
	// Duration is the length of the measurement.
	Duration time.Duration
	// Count ends a closed loop after so many commands, before Duration is
	// over; 0 means no such end.
	Count int64
	// Drain is how long to wait for missing replies after the last command;
	// 0 means 5 s.
	Drain time.Duration
	// Password is sent with AUTH on every connection unless it is empty.
	Password string
	// Seed makes the sequence of keys repeatable.
	Seed uint64
}

// validate reports the first setting that makes no run, and fills in Drain.
func (c *Config) validate() error {
	switch {
	case c.Addr == "":
		return errors.New("addr: missing")
	case c.Clients < 1 || c.Clients > 100_000:
		return fmt.Errorf("clients: %d is not between 1 and 100000", c.Clients)
	case c.Pipeline < 1 || c.Pipeline > 10_000:
		return fmt.Errorf("pipeline: %d is not between 1 and 10000", c.Pipeline)
	case len(c.Command) == 0:
		return errors.New("command: missing")
	case c.Keys < 1 || c.Keys > maxKeys:
		return fmt.Errorf("keys: %d is not between 1 and %d", c.Keys, int64(maxKeys))
	case !(c.Rate >= 0) || c.Rate > 1e9:
		return fmt.Errorf("rate: %g is not between 0 and 1e9 per second", c.Rate)
	case c.Duration <= 0:
		return fmt.Errorf("duration: %s is not positive", c.Duration)
	case c.Count < 0 || (c.Count > 0 && c.Rate > 0):
		return fmt.Errorf("count: %d is negative, or in an open loop", c.Count)
	case c.Warmup < 0:
		return fmt.Errorf("warmup: %s is negative", c.Warmup)
	}
	if c.Drain <= 0 {
		c.Drain = 5 * time.Second
	}
	return nil
}
