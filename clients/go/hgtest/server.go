package hgtest

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/headgate-io/headgate/internal/subprocess"
)

const (
	// startTimeout is how long a server may take until it serves. It is
	// ready within 50 ms; the rest is for a machine with other work.
	startTimeout = 20 * time.Second
	// stopTimeout is above the server's own shutdown-timeout of 5 s.
	stopTimeout = 10 * time.Second
)

// Config says what kind of server to start. The zero value is plain TCP
// without a password on a port of the system's choice.
type Config struct {
	Password string       // requirepass, if not empty
	Cert     *Certificate // TLS instead of plain TCP, if set
	Args     []string     // further arguments of headgate serve
}

// Server is a running headgate process.
type Server struct {
	Addr string // host:port of the Redis protocol; the same after Restart

	config Config
	cmd    *exec.Cmd
	log    *serverLog
	exited chan struct{} // closed when the process has ended
	err    error         // how it ended; read after exited
}

// Start starts a server and waits until it serves.
func Start(c Config) (*Server, error) {
	s := &Server{config: c, Addr: "127.0.0.1:0"}
	if err := s.start(); err != nil {
		return nil, err
	}
	return s, nil
}

func (s *Server) start() error {
	bin, err := binary()
	if err != nil {
		return err
	}
	args := []string{
		"serve", "--listen", s.Addr, "--http-listen", "127.0.0.1:0", "--log-format", "json",
	}
	if s.config.Cert != nil {
		args = append(args, "--tls-cert", s.config.Cert.CertFile, "--tls-key", s.config.Cert.KeyFile)
	}
	s.cmd = subprocess.Command(bin, append(args, s.config.Args...)...)
	s.cmd.SysProcAttr = dieWithParent()
	if s.config.Password != "" {
		s.cmd.Env = append(s.cmd.Env, "HEADGATE_REQUIREPASS="+s.config.Password)
	}
	s.log = &serverLog{ready: make(chan string, 1)}
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return fmt.Errorf("start headgate: %w", err)
	}
	cmd, log, exited := s.cmd, s.log, make(chan struct{})
	s.exited = exited
	go func() {
		defer close(exited)
		log.read(stderr)
		s.err = cmd.Wait()
	}()
	select {
	case s.Addr = <-log.ready:
		return nil
	case <-exited:
		return fmt.Errorf("headgate ended at its start: %w\n%s", s.err, log)
	case <-time.After(startTimeout):
		s.Kill()
		return fmt.Errorf("headgate is not ready after %v\n%s", startTimeout, log)
	}
}

// Kill ends the process at once, as a crash does, and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // fails only if it has ended already
	<-s.exited
}

// Restart starts the server again, after Kill or Stop, on the same address.
func (s *Server) Restart() error { return s.start() }

// Stop ends the server gracefully. It returns an error if the server had
// crashed before, or did not stop in order.
func (s *Server) Stop() error {
	select {
	case <-s.exited:
		return fmt.Errorf("headgate had ended before its stop: %v\n%s", s.err, s.log)
	default:
	}
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-s.exited:
	case <-time.After(stopTimeout):
		s.Kill()
		return fmt.Errorf("headgate ignored SIGTERM for %v\n%s", stopTimeout, s.log)
	}
	if s.err != nil {
		return fmt.Errorf("headgate stopped with %w\n%s", s.err, s.log)
	}
	return nil
}

// serverLog keeps what a server logs, and finds its address in it.
type serverLog struct {
	ready chan string

	mu   sync.Mutex
	text bytes.Buffer // guarded by mu
}

// read consumes a server's log until its end.
func (l *serverLog) read(r io.Reader) {
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		l.mu.Lock()
		l.text.Write(lines.Bytes())
		l.text.WriteByte('\n')
		l.mu.Unlock()
		var entry struct{ Msg, Listen, TLS string } // one of the addresses is empty
		if json.Unmarshal(lines.Bytes(), &entry) == nil && entry.Msg == "ready" {
			l.ready <- entry.Listen + entry.TLS
		}
	}
	// A line longer than the scanner takes must not block the server.
	_, _ = io.Copy(io.Discard, r)
}

func (l *serverLog) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// binary returns the path of the server's executable: $HGTEST_BIN, else one
// built from this tree, once for each process.
var binary = sync.OnceValues(func() (string, error) {
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
