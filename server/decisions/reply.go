package decisions

import (
	"bytes"
	"slices"

	"github.com/headgate-io/headgate/resp"
)

// class is a coarse kind of reply, which is quick to find.
type class uint8

const (
	// none means that no limit has decided: the client must ask another node, or later.
	none class = iota
	passed
	// told means a notable reply: a denial, an error, a pass although a limit that does not
	// deny is over, or a reply without a leader.
	told
)

// classOf returns the class of a command's reply. If the reply contains limits in shadow,
// classOf reads all of it.
func classOf(name string, reply []byte) class {
	if len(reply) == 0 {
		return none
	}
	switch reply[0] {
	case '-':
		if bytes.HasPrefix(reply, []byte("-MOVED ")) {
			return none
		}
		return told
	case '*', '%':
	default:
		return none
	}
	first := firstValue(reply)
	switch name {
	case "cl.throttle", "rl.throttle", "gcra": // the first value says whether the call is limited
		if string(first) != ":0" {
			return told
		}
		return passed
	case "rl.descriptors":
		if string(first) != "ok" || bytes.Contains(reply, []byte("$8\r\nexceeded\r\n")) {
			return told
		}
	case "rl.check", "rl.reserve":
		if string(first) == ":0" || !bytes.HasSuffix(reply, []byte("*0\r\n")) || inShadow(reply) { // the list of soft limits is at the end
			return told
		}
	default:
		if string(first) == ":0" {
			return told
		}
	}
	if bytes.HasSuffix(reply, []byte("$8\r\ndegraded\r\n#t\r\n")) {
		return told
	}
	return passed
}

// firstValue returns the first value of a collection: a string's text, or else the whole
// line.
func firstValue(reply []byte) []byte {
	line, rest := cutLine(reply)
	named := line[0] == '%'
	for {
		if line, rest = cutLine(rest); len(line) > 0 && line[0] == '$' {
			line, rest = cutLine(rest)
		}
		if !named {
			return line
		}
		named = false
	}
}

// cutLine returns the first line and the rest.
func cutLine(b []byte) (line, rest []byte) {
	line, rest, _ = bytes.Cut(b, []byte("\r\n"))
	return line, rest
}

// inShadow reports whether a limit in shadow would have denied a check.
func inShadow(reply []byte) bool {
	if !bytes.Contains(reply, []byte("$6\r\nshadow\r\n")) {
		return false
	}
	r, err := resp.DecodeReply(reply)
	return err == nil && len(wouldDeny(&r)) > 0
}

// Names of the values in replies, in the order of RESP2.
var (
	checkNames    = []string{"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "name", "reason", "hold", "version", "applied", "limits", "soft"}
	limitNames    = []string{"name", "allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "cost", "mode"}
	rulingNames   = []string{"code", "binding", "reason", "version", "descriptors"}
	statusNames   = []string{"code", "limit", "unit", "multiplier", "name", "remaining", "reset_ms", "retry_after_ms", "flags"}
	decisionNames = []string{"allowed", "limit", "remaining", "retry_after_ms", "reset_after_ms", "delay_ms", "limits"}
	acquireNames  = []string{"allowed", "limit", "remaining", "retry_after_ms"}
	// These replies have times in seconds.
	cellNames = []string{"limited", "limit", "remaining", "retry_after"}
	crabNames = []string{"allowed", "limit", "remaining", "reset_after", "retry_after"}
)

// values finds the values of a reply by their names.
type values struct {
	of    *resp.Reply
	names []string
}

// get returns a value; an empty reply if it is missing.
func (v values) get(name string) *resp.Reply {
	if v.of.Type == '%' {
		if r := v.of.Field(name); r != nil {
			return r
		}
		return &resp.Reply{}
	}
	if at := slices.Index(v.names, name); at >= 0 && at < len(v.of.Elems) {
		return &v.of.Elems[at]
	}
	return &resp.Reply{}
}

func (v values) text(name string) string  { return v.get(name).Str }
func (v values) number(name string) int64 { return v.get(name).Int }

// texts returns the texts in a list.
func (v values) texts(name string) (all []string) {
	for _, e := range v.get(name).Elems {
		all = append(all, e.Str)
	}
	return all
}

// each returns the values of the members of a list.
func (v values) each(name string, names []string) (all []values) {
	list := v.get(name).Elems
	for i := range list {
		all = append(all, values{&list[i], names})
	}
	return all
}

// wouldDeny returns the names of the limits in shadow that would have denied a check.
func wouldDeny(reply *resp.Reply) (limits []string) {
	for _, l := range (values{reply, checkNames}).each("limits", limitNames) {
		if l.text("mode") == "shadow" && l.number("allowed") == 0 {
			limits = append(limits, l.text("name"))
		}
	}
	return limits
}
