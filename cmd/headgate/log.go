package main

import (
	"io"
	"log/slog"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// newLogger returns the logger of the server, and its level, which CONFIG SET
// log-level changes.
func newLogger(w io.Writer, c *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	setLevel(level, c.LogLevel)
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}

// setLevel takes a value of the parameter log-level.
func setLevel(level *slog.LevelVar, name string) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		panic("log-level: " + err.Error()) // the parameter's enum is not slog's
	}
	level.Set(l)
}
