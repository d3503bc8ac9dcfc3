package cluster

import (
	"fmt"
	"path/filepath"

	"github.com/headgate-io/headgate/internal/subprocess"
)

// Switchover is what Headgate replaces: independent servers, of which clients use the first that lives. Nothing is
// replicated, so every failover forgets what was consumed. It shows that the checkers see that.
type Switchover struct{ Servers []*Process }

// NewSwitchover starts n independent servers that keep their logs in dir.
func NewSwitchover(bin, dir string, n int) (s *Switchover, err error) {
	s = &Switchover{}
	defer func() {
		if err != nil {
			s.Close()
		}
	}()
	for i := range n {
		addrs, err := subprocess.Addrs(host(), 2)
		if err != nil {
			return s, err
		}
		name := fmt.Sprintf("n%d", i+1)
		p := &Process{
			Name: name, Addr: addrs[0], bin: bin, Log: filepath.Join(dir, name+".log"),
			args: []string{"serve", "--listen", addrs[0], "--http-listen", addrs[1]},
		}
		s.Servers = append(s.Servers, p)
		if err := p.Start(); err != nil {
			return s, err
		}
	}
	for _, p := range s.Servers {
		if err := p.Await(); err != nil {
			return s, err
		}
	}
	return s, nil
}

// Leader is the server in use, or nil.
func (s *Switchover) Leader() *Process {
	for _, p := range s.Servers {
		if p.responsive() {
			return p
		}
	}
	return nil
}

// Close kills the servers.
func (s *Switchover) Close() {
	for _, p := range s.Servers {
		if p.Running() {
			p.Kill()
		}
	}
}
