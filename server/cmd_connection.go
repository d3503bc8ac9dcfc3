package server

import (
	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/command"
)

// redisVersion is the version of Redis whose protocol and commands clients may expect. Many
// clients choose their commands by this version.
const redisVersion = "7.2.0"

func connectionCommands() []command.Spec {
	const always = command.Loading | command.Stale | command.Fast | command.NoTable
	const own = always | command.NoScript | command.OwnConn
	return []command.Spec{
		{
			Name: "ping", Arity: -1, Flags: always | command.Subscribed | command.Forwarded, Categories: command.CatConnection,
			Group: "connection", Complexity: "O(1)",
			Summary: "Returns the server's liveliness response.", Syntax: "[message]", Handler: ping,
		},
		{
			Name: "echo", Arity: 2, Flags: always | command.Forwarded, Categories: command.CatConnection,
			Group: "connection", Complexity: "O(1)",
			Summary: "Returns the given string.", Syntax: "message", Handler: echo,
		},
		{
			Name: "hello", Arity: -1, Flags: own | command.NoAuth | command.Forwarded, Categories: command.CatConnection,
			Group: "connection", Complexity: "O(1)",
			Summary: "Handshakes with the server.",
			Syntax:  "[protover [AUTH username password] [SETNAME clientname]]", Handler: onConn(cmdHello),
			Secrets: helloSecrets,
		},
		{
			Name: "auth", Arity: -2, Flags: own | command.NoAuth, Categories: command.CatConnection,
			Group: "connection", Complexity: "O(1)",
			Summary: "Authenticates the connection.", Syntax: "[username] password", Handler: onConn(cmdAuth),
			Secrets: authSecrets,
		},
		{
			Name: "select", Arity: 2, Flags: always | command.NeedsConn | command.Forwarded | command.Select, Categories: command.CatConnection,
			Group: "connection", Complexity: "O(1)",
			Summary: "Changes the selected database, one of 0 to 15.", Syntax: "index", Handler: onConn(cmdSelect),
		},
		{
			Name: "quit", Arity: -1, Flags: own | command.NoAuth | command.Subscribed | command.Immediate, Categories: command.CatConnection,
			Group: "connection", Complexity: "O(1)",
			Summary: "Closes the connection.", Handler: onConn(cmdQuit),
		},
		{
			Name: "reset", Arity: 1, Flags: own | command.NoAuth | command.Subscribed | command.Immediate, Categories: command.CatConnection,
			Group: "connection", Complexity: "O(1)",
			Summary: "Resets the connection.", Handler: onConn(cmdReset),
		},
	}
}

// ping and echo are so frequent that they work without onConn.
func ping(call *command.Call) {
	w, args := call.W, call.Args
	switch {
	case len(args) > 2:
		call.Error(command.WrongArity(call.Spec))
	case call.Host.(*conn).mode&modeSubscribed != 0:
		w.Array(2)
		w.BulkString("pong")
		if len(args) == 2 {
			w.Bulk(args[1])
		} else {
			w.BulkString("")
		}
	case len(args) == 2:
		w.Bulk(args[1])
	default:
		w.B = append(w.B, "+PONG\r\n"...)
	}
}

func echo(call *command.Call) { call.W.Bulk(call.Args[1]) }

func cmdQuit(c *conn, _ [][]byte) {
	c.w.OK()
	c.ending = closes
}

func cmdReset(c *conn, _ [][]byte) {
	c.subscriber.End()
	c.CatchUpWhole()
	c.resetSession()
	c.w.RESP3 = false
	c.w.Simple("RESET")
}

// Texts of failed authentication, from Redis.
const (
	errNoPassword  = "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?"
	errHelloNoAuth = "NOAUTH HELLO must be called with the client already authenticated, otherwise the HELLO <proto> AUTH <user> <pass> option can be used to authenticate the client and select the RESP protocol version at the same time"
)

func cmdAuth(c *conn, args [][]byte) {
	user, pass := []byte(access.UserDefault), args[len(args)-1]
	switch len(args) {
	case 2:
		if c.srv.password() == "" {
			c.error(errNoPassword)
			return
		}
	case 3:
		user = args[1]
	default:
		c.error(errSyntax)
		return
	}
	if c.login(user, pass) {
		c.w.OK()
	} else {
		c.rejectLogin()
	}
}

func cmdHello(c *conn, args [][]byte) {
	version := int64(0)
	if len(args) > 1 {
		var ok bool
		if version, ok = resp.ParseInt(args[1]); !ok {
			c.error("ERR Protocol version is not an integer or out of range")
			return
		}
		if version < 2 || version > 3 {
			c.error("NOPROTO unsupported protocol version")
			return
		}
	}
	var user, pass, name []byte
	for i := 2; i < len(args); {
		left := len(args) - i - 1
		switch {
		case command.EqualFold(args[i], "auth") && left >= 2:
			user, pass = args[i+1], args[i+2]
			i += 3
		case command.EqualFold(args[i], "setname") && left >= 1:
			name = args[i+1]
			if !validClientInfo(name) {
				c.error("ERR Client names cannot contain spaces, newlines or special characters.")
				return
			}
			i += 2
		default:
			c.error("ERR Syntax error in HELLO option '" + string(command.Clip(args[i], 128)) + "'")
			return
		}
	}
	if user != nil && !c.login(user, pass) {
		c.rejectLogin()
		return
	}
	if c.mode&modeNoAuth != 0 {
		c.error(errHelloNoAuth)
		return
	}
	if name != nil {
		c.setMeta(func(m *clientMeta) { m.name = string(name) })
	}
	if version != 0 {
		c.resp3 = version == 3
		c.w.RESP3 = c.resp3
		c.setMeta(func(m *clientMeta) { m.resp3 = c.resp3 })
		c.Changed()
	}
	c.writeHello()
}

// authSecrets hides all arguments of AUTH. In a malformed AUTH, each argument may be the
// password.
func authSecrets(args [][]byte, at []int) []int { return hideFrom(1, args, at) }

// helloSecrets hides the user and the password of HELLO, and everything after a wrong
// argument.
func helloSecrets(args [][]byte, at []int) []int {
	if len(args) > 1 {
		if _, ok := resp.ParseInt(args[1]); !ok {
			return hideFrom(1, args, at)
		}
	}
	for i := 2; i < len(args); {
		left := len(args) - i - 1
		switch {
		case command.EqualFold(args[i], "auth") && left >= 2:
			at = append(at, i+1, i+2)
			i += 3
		case command.EqualFold(args[i], "setname") && left >= 1:
			i += 2
		default:
			return hideFrom(i, args, at)
		}
	}
	return at
}

// hideFrom appends the positions of all arguments from i on.
func hideFrom(i int, args [][]byte, at []int) []int {
	for ; i < len(args); i++ {
		at = append(at, i)
	}
	return at
}

// writeHello replies to HELLO. It tells another node the term that the stream has from then
// on; see wait.go.
func (c *conn) writeHello() {
	w := c.w
	if c.relayed {
		w.Map(9)
		w.BulkString("term")
		c.term = c.srv.parts[c.home].Term()
		w.Int(int64(c.term))
	} else {
		w.Map(8)
	}
	w.BulkString("server")
	w.BulkString("redis")
	w.BulkString("version")
	w.BulkString(redisVersion)
	w.BulkString("proto")
	if c.resp3 {
		w.Int(3)
	} else {
		w.Int(2)
	}
	w.BulkString("id")
	w.Int(int64(c.id))
	w.BulkString("mode")
	w.BulkString(redisMode(c.moves))
	w.BulkString("role")
	if c.srv.parts[shown(c.srv.parts, c.moves)].Role().Decides() {
		w.BulkString("master")
	} else {
		w.BulkString("replica")
	}
	w.BulkString("modules")
	w.Array(0)
	w.BulkString("headgate_version")
	w.BulkString(c.srv.cfg.Version)
}
