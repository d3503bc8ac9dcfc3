package server

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/command"
	"github.com/headgate-io/headgate/server/pubsub"
)

func clientCommands() []command.Spec {
	const flags = command.Loading | command.Stale | command.NoScript | command.Unpaused | command.NoTable | command.OwnConn
	sub := func(name string, arity int, extra command.Flag, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags | extra, Categories: command.CatConnection, Group: "connection",
			Complexity: "O(1)", Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	onOff := "<ON | OFF>"
	return []command.Spec{{
		Name: "client", Arity: -2, Categories: command.CatConnection, Group: "connection",
		Complexity: "Depends on subcommand.", Summary: "A container for client connection commands.",
		Subs: []command.Spec{
			sub("setinfo", 4, 0, "<LIB-NAME libname | LIB-VER libver>", "Sets information specific to the client or connection.", onConn(cmdClientSetInfo)),
			sub("setname", 3, 0, "connection-name", "Sets the connection name.", onConn(cmdClientSetName)),
			sub("getname", 2, 0, "", "Returns the name of the connection.", onConn(cmdClientGetName)),
			sub("id", 2, 0, "", "Returns the unique client ID of the connection.", onConn(cmdClientID)),
			sub("info", 2, 0, "", "Returns information about the connection.", onConn(cmdClientInfo)),
			sub("list", -2, command.Admin, "[TYPE <NORMAL | MASTER | REPLICA | PUBSUB>] [ID client-id [client-id ...]]", "Lists open connections.", onConn(cmdClientList)),
			sub("kill", -3, command.Admin|command.Guarded, "<addr | [ID client-id] [TYPE type] [USER username] [ADDR addr] [LADDR laddr] [MAXAGE seconds] [SKIPME <YES | NO>]>", "Terminates open connections.", onConn(cmdClientKill)),
			sub("no-evict", 3, command.Admin|command.Guarded, onOff, "Closes this client last when maxmemory-clients is reached.", onConn(cmdClientNoEvict)),
			sub("no-touch", 3, 0, onOff, "Accepted for compatibility: reads do not touch a key's age.", onConn(cmdClientNoTouch)),
			sub("tracking", -3, 0, "<ON | OFF> [REDIRECT client-id] [PREFIX prefix [PREFIX prefix ...]] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]",
				"Turns invalidation messages on or off: what a client could cache is invalidated at once.", onSubscriber((*pubsub.Subscriber).Track)),
			sub("caching", 3, 0, "<YES | NO>", "Says whether the keys that the next command reads are tracked, in mode OPTIN or OPTOUT.", onSubscriber((*pubsub.Subscriber).Caching)),
			sub("trackinginfo", 2, 0, "", "Returns information about server-assisted client-side caching.", onSubscriber((*pubsub.Subscriber).TrackingInfo)),
			sub("getredir", 2, 0, "", "Returns the client ID to which tracking notifications are redirected.", onSubscriber((*pubsub.Subscriber).GetRedir)),
			sub("pause", -3, command.Admin|command.Guarded, "timeout [WRITE | ALL]", "Suspends commands, or those that write, for timeout milliseconds.", onConn(cmdClientPause)),
			sub("unpause", 2, command.Admin|command.Guarded, "", "Resumes processing commands from paused clients.", onConn(cmdClientUnpause)),
			sub("reply", 3, 0, "<ON | OFF | SKIP>", "Instructs the server whether to reply to commands.", onConn(cmdClientReply)),
		},
	}}
}

// maxClientInfo bounds the texts that a client can make the server keep about a connection,
// in bytes.
const maxClientInfo = 1024

// validClientInfo reports whether a name is at most maxClientInfo printable ASCII
// characters without spaces. Apart from the bound, this is Redis's rule for client names.
func validClientInfo(b []byte) bool {
	if len(b) > maxClientInfo {
		return false
	}
	for _, c := range b {
		if c < '!' || c > '~' {
			return false
		}
	}
	return true
}

func cmdClientSetInfo(c *conn, args [][]byte) {
	value := args[3]
	isName := command.EqualFold(args[2], "lib-name")
	if !isName && !command.EqualFold(args[2], "lib-ver") {
		c.error("ERR Unrecognized option '" + string(command.Clip(args[2], 128)) + "'")
		return
	}
	if !validClientInfo(value) {
		c.error("ERR " + strings.ToLower(string(args[2])) + " cannot contain spaces, newlines or special characters.")
		return
	}
	c.setMeta(func(m *clientMeta) {
		if isName {
			m.libName = string(value)
		} else {
			m.libVersion = string(value)
		}
	})
	c.w.OK()
}

func cmdClientSetName(c *conn, args [][]byte) {
	if !validClientInfo(args[2]) {
		c.error("ERR Client names cannot contain spaces, newlines or special characters.")
		return
	}
	c.setMeta(func(m *clientMeta) { m.name = string(args[2]) })
	c.w.OK()
}

func cmdClientGetName(c *conn, _ [][]byte) {
	if name := c.meta.Load().name; name != "" {
		c.w.BulkString(name)
	} else {
		c.w.Null()
	}
}

func cmdClientID(c *conn, _ [][]byte) { c.w.Int(int64(c.id)) }

func cmdClientInfo(c *conn, _ [][]byte) {
	c.w.Verbatim("txt", string(c.describe(nil, c.now(), time.Now())))
}

// describe appends a connection's line of CLIENT LIST. Any thread may call it. now is the
// engine's time, and wall is the time of the wall clock.
func (c *conn) describe(b []byte, now int64, wall time.Time) []byte {
	m := c.meta.Load()
	heard := c.subscriber.Shown()
	flags := c.flagLetters(m, heard)
	name := "NULL"
	if cmd := c.lastCmd.Load(); cmd != nil {
		name = cmd.Full
	}
	proto, multi, subs := 2, -1, &heard.Subscriptions
	if m.resp3 {
		proto = 3
	}
	if m.multi {
		multi = 0
	}
	return fmt.Appendf(b, "id=%d addr=%s laddr=%s fd=%d name=%s age=%d idle=%d flags=%s db=%d sub=%d psub=%d ssub=%d multi=%d "+
		"omem=%d events=rw cmd=%s user=%s redir=%d resp=%d lib-name=%s lib-ver=%s\n",
		c.id, c.addr, c.laddr, c.fd, m.name, (wall.UnixNano()-c.created)/int64(time.Second),
		max(0, now-c.lastActive.Load())/int64(time.Second), flags, m.db, subs[pubsub.Channels], subs[pubsub.Patterns], subs[pubsub.Shards], multi,
		c.inbox.size.Load(), name, m.user(), heard.Redirected(), proto, m.libName, m.libVersion)
}

func (c *conn) flagLetters(m *clientMeta, heard *pubsub.Shown) string {
	var flags []byte
	if heard.Monitoring {
		flags = append(flags, 'O')
	}
	if heard.Subscribed() {
		flags = append(flags, 'P')
	}
	if m.multi {
		flags = append(flags, 'x')
	}
	if m.noEvict {
		flags = append(flags, 'e')
	}
	if m.noTouch {
		flags = append(flags, 'T')
	}
	if heard.Tracking() {
		flags = append(flags, 't')
	}
	if strings.HasPrefix(c.addr, "/") || c.addr == ":0" {
		flags = append(flags, 'U')
	}
	if len(flags) == 0 {
		return "N"
	}
	return string(flags)
}

// sortedConnections returns the connections by id.
func (s *Server) sortedConnections() []*conn {
	all := s.clients.list()
	slices.SortFunc(all, func(a, b *conn) int { return int(int64(a.id) - int64(b.id)) })
	return all
}

func cmdClientList(c *conn, args [][]byte) {
	var filter clientFilter
	switch {
	case len(args) == 2:
	case len(args)-3 > command.MaxNames:
		c.error(command.ErrNames)
		return
	case len(args) == 4 && command.EqualFold(args[2], "type"):
		if !filter.setType(args[3]) {
			c.error("ERR Unknown client type '" + string(command.Clip(args[3], 128)) + "'")
			return
		}
	case len(args) > 3 && command.EqualFold(args[2], "id"):
		for _, a := range args[3:] {
			id, ok := resp.ParseInt(a)
			if !ok || id < 1 {
				c.error("ERR Invalid client ID")
				return
			}
			filter.addID(uint64(id))
		}
	default:
		c.error(errSyntax)
		return
	}
	srv, now := c.srv, c.now()
	c.block(func(w *resp.Writer) {
		var b []byte
		wall := time.Now()
		for _, other := range srv.sortedConnections() {
			if filter.matches(other) {
				b = other.describe(b, now, wall)
			}
		}
		w.Verbatim("txt", string(b))
	})
}

// clientFilter is a filter of CLIENT LIST and CLIENT KILL. The zero value matches all
// connections.
type clientFilter struct {
	ids         map[uint64]struct{}
	kind        string // normal or pubsub; none for kinds that never exist
	addr, laddr string
	user        string
	maxAge      int64 // seconds
	skip        *conn
}

func (f *clientFilter) addID(id uint64) {
	if f.ids == nil {
		f.ids = make(map[uint64]struct{})
	}
	f.ids[id] = struct{}{}
}

func (f *clientFilter) setType(b []byte) bool {
	kind := strings.ToLower(string(command.Clip(b, 16)))
	switch kind {
	case "normal", "pubsub":
		f.kind = kind
	case "master", "replica", "slave":
		f.kind = "none"
	default:
		return false
	}
	return true
}

func (f *clientFilter) matches(c *conn) bool {
	if f.skip == c {
		return false
	}
	if _, named := f.ids[c.id]; f.ids != nil && !named {
		return false
	}
	if f.addr != "" && f.addr != c.addr || f.laddr != "" && f.laddr != c.laddr {
		return false
	}
	if f.maxAge > 0 && time.Now().UnixNano()-c.created < f.maxAge*int64(time.Second) {
		return false
	}
	m := c.meta.Load()
	if f.user != "" && f.user != m.user() {
		return false
	}
	if f.kind == "" {
		return true
	}
	kind := "normal"
	if c.subscriber.Shown().Subscribed() {
		kind = "pubsub"
	}
	return f.kind == kind
}

func cmdClientKill(c *conn, args [][]byte) {
	if len(args) == 3 {
		f := clientFilter{addr: string(args[2])}
		c.block(func(w *resp.Writer) {
			if c.killMatching(&f) == 0 {
				w.Error("ERR No such client")
			} else {
				w.OK()
			}
		})
		return
	}
	if len(args)-2 > 2*command.MaxNames {
		c.error(command.ErrNames)
		return
	}
	f := clientFilter{skip: c}
	for i := 2; i < len(args); i += 2 {
		if i+1 >= len(args) {
			c.error(errSyntax)
			return
		}
		if msg := f.parse(c, args[i], args[i+1]); msg != "" {
			c.error(msg)
			return
		}
	}
	c.block(func(w *resp.Writer) { w.Int(int64(c.killMatching(&f))) })
}

// parse adds one condition of CLIENT KILL. It returns an error's text if the condition is
// invalid.
func (f *clientFilter) parse(c *conn, option, value []byte) string {
	switch {
	case command.EqualFold(option, "id"):
		id, ok := resp.ParseInt(value)
		if !ok || id < 1 {
			return "ERR client-id should be greater than 0"
		}
		f.addID(uint64(id))
	case command.EqualFold(option, "type"):
		if !f.setType(value) {
			return "ERR Unknown client type '" + string(command.Clip(value, 128)) + "'"
		}
	case command.EqualFold(option, "addr"):
		f.addr = string(value)
	case command.EqualFold(option, "laddr"):
		f.laddr = string(value)
	case command.EqualFold(option, "user"):
		if f.user = string(value); !slices.Contains(c.srv.users(), f.user) {
			return "ERR No such user '" + string(command.Clip(value, 128)) + "'"
		}
	case command.EqualFold(option, "maxage"):
		age, ok := resp.ParseInt(value)
		if !ok || age <= 0 || age > int64(1<<32) {
			return "ERR maxage is not an integer or out of range"
		}
		f.maxAge = age
	case command.EqualFold(option, "skipme") && command.EqualFold(value, "yes"):
		f.skip = c
	case command.EqualFold(option, "skipme") && command.EqualFold(value, "no"):
		f.skip = nil
	default:
		return errSyntax
	}
	return ""
}

// killMatching closes the connections that match f, and returns their number. Any thread
// may call it. If c itself matches, it gets its reply first.
func (c *conn) killMatching(f *clientFilter) int {
	n := 0
	for _, other := range c.srv.clients.list() {
		if !f.matches(other) {
			continue
		}
		n++
		if other == c {
			c.post(func() { c.ending = closes })
		} else {
			other.post(other.kill)
		}
	}
	return n
}

// onOff parses ON or OFF, or replies an error.
func (c *conn) onOff(b []byte) (on, ok bool) {
	switch {
	case command.EqualFold(b, "on"):
		return true, true
	case command.EqualFold(b, "off"):
		return false, true
	}
	c.error(errSyntax)
	return false, false
}

func cmdClientNoEvict(c *conn, args [][]byte) {
	if on, ok := c.onOff(args[2]); ok {
		c.setMeta(func(m *clientMeta) { m.noEvict = on })
		c.w.OK()
	}
}

func cmdClientNoTouch(c *conn, args [][]byte) {
	if on, ok := c.onOff(args[2]); ok {
		c.setMeta(func(m *clientMeta) { m.noTouch = on })
		c.w.OK()
	}
}

func cmdClientPause(c *conn, args [][]byte) {
	ms, ok := resp.ParseInt(args[2])
	if !ok || ms > int64(maxPause/time.Millisecond) {
		c.error("ERR timeout is not an integer or out of range")
		return
	}
	if ms < 0 {
		c.error("ERR timeout is negative")
		return
	}
	writeOnly := false
	if len(args) > 3 {
		writeOnly = command.EqualFold(args[3], "write")
		if len(args) > 4 {
			c.error(errSyntax)
			return
		}
		if !writeOnly && !command.EqualFold(args[3], "all") {
			c.error("ERR CLIENT PAUSE mode must be WRITE or ALL")
			return
		}
	}
	c.srv.pause(time.Duration(ms)*time.Millisecond, writeOnly)
	c.w.OK()
}

// maxPause bounds CLIENT PAUSE. A longer pause is probably a mistake of units.
const maxPause = 365 * 24 * time.Hour

func cmdClientUnpause(c *conn, _ [][]byte) {
	c.srv.unpause()
	c.w.OK()
}

func cmdClientReply(c *conn, args [][]byte) {
	switch {
	case command.EqualFold(args[2], "on"):
		c.mode &^= modeReplyOff | modeReplySkip | modeSkipNext
		c.w.OK()
	case command.EqualFold(args[2], "off"):
		c.mode |= modeReplyOff
	case command.EqualFold(args[2], "skip"):
		if c.mode&modeReplyOff == 0 {
			c.mode |= modeSkipNext
		}
	default:
		c.error(errSyntax)
	}
}
