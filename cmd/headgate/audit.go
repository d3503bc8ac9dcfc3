package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// auditFile is the file of audit-log, nil for none: lines go to the log then.
type auditFile struct {
	name string
	log  *slog.Logger

	failed atomic.Uint64 // lines

	// mu guards what follows.
	mu   sync.Mutex
	file *os.File
	torn bool // the file ends within a line
}

// openAudit opens the file of c.
func openAudit(c *config.Config, log *slog.Logger) (*auditFile, error) {
	if c.AuditLog == "" {
		return nil, nil
	}
	a := &auditFile{name: c.AuditLog, log: log}
	file, err := a.open()
	if err != nil {
		return nil, fmt.Errorf("audit-log: %w", err)
	}
	a.file, a.torn = file, isTorn(a.name)
	return a, nil
}

func (a *auditFile) open() (*os.File, error) {
	return os.OpenFile(a.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// isTorn reports whether a file ends within a line, as a full disk or a crash leaves it.
func isTorn(name string) bool {
	info, err := os.Stat(name)
	if err != nil || !info.Mode().IsRegular() || info.Size() == 0 {
		return false
	}
	file, err := os.Open(name)
	if err != nil {
		return false
	}
	defer file.Close()
	var last [1]byte
	_, err = file.ReadAt(last[:], info.Size()-1)
	return err == nil && last[0] != '\n'
}

// logger returns what writes lines of JSON into the file, or log.
func (a *auditFile) logger(log *slog.Logger) *slog.Logger {
	if a == nil {
		return log.With("audit", true)
	}
	return slog.New(slog.NewJSONHandler(a, nil))
}

// Write implements io.Writer. A line that does not fit on the disk is told in the log,
// and what of it is in the file is a line of its own.
func (a *auditFile) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.torn {
		if _, err := a.file.WriteString("\n"); err != nil {
			return 0, a.lose(line, err)
		}
		a.torn = false
	}
	n, err := a.file.Write(line)
	if err != nil {
		a.torn = n > 0
		return n, a.lose(line, err)
	}
	return n, nil
}

// lose tells of a line that is not in the file, and returns why.
func (a *auditFile) lose(line []byte, err error) error {
	a.failed.Add(1)
	a.log.Error("a change is not in audit-log", "error", err, "line", string(line))
	return err
}

// lost returns how many lines are not in the file since the start.
func (a *auditFile) lost() uint64 {
	if a == nil {
		return 0
	}
	return a.failed.Load()
}

// reload opens the file anew: its name may be that of another one by now.
func (a *auditFile) reload() {
	if a == nil {
		return
	}
	file, err := a.open()
	if err != nil {
		a.log.Error("open audit-log again", "error", err)
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.file.Close()
	a.file, a.torn = file, isTorn(a.name)
}
