package decisions

import (
	"log/slog"
	"slices"

	"github.com/headgate-io/headgate/resp"
	"github.com/headgate-io/headgate/server/checks"
)

// Results of a call, as lines show them.
const (
	resultAllowed = "allowed"
	resultDenied  = "denied"
	resultShadow  = "shadow" // allowed, but a limit in shadow would have denied it
	resultSoft    = "soft"   // allowed, but a soft limit is over
	resultError   = "error"
)

// withoutLevel removes the fields that are the same in all lines.
func withoutLevel(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && (a.Key == slog.LevelKey || a.Key == slog.MessageKey) {
		return slog.Attr{}
	}
	return a
}

// line returns the line of a record.
func (l *Log) line(r *record) slog.Record {
	out := slog.NewRecord(r.at, slog.LevelInfo, "", 0)
	out.AddAttrs(slog.String("front", r.origin.Front), slog.String("command", r.cmd.Upper))
	reply, err := resp.DecodeReply(r.reply)
	if err != nil { // the reply is not in Headgate's form
		reply = resp.Reply{Type: '-', Str: err.Error()}
	}
	switch r.cmd.Name {
	case "rl.check", "rl.reserve":
		l.check(&out, r, &reply)
	case "rl.descriptors":
		l.descriptors(&out, r, &reply)
	default:
		l.plain(&out, r, &reply)
	}
	if text := reply.Error(); text != "" {
		out.AddAttrs(slog.String("result", resultError), slog.String("error", l.redact.failure(text)))
	}
	if d := reply.Field("degraded"); d != nil && d.Str == "t" {
		out.AddAttrs(slog.Bool("degraded", true))
	}
	for _, id := range []struct{ name, value string }{{"request_id", r.origin.Request}, {"trace_id", r.origin.Trace}} {
		if id.value != "" {
			out.AddAttrs(slog.String(id.name, id.value[:min(len(id.value), maxID)]))
		}
	}
	if r.oneIn > 1 {
		out.AddAttrs(slog.Int64("one_in", r.oneIn))
	}
	return out
}

// verdict adds a result and the remaining units. For a denied call it also adds the wait in
// ms.
func verdict(out *slog.Record, result string, remaining, retry int64) {
	out.AddAttrs(slog.String("result", result))
	if remaining >= 0 {
		out.AddAttrs(slog.Int64("remaining", remaining))
	}
	if result == resultDenied {
		out.AddAttrs(slog.Int64("retry_after_ms", retry))
	}
}

// names adds a list of names, unless it is empty.
func names(out *slog.Record, key string, list []string) {
	if len(list) > 0 {
		out.AddAttrs(slog.Any(key, list))
	}
}

// check fills in the line of an RL.CHECK or RL.RESERVE.
func (l *Log) check(out *slog.Record, r *record, reply *resp.Reply) {
	out.AddAttrs(slog.String("policy", string(r.args[1])))
	if reply.Error() == "" {
		v := values{reply, checkNames}
		out.AddAttrs(slog.Int64("version", v.number("version")))
		shadow, soft := wouldDeny(reply), v.texts("soft")
		result := resultAllowed
		switch {
		case v.number("allowed") == 0:
			result = resultDenied
		case len(shadow) > 0:
			result = resultShadow
		case len(soft) > 0:
			result = resultSoft
		}
		name := v.text("name")
		if name != "" {
			out.AddAttrs(slog.String("limit", name))
		}
		verdict(out, result, v.number("remaining"), v.number("retry_after_ms"))
		out.AddAttrs(slog.String("reason", v.text("reason")))
		for _, limit := range v.each("limits", limitNames) {
			if name != "" && limit.text("name") == name {
				out.AddAttrs(slog.Int64("cost", limit.number("cost")))
			}
		}
		names(out, "would_deny", shadow)
		names(out, "soft", soft)
	}
	asked, err := checks.AskedBy(r.cmd.Name, r.args)
	if err != nil {
		return
	}
	if asked.Peek {
		out.AddAttrs(slog.Bool("peek", true))
	}
	var attributes []any
	for pairs := asked.Lists[0]; len(pairs) > 1; pairs = pairs[2:] {
		attributes = append(attributes, slog.String(string(pairs[0]), l.redact.value(string(pairs[0]), pairs[1])))
	}
	out.AddAttrs(slog.Group("attributes", attributes...))
}

// descriptors fills in the line of an RL.DESCRIPTORS. The line describes the descriptor
// that decides the request or, if there is none, the first whose limit is over.
func (l *Log) descriptors(out *slog.Record, r *record, reply *resp.Reply) {
	out.AddAttrs(slog.String("policy", string(r.args[1])))
	at := 0
	if reply.Error() == "" {
		v := values{reply, rulingNames}
		out.AddAttrs(slog.Int64("version", v.number("version")))
		statuses := v.each("descriptors", statusNames)
		over := slices.IndexFunc(statuses, func(s values) bool { return slices.Contains(s.texts("flags"), "exceeded") })
		result := resultAllowed
		switch {
		case v.text("code") != "ok":
			result = resultDenied
		case over >= 0:
			result = resultShadow
		}
		at = max(int(v.number("binding")), 0)
		if result == resultShadow {
			at = over
		}
		if at < len(statuses) {
			if name := statuses[at].text("name"); name != "" {
				out.AddAttrs(slog.String("limit", name))
			}
			verdict(out, result, statuses[at].number("remaining"), statuses[at].number("retry_after_ms"))
		}
		out.AddAttrs(slog.String("reason", v.text("reason")), slog.Int("descriptors", len(statuses)))
	}
	asked, err := checks.AskedBy(r.cmd.Name, r.args)
	if err != nil || at >= len(asked.Lists) {
		return
	}
	if asked.Peek {
		out.AddAttrs(slog.Bool("peek", true))
	}
	var entries []string
	for pairs := asked.Lists[at]; len(pairs) > 1; pairs = pairs[2:] {
		entries = append(entries, string(pairs[0])+"="+l.redact.value(string(pairs[0]), pairs[1]))
	}
	out.AddAttrs(slog.Any("descriptor", entries))
}

// plain fills in the line of a call that brings its own limits. The line describes the
// first limit that denies the call or, if none does, the first limit.
func (l *Log) plain(out *slog.Record, r *record, reply *resp.Reply) {
	at := 0
	if reply.Error() == "" {
		v, denied := values{reply, decisionNames}, false
		retry := v.number("retry_after_ms")
		switch r.cmd.Name {
		case "cl.throttle", "rl.throttle", "gcra":
			v.names = cellNames
			denied, retry = v.number("limited") != 0, inMillis(v.number("retry_after"))
		case "throttle":
			v.names = crabNames
			denied, retry = v.number("allowed") == 0, inMillis(v.number("retry_after"))
		case "rl.acquire":
			v.names = acquireNames
			denied = v.number("allowed") == 0
		default:
			denied = v.number("allowed") == 0
			at = max(slices.IndexFunc(v.each("limits", decisionNames), func(one values) bool { return one.number("allowed") == 0 }), 0)
		}
		result := resultAllowed
		if denied {
			result = resultDenied
		}
		verdict(out, result, v.number("remaining"), retry)
	}
	if keys := r.cmd.Keys.Positions(r.args, nil); at < len(keys) {
		out.AddAttrs(slog.String("key", l.redact.value("", r.args[keys[at]])))
	}
}

// inMillis converts seconds to ms. A negative number, which means no wait, stays.
func inMillis(seconds int64) int64 {
	if seconds < 0 {
		return -1
	}
	return seconds * 1000
}
