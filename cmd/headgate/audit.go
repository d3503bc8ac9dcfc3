package main

import (
	"fmt"
	"log/slog"
	"os"
	"sync"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// auditFile is the file of audit-log, nil for none: lines go to the log then.
type auditFile struct {
	name string
	log  *slog.Logger

	// mu guards file.
	mu   sync.Mutex
	file *os.File
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
	a.file = file
	return a, nil
}

func (a *auditFile) open() (*os.File, error) {
	return os.OpenFile(a.name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
}

// logger returns what writes lines of JSON into the file, or log.
func (a *auditFile) logger(log *slog.Logger) *slog.Logger {
	if a == nil {
		return log.With("audit", true)
	}
	return slog.New(slog.NewJSONHandler(a, nil))
}

// Write implements io.Writer. A line that does not fit on the disk is told in the log.
func (a *auditFile) Write(line []byte) (int, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	n, err := a.file.Write(line)
	if err != nil {
		a.log.Error("a change is not in audit-log", "error", err, "line", string(line))
	}
	return n, err
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
	a.file = file
}
