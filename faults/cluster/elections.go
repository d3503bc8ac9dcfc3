package cluster

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"time"
)

// reign is a term in which a node leads a group.
type reign struct {
	group int
	term  uint64
	node  string
}

// Election is when a node began to lead a group, and which node had led it before.
type Election struct {
	Group  int
	At     time.Time
	Before string
}

// Elections returns when nodes began to lead a group by an election, as they have logged it, by their wall clocks. It
// leaves out the first leader of each group, and leaders to whom the leader before has handed the group over.
func (c *Cluster) Elections() ([]Election, error) {
	began := make(map[reign]time.Time)
	first := make(map[int]uint64) // term by group
	handed := make(map[reign]bool)
	var errs error
	for _, n := range c.Nodes {
		err := n.logLines(func(l *logLine) {
			switch l.Msg {
			case "serving as leader":
				began[reign{l.Group, l.Term, l.Node}] = l.Time
				if t := first[l.Group]; t == 0 || l.Term < t {
					first[l.Group] = l.Term
				}
			case "handing leadership over":
				handed[reign{l.Group, l.Term + 1, l.To}] = true
			}
		})
		errs = errors.Join(errs, err)
	}
	var list []Election
	for r, at := range began {
		if !handed[r] && r.term != first[r.group] {
			list = append(list, Election{r.group, at, before(began, r)})
		}
	}
	slices.SortFunc(list, func(a, b Election) int { return a.At.Compare(b.At) })
	return list, errs
}

// before returns the node that led r's group in the last term before.
func before(reigns map[reign]time.Time, r reign) string {
	var last reign
	for other := range reigns {
		if other.group == r.group && other.term < r.term && other.term > last.term {
			last = other
		}
	}
	return last.node
}

// logLine is what the runner reads of a line of a node's log.
type logLine struct {
	Time     time.Time
	Msg      string
	Node, To string
	Group    int
	Term     uint64
}

// logLines reads what the process has logged so far.
func (p *Process) logLines(f func(l *logLine)) error {
	log, err := os.Open(p.Log)
	if err != nil {
		return err
	}
	defer log.Close()
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line logLine
		// A crash leaves lines of another form.
		if json.Unmarshal(lines.Bytes(), &line) == nil {
			f(&line)
		}
	}
	return lines.Err()
}
