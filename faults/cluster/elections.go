package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"
)

// Elections returns when leaders began to serve, as the nodes have logged it, by their wall clocks.
func (c *Cluster) Elections() ([]time.Time, error) {
	var times []time.Time
	var errs error
	for _, n := range c.Nodes {
		err := n.logLines(func(at time.Time, msg string) {
			if msg == "serving as leader" {
				times = append(times, at)
			}
		})
		errs = errors.Join(errs, err)
	}
	slices.SortFunc(times, time.Time.Compare)
	return times, errs
}

// logLines reads what the process has logged so far.
func (p *Process) logLines(f func(at time.Time, msg string)) error {
	log, err := os.Open(p.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Time time.Time `json:"time"`
			Msg  string    `json:"msg"`
		}
		// A crash leaves lines of another form.
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			f(line.Time, line.Msg)
		}
	}
	return lines.Err()
}
