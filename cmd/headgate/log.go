package main

import (
	"io"
	"log/slog"

	"github.com/headgate-io/headgate/cmd/headgate/config"
)

// newLogger returns the server's logger and the logger's level. CONFIG SET log-level
// changes the level.
func newLogger(w io.Writer, c *config.Config) (*slog.Logger, *slog.LevelVar) {
	level := new(slog.LevelVar)
	setLevel(level, c.LogLevel)
	options := &slog.HandlerOptions{Level: level}
	if c.LogFormat == config.FormatJSON {
		return slog.New(slog.NewJSONHandler(w, options)), level
	}
	return slog.New(slog.NewTextHandler(w, options)), level
}

// setLevel sets the level to a value of the parameter log-level.
func setLevel(level *slog.LevelVar, name string) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(name)); err != nil {
		panic("log-level: " + err.Error()) // slog does not know a word of the parameter's enum
	}
	level.Set(l)
}
