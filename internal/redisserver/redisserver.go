// Package redisserver starts redis-server, the oracle that Headgate's replies
// are compared with.
package redisserver

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/internal/subprocess"
)

const (
	startTimeout = 20 * time.Second // it serves within 50 ms; the rest is for a machine with other work
	stopTimeout  = 5 * time.Second
)

// Server is a running redis-server that keeps nothing on disk.
type Server struct {
	Addr string // host:port

	run *subprocess.Process
	log *logbuf.Buffer
	dir string // it works in
}

// Start starts a server on addr, or on a free port of the loopback interface if
// that is empty, and waits until it answers. args are further arguments of
// redis-server. It is an error if somebody listens on addr already.
func Start(addr string, args ...string) (*Server, error) { return start(addr, nil, args) }

// start is Start with further variables of its environment.
func start(addr string, env, args []string) (*Server, error) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		return nil, errors.New("redis-server is not installed; make deps installs it")
	}
	if addr == "" {
		addrs, err := subprocess.Addrs("127.0.0.1", 1)
		if err != nil {
			return nil, err
		}
		addr = addrs[0]
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, err
	}
	s := &Server{Addr: addr, log: new(logbuf.Buffer)}
	if s.dir, err = os.MkdirTemp("", "redis-server"); err != nil {
		return nil, err
	}
	cmd := subprocess.Command(program, append([]string{"--bind", host, "--port", port, "--save", "", "--appendonly", "no"}, args...)...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, s.log, s.log
	cmd.Env = append(cmd.Env, env...)
	if s.run, err = subprocess.Start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("redis-server: %w", err), os.RemoveAll(s.dir))
	}
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if !s.run.Running() {
			break
		}
		// With a password the answer is an error.
		if r, err := respclient.Do(addr, time.Second, "PING"); err == nil || r.Error() != "" {
			return s, nil
		}
	}
	_ = s.run.Kill() // an error means that it has ended
	return nil, errors.Join(fmt.Errorf("redis-server does not serve on %s\n%s", addr, s.log), os.RemoveAll(s.dir))
}

// Stop ends the server. It returns an error if the server had crashed before.
func (s *Server) Stop() error {
	err := s.run.Stop(stopTimeout)
	if err != nil {
		err = fmt.Errorf("stop redis-server: %w\n%s", err, s.log)
	}
	return errors.Join(err, os.RemoveAll(s.dir))
}
