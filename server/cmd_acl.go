package server

import (
	"slices"
	"strings"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/access"
	"github.com/headgate-io/headgate/server/command"
)

// aclCommands returns ACL, which describes the two existing users (user.go). Other users
// are not supported; the errors of ACL say so.
func aclCommands() []command.Spec {
	const flags = command.Loading | command.Stale | command.NoScript
	sub := func(name string, arity int, extra command.Flag, syntax, summary string, handler command.Handler) command.Spec {
		return command.Spec{
			Name: name, Arity: arity, Flags: flags | extra, Group: "server", Complexity: "O(1)",
			Summary: summary, Syntax: syntax, Handler: handler,
		}
	}
	set := sub("setuser", -3, command.Admin, "username [rule [rule ...]]", "Refused: there are default and admin.", onConn(cmdACLUnsupported))
	set.Secrets = func(args [][]byte, at []int) []int { return hideFrom(2, args, at) }
	return []command.Spec{{
		Name: "acl", Arity: -2, Group: "server", Complexity: "Depends on subcommand.",
		Summary: "A container for Access List Control commands.",
		Subs: []command.Spec{
			sub("whoami", 2, 0, "", "Returns the authenticated username of the current connection.", onConn(cmdACLWhoAmI)),
			sub("users", 2, command.Admin, "", "Lists all ACL users.", onConn(cmdACLUsers)),
			sub("list", 2, command.Admin, "", "Dumps the effective rules in ACL file format.", onConn(cmdACLList)),
			sub("getuser", 3, command.Admin, "username", "Lists the ACL rules of a user.", onConn(cmdACLGetUser)),
			sub("cat", -2, 0, "[category]", "Lists the ACL categories, or the commands inside a category.", onConn(cmdACLCat)),
			set,
			sub("deluser", -3, command.Admin, "username [username ...]", "Refused: there are default and admin.", onConn(cmdACLUnsupported)),
		},
	}}
}

func cmdACLWhoAmI(c *conn, _ [][]byte) { c.w.BulkString(c.meta.Load().user()) }

func cmdACLUsers(c *conn, _ [][]byte) { writeStrings(c.w, c.srv.users()) }

func writeStrings(w *resp.Writer, all []string) {
	w.Array(len(all))
	for _, s := range all {
		w.BulkString(s)
	}
}

// passwordFlag returns ACL's flag for whether a user needs a password.
func (s *Server) passwordFlag(user string) string {
	if user == access.UserDefault && s.password() == "" {
		return "nopass"
	}
	return "sanitize-payload"
}

// commandsOf returns ACL's description of the commands that a user may run.
func (s *Server) commandsOf(user string) string {
	if user == access.UserDefault && s.guards() {
		return "+@all -@guarded"
	}
	return "+@all"
}

func cmdACLList(c *conn, _ [][]byte) {
	var lines []string
	for _, user := range c.srv.users() {
		lines = append(lines, "user "+user+" on "+c.srv.passwordFlag(user)+" ~* &* "+c.srv.commandsOf(user))
	}
	writeStrings(c.w, lines)
}

func cmdACLGetUser(c *conn, args [][]byte) {
	user := string(args[2])
	if !slices.Contains(c.srv.users(), user) {
		c.w.Null()
		return
	}
	c.w.Map(6)
	c.w.BulkString("flags")
	c.w.Set(2)
	c.w.BulkString("on")
	c.w.BulkString(c.srv.passwordFlag(user))
	c.w.BulkString("passwords")
	c.w.Array(0)
	for _, f := range [][2]string{{"commands", c.srv.commandsOf(user)}, {"keys", "~*"}, {"channels", "&*"}} {
		c.w.BulkString(f[0])
		c.w.BulkString(f[1])
	}
	c.w.BulkString("selectors")
	c.w.Array(0)
}

func cmdACLCat(c *conn, args [][]byte) {
	if len(args) == 2 {
		writeStrings(c.w, command.CategoryNames())
		return
	}
	category := command.CategoryNamed(strings.ToLower(string(command.Clip(args[2], 64))))
	if category == 0 || len(args) > 3 {
		c.error("ERR Unknown category '" + string(command.Clip(args[2], 128)) + "'")
		return
	}
	var names []string
	c.srv.table.Each(func(cmd *command.Spec) {
		if cmd.Categories&category != 0 {
			names = append(names, cmd.Full)
		}
	})
	writeStrings(c.w, names)
}

func cmdACLUnsupported(c *conn, _ [][]byte) {
	c.error("ERR ACL users are not supported: the only users are default (set requirepass) and admin (set admin-pass)")
}
