package main

import (
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// After a reload, lines go to the file that has the name then.
func TestAuditFile(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	a, err := openAudit(&config.Config{AuditLog: name}, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	log := a.logger(nil)
	log.Info("one")
	require.NoError(t, os.Rename(name, name+".1"))
	log.Info("two")
	a.reload()
	log.Info("three")
	for file, want := range map[string]string{name + ".1": `(?s)^\{[^\n]*"one"\}\n\{[^\n]*"two"\}\n$`, name: `^\{.*"three"\}\n$`} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Regexp(t, want, string(text))
		info, err := os.Stat(file)
		require.NoError(t, err)
		require.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	}
	_, err = openAudit(&config.Config{AuditLog: filepath.Join(name, "x")}, nil)
	require.ErrorContains(t, err, "audit-log: ")
	var none *auditFile
	none.reload()
}

// A line that the disk has no room for leaves no other one without its own line.
func TestAuditFileIsFull(t *testing.T) {
	name := filepath.Join(t.TempDir(), "audit.log")
	require.NoError(t, os.WriteFile(name, []byte(`{"half":`), 0o600)) // of a crash
	p := start(t, "--audit-log="+name)
	room := func(bytes uint64) {
		limit := unix.Rlimit{Cur: bytes, Max: unix.RLIM_INFINITY}
		require.NoError(t, unix.Prlimit(p.PID(), unix.RLIMIT_FSIZE, &limit, nil))
	}
	c := dial(t, "tcp", p.redis)
	set := func() { require.Equal(t, "+OK", c.do("CONFIG", "SET", "timeout", "9")) }
	set()
	info, err := os.Stat(name)
	require.NoError(t, err)
	room(uint64(info.Size()) + 20)
	set()
	set()
	require.Contains(t, p.get(t, "/metrics"), "headgate_audit_lost_total 2\n")
	room(1 << 20)
	set()
	text, err := os.ReadFile(name)
	require.NoError(t, err)
	lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
	require.Len(t, lines, 4, "%s", text)
	for i, line := range lines {
		require.Equal(t, i%2 == 1, json.Valid([]byte(line)), line)
	}
}
