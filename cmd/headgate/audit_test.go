package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// Lines are added to the file of the name, which may be another one after a reload.
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
