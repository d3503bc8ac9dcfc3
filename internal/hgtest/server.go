package hgtest

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/headgate-io/headgate/internal/logbuf"
	"github.com/headgate-io/headgate/internal/subprocess"
)

const (
	// startTimeout is how long a server may take until it serves. It
	// listens within 50 ms; the rest is for a machine with other work.
	startTimeout = 20 * time.Second
	// stopTimeout is above the server's own shutdown-timeout of 5 s.
	stopTimeout = 10 * time.Second
)

// Config says what kind of server to start. The zero value is plain TCP
// without a password.
type Config struct {
	Addr     string       // host:port of the Redis protocol; a free one of the loopback interface, if empty
	Password string       // requirepass, if not empty
	Cert     *Certificate // TLS instead of plain TCP, if set
	Args     []string     // further arguments of headgate serve
}

// Server is a running headgate process.
type Server struct {
	Addr string // host:port of the Redis protocol; the same after Restart
	HTTP string // host:port of /metrics; the same after Restart
	GRPC string // host:port of the Rate Limit Service; the same after Restart
	// Cluster is the address for clients of Redis Cluster of a node of a Cluster.
	Cluster string

	config Config
	args   []string // of headgate
	run    *subprocess.Process
	log    *logbuf.Buffer // of run
}

// Start starts a server and waits until it serves.
func Start(c Config) (*Server, error) {
	addrs, err := subprocess.Addrs("127.0.0.1", 3)
	if err != nil {
		return nil, err
	}
	if c.Addr != "" {
		addrs[0] = c.Addr
	}
	s := &Server{config: c, Addr: addrs[0], HTTP: addrs[1], GRPC: addrs[2]}
	s.args = append([]string{"serve", "--listen", s.Addr, "--http-listen", s.HTTP, "--grpc-listen", s.GRPC}, c.Args...)
	if c.Cert != nil {
		s.args = append(s.args, "--tls-cert", c.Cert.CertFile, "--tls-key", c.Cert.KeyFile)
	}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) start() error {
	bin, err := Binary()
	if err != nil {
		return err
	}
	cmd := subprocess.Command(bin, s.args...)
	if s.config.Password != "" {
		cmd.Env = append(cmd.Env, "HEADGATE_REQUIREPASS="+s.config.Password)
	}
	s.log = new(logbuf.Buffer)
	cmd.Stderr = s.log
	if s.run, err = subprocess.Start(cmd); err != nil {
		return err
	}
	for deadline := time.Now().Add(startTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if strings.Contains(s.log.String(), "msg=listening") {
			return nil
		}
		if !s.run.Running() {
			return fmt.Errorf("headgate ended at its start: %v\n%s", s.run.Wait(), s.log)
		}
	}
	s.Kill()
	return fmt.Errorf("headgate does not listen after %v\n%s", startTimeout, s.log)
}

// Kill ends the process at once, as a crash does, and waits for its end.
func (s *Server) Kill() { _ = s.run.Kill() } // an error means that it has ended

// Signal sends the process a signal, such as SIGSTOP.
func (s *Server) Signal(signal os.Signal) error { return s.run.Signal(signal) }

// Restart starts the server again, after Kill or Stop, on the same address.
func (s *Server) Restart() error { return s.start() }

// Stop ends the server gracefully. It returns an error if the server had
// crashed before, or did not stop in order.
func (s *Server) Stop() error {
	if err := s.run.Stop(stopTimeout); err != nil {
		return fmt.Errorf("stop headgate: %w\n%s", err, s.log)
	}
	return nil
}

// Binary returns the path of the server's executable: $HGTEST_BIN, else one
// built from this tree, once for each process.
var Binary = sync.OnceValues(func() (string, error) {
	if bin := os.Getenv("HGTEST_BIN"); bin != "" {
		return bin, nil
	}
	dir, err := tempDir()
	if err != nil {
		return "", err
	}
	return subprocess.Build(dir)
})

// tempDir is a directory of this process for the executable and certificates.
var tempDir = sync.OnceValues(func() (string, error) { return os.MkdirTemp("", "hgtest") })

// Clean removes the files of this process. Servers must have stopped.
func Clean() {
	if dir, err := tempDir(); err == nil {
		_ = os.RemoveAll(dir) // what is left is in the system's temporary directory
	}
}
