package server

import (
	"bytes"
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/glob"
)

func (s *Server) configCommands() []command.Spec {
	const flags = command.Admin | command.Loading | command.Stale | command.NoScript
	sub := func(name string, arity int, complexity, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags, Group: "server",
			Complexity: complexity, Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	set := sub("set", -4, "O(N), N the number of parameters given", "parameter value [parameter value ...]", "Sets configuration parameters in-flight.", onCall(cmdConfigSet))
	reset := sub("resetstat", 2, "O(1)", "", "Resets the server's statistics.", onConn(cmdConfigResetStat))
	set.Secrets = s.configSecrets
	set.Flags |= command.Guarded
	reset.Flags |= command.Guarded
	return []command.Spec{{
		Name: "config", Arity: -2, Group: "server", Complexity: "Depends on subcommand.",
		Summary: "A container for server configuration commands.",
		Subs: []command.Spec{
			sub("get", -3, "O(N), N the number of parameters", "parameter [parameter ...]", "Returns the effective values of configuration parameters.", onConn(cmdConfigGet)),
			set,
			reset,
			sub("rewrite", 2, "O(1)", "", "Refused: the configuration file is the operator's.", onConn(cmdConfigRewrite)),
		},
	}}
}

func cmdConfigGet(c *conn, args [][]byte) {
	if len(args) > command.MaxPatterns+2 {
		c.error(command.ErrPatterns)
		return
	}
	patterns := make([]*glob.Pattern, 0, len(args)-2)
	for _, a := range args[2:] {
		pattern, ok := c.pattern(bytes.ToLower(a))
		if !ok {
			return
		}
		patterns = append(patterns, pattern)
	}
	settings, hidden := c.srv.cfg.Settings, []string(nil)
	if !c.Administers() {
		hidden = adminSecrets
	}
	c.block(func(w *resp.Writer) { writeSettings(w, settings, patterns, hidden) })
}

// adminSecrets are the parameters that only the user admin can read.
var adminSecrets = []string{"admin-pass", "http-write-token"}

// writeSettings replies the parameters whose names match one of the patterns, except the
// hidden ones.
func writeSettings(w *resp.Writer, settings Settings, patterns []*glob.Pattern, hidden []string) {
	names := slices.Sorted(slices.Values(settings.Names()))
	var pairs [][2]string
	for _, name := range names {
		if slices.Contains(hidden, name) || !slices.ContainsFunc(patterns, func(p *glob.Pattern) bool { return p.Match(name) }) {
			continue
		}
		if value, ok := settings.Get(name); ok {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	w.Map(len(pairs))
	for _, p := range pairs {
		w.BulkString(p[0])
		w.BulkString(p[1])
	}
}

// cmdConfigSet sets either all parameters or none.
func cmdConfigSet(c *conn, call *command.Call) {
	args := call.Args
	if len(args)%2 != 0 {
		c.error(command.WrongArity(call.Spec))
		return
	}
	var pairs [][2]string
	for i := 2; i < len(args); i += 2 {
		pairs = append(pairs, [2]string{strings.ToLower(string(args[i])), string(args[i+1])})
	}
	settings := c.srv.cfg.Settings
	failed, err := settings.Set(pairs)
	if err == nil {
		c.w.OK()
		return
	}
	name := string(command.Clip(args[2+2*failed], 128))
	if _, known := settings.Get(pairs[failed][0]); known {
		c.error("ERR CONFIG SET failed (possibly related to argument '" + name + "') - " + err.Error())
		return
	}
	c.error("ERR Unknown option or number of arguments for CONFIG SET - '" + name + "'")
}

// secretEndings are the ends of the names of secret parameters.
var secretEndings = []string{"pass", "-token"}

// configSecrets hides the passwords and tokens of CONFIG SET. From the first unknown
// parameter on it hides everything, because the rest may be part of a password.
func (s *Server) configSecrets(args [][]byte, at []int) []int {
	for i := 2; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		if _, known := s.cfg.Settings.Get(name); !known || i+1 == len(args) {
			return hideFrom(max(i, 3), args, at)
		}
		if slices.ContainsFunc(secretEndings, func(ending string) bool { return strings.HasSuffix(name, ending) }) {
			at = append(at, i+1)
		}
	}
	return at
}

func cmdConfigResetStat(c *conn, _ [][]byte) {
	c.srv.stats.reset()
	c.srv.scripts.ResetRuns()
	c.w.OK()
}

func cmdConfigRewrite(c *conn, _ [][]byte) {
	c.error("ERR CONFIG REWRITE is not supported: edit the configuration file, the server never writes it")
}
