package server

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/server/resp"
)

func configCommands() []command {
	const flags = flagAdmin | flagLoading | flagStale | flagNoScript
	sub := func(name string, arity int, complexity, syntax, summary string, handler func(*conn, [][]byte)) command {
		return command{
			name: name, arity: arity, flags: flags, group: "server", since: "1.0.0",
			complexity: complexity, summary: summary, syntax: syntax, handler: handler,
		}
	}
	return []command{{
		name: "config", arity: -2, group: "server", since: "1.0.0", complexity: "Depends on subcommand.",
		summary: "A container for server configuration commands.",
		subs: []command{
			sub("get", -3, "O(N), N the number of parameters", "parameter [parameter ...]", "Returns the effective values of configuration parameters.", cmdConfigGet),
			sub("set", -4, "O(N), N the number of parameters given", "parameter value [parameter value ...]", "Sets configuration parameters in-flight.", cmdConfigSet),
			sub("resetstat", 2, "O(1)", "", "Resets the server's statistics.", cmdConfigResetStat),
			sub("rewrite", 2, "O(1)", "", "Refused: the configuration file is the operator's.", cmdConfigRewrite),
			sub("help", 2, "O(1)", "", "Returns helpful text about the different subcommands.", cmdConfigHelp),
		},
	}}
}

// parameter is a configuration parameter whose value in force is the server's.
type parameter struct {
	name string
	get  func(*Server) string
	set  func(*Server, string) error
}

var (
	errNotNumber = errors.New("argument couldn't be parsed into an integer")
	errNotYesNo  = errors.New("argument must be 'yes' or 'no'")
	errRange     = errors.New("argument is out of range")
)

// number parses a value from low to high.
func number(value string, low, high int64) (int64, error) {
	n, ok := resp.ParseInt([]byte(value))
	if !ok {
		return 0, errNotNumber
	}
	if n < low || n > high {
		return 0, errRange
	}
	return n, nil
}

// maxSeconds32 bounds parameters in seconds.
const maxSeconds32 = 1 << 31

// parameters are the server's own. Settings knows them too, if it is there, and
// then has its say first.
func parameters() []parameter {
	return []parameter{
		{
			name: "maxclients",
			get:  func(s *Server) string { return strconv.FormatInt(s.maxClients.Load(), 10) },
			set: func(s *Server, v string) error {
				n, err := number(v, 1, 1<<24)
				if err == nil {
					s.maxClients.Store(n)
				}
				return err
			},
		},
		{
			name: "timeout",
			get:  func(s *Server) string { return strconv.FormatInt(s.timeout.Load()/int64(time.Second), 10) },
			set: func(s *Server, v string) error {
				n, err := number(v, 0, maxSeconds32)
				if err == nil {
					s.timeout.Store(n * int64(time.Second))
				}
				return err
			},
		},
		{
			name: "requirepass",
			get:  func(s *Server) string { return *s.password.Load() },
			set:  func(s *Server, v string) error { s.password.Store(&v); return nil },
		},
		{
			name: "protected-mode",
			get: func(s *Server) string {
				if s.protected.Load() {
					return "yes"
				}
				return "no"
			},
			set: func(s *Server, v string) error {
				switch strings.ToLower(v) {
				case "yes":
					s.protected.Store(true)
				case "no":
					s.protected.Store(false)
				default:
					return errNotYesNo
				}
				return nil
			},
		},
		{
			name: "slowlog-log-slower-than", // µs
			get: func(s *Server) string {
				return strconv.FormatInt(max(-1, s.slow.threshold.Load()/int64(time.Microsecond)), 10)
			},
			set: func(s *Server, v string) error {
				n, err := number(v, -1, maxSeconds32*1e6)
				if err == nil {
					s.setSlowlogThreshold(time.Duration(n) * time.Microsecond)
				}
				return err
			},
		},
		{
			name: "slowlog-max-len",
			get:  func(s *Server) string { return strconv.Itoa(s.slow.capacity()) },
			set: func(s *Server, v string) error {
				n, err := number(v, 0, 1<<20)
				if err == nil {
					s.slow.setMaxLen(int(n))
				}
				return err
			},
		},
	}
}

// fixedParameters are answered because tools ask for them, redis-benchmark for
// one. They have one possible value.
var fixedParameters = map[string]string{"save": "", "appendonly": "no", "databases": "1"}

// parameterNames lists every parameter once, in order.
func (s *Server) parameterNames() []string {
	var names []string
	for _, p := range s.params {
		names = append(names, p.name)
	}
	for name := range fixedParameters {
		names = append(names, name)
	}
	if s.cfg.Settings != nil {
		names = append(names, s.cfg.Settings.Names()...)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// param returns the server's own parameter of that name, or nil.
func (s *Server) param(name string) *parameter {
	for i := range s.params {
		if s.params[i].name == name {
			return &s.params[i]
		}
	}
	return nil
}

// parameter returns a parameter's value.
func (s *Server) parameter(name string) (string, bool) {
	if p := s.param(name); p != nil {
		return p.get(s), true
	}
	if s.cfg.Settings != nil {
		if v, ok := s.cfg.Settings.Get(name); ok {
			return v, true
		}
	}
	v, ok := fixedParameters[name]
	return v, ok
}

func cmdConfigGet(c *conn, args [][]byte) {
	patterns := make([]string, 0, len(args)-2)
	for _, a := range args[2:] {
		patterns = append(patterns, strings.ToLower(string(a)))
	}
	var pairs [][2]string
	for _, name := range c.srv.parameterNames() {
		if !slices.ContainsFunc(patterns, func(p string) bool { return glob(p, name) }) {
			continue
		}
		if value, ok := c.srv.parameter(name); ok {
			pairs = append(pairs, [2]string{name, value})
		}
	}
	c.w.Map(len(pairs))
	for _, p := range pairs {
		c.w.BulkString(p[0])
		c.w.BulkString(p[1])
	}
}

// cmdConfigSet sets all parameters or none.
func cmdConfigSet(c *conn, args [][]byte) {
	if len(args)%2 != 0 {
		c.error(wrongArity(c.lane.counted))
		return
	}
	s := c.srv
	s.configMu.Lock()
	defer s.configMu.Unlock()
	type change struct{ name, old string }
	var done []change
	for i := 2; i < len(args); i += 2 {
		name := strings.ToLower(string(args[i]))
		old, known := s.parameter(name)
		err := errors.New("duplicate parameter")
		if !slices.ContainsFunc(done, func(d change) bool { return d.name == name }) {
			err = s.setParameter(name, string(args[i+1]))
		}
		if err == nil {
			done = append(done, change{name, old})
			continue
		}
		for _, d := range slices.Backward(done) {
			// The old value was in force a moment ago.
			_ = s.setParameter(d.name, d.old)
		}
		if !known {
			c.error("ERR Unknown option or number of arguments for CONFIG SET - '" + string(clip(args[i], 128)) + "'")
			return
		}
		c.error("ERR CONFIG SET failed (possibly related to argument '" + string(clip(args[i], 128)) + "') - " + err.Error())
		return
	}
	c.w.OK()
}

// setParameter sets one parameter. It must be called with configMu held.
func (s *Server) setParameter(name, value string) error {
	p := s.param(name)
	if s.cfg.Settings != nil {
		old, known := s.cfg.Settings.Get(name)
		if known {
			if err := s.cfg.Settings.Set(name, value); err != nil {
				return err
			}
			if p == nil {
				return nil
			}
			if err := p.set(s, value); err != nil {
				_ = s.cfg.Settings.Set(name, old)
				return err
			}
			return nil
		}
	}
	if p != nil {
		return p.set(s, value)
	}
	if fixed, ok := fixedParameters[name]; ok && value == fixed {
		return nil
	}
	return errors.New("can't set immutable config")
}

func cmdConfigResetStat(c *conn, _ [][]byte) {
	c.srv.stats.reset()
	c.w.OK()
}

func cmdConfigRewrite(c *conn, _ [][]byte) {
	c.error("ERR CONFIG REWRITE is not supported: change the configuration file, which the server never writes")
}

func cmdConfigHelp(c *conn, _ [][]byte) {
	writeHelp(c.w, "CONFIG",
		"GET <pattern>", "    Return parameters matching the glob-like <pattern> and their values.",
		"SET <directive> <value>", "    Set the configuration <directive> to <value>.",
		"RESETSTAT", "    Reset statistics reported by the INFO command.",
		"REWRITE", "    Not supported.")
}
