package load

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/faults/resp"
)

// Encode appends the command of a call.
func Encode(b []byte, c *history.Call, key, other history.Key) []byte {
	return resp.Append(b, Arguments(c, key, other)...)
}

// Arguments is the command of a call; key describes its key, and other its second one.
func Arguments(c *history.Call, key, other history.Key) []string {
	switch c.Kind {
	case history.Reset:
		return []string{"RL.RESET", key.Name}
	case history.Acquire:
		return []string{"RL.ACQUIRE", key.Name, number(c.Limit), millis(key.Period), "ID", number(int32(c.Other))}
	case history.Release:
		return []string{"RL.RELEASE", key.Name, number(int32(c.Other))}
	}
	args := limit([]string{"RL.LIMIT"}, key, c.Limit, c.Cost)
	if c.Kind == history.Transfer {
		args = limit(append(args, "AND"), other, c.Limit, -c.Cost)
	}
	return args
}

// limit appends one segment of RL.LIMIT.
func limit(args []string, key history.Key, n, cost int32) []string {
	args = append(args, key.Name, number(n), millis(key.Period), "ALGORITHM", string(key.Algorithm), "COST", number(cost))
	if key.Algorithm == history.Fixed {
		args = append(args, "ALIGN", "first")
	}
	return args
}

func number(n int32) string { return strconv.Itoa(int(n)) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

// refusals are the codes of errors that say that a command was certainly not executed.
var refusals = map[string]bool{"CLUSTERDOWN": true, "TRYAGAIN": true, "LOADING": true, "MOVED": true, "OOM": true}

// classify fills in what a reply says of its call. It returns the code of an error reply, or "".
func classify(c *history.Call, r *resp.Reply) string {
	if text := r.Error(); text != "" {
		code, _, _ := strings.Cut(text, " ")
		c.Outcome = history.Unknown
		if refusals[code] {
			c.Outcome = history.Refused
		}
		return code
	}
	allowed, remaining := int64(0), int64(0)
	switch {
	case r.Type == '%':
		if f := r.Field("allowed"); f != nil {
			allowed = f.Int
		}
		if f := r.Field("remaining"); f != nil {
			remaining = f.Int
		}
		c.Local = r.Field("degraded") != nil
	case r.Type == ':':
		allowed = 1 // RL.RELEASE and RL.RESET answer how many there were
	case len(r.Elems) >= 3:
		allowed, remaining = r.Elems[0].Int, r.Elems[2].Int
	}
	c.Outcome = history.Denied
	if allowed > 0 {
		c.Outcome = history.Admitted
	}
	c.Remaining = int32(min(remaining, 1<<31-1))
	return ""
}
