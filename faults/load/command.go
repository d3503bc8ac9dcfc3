package load

import (
	"strconv"
	"strings"
	"time"

	"github.com/headgate-io/headgate/faults/history"
	"github.com/headgate-io/headgate/internal/respclient"
	"github.com/headgate-io/headgate/resp"
)

// Between is how many commands that add nothing stand between the two of a Pair: so much time there is to see half of it.
const Between = 60

// Encode appends the command of a call, or the commands of its transaction.
func Encode(b []byte, c *history.Call, key, other history.Key) []byte {
	if commands := counting(c, key); commands != nil {
		for _, args := range commands {
			b = respclient.Append(b, args...)
		}
		return b
	}
	if c.Kind == history.Pair && !isScript(key) {
		b = respclient.Append(b, "MULTI")
		b = respclient.Append(b, "INCREX", key.Name, "BYINT", number(c.Cost))
		for range Between {
			b = respclient.Append(b, "INCREX", key.Name, "BYINT", "0")
		}
		b = respclient.Append(b, "INCREX", other.Name, "BYINT", number(c.Cost))
		return respclient.Append(b, "EXEC")
	}
	return respclient.Append(b, Arguments(c, key, other)...)
}

// Preceding is how many replies precede that of a call: those of a transaction's other commands.
func Preceding(c *history.Call, key history.Key) int {
	if commands := counting(c, key); commands != nil {
		return len(commands) - 1
	}
	if c.Kind == history.Pair && !isScript(key) {
		return Between + 3
	}
	return 0
}

// resets are the commands that forget a key, and valueResets those for a value of Redis's types.
var (
	resets      = [...][]string{{"RL.RESET"}, {"DEL"}, {"UNLINK"}}
	valueResets = [...][]string{{"EXPIRE", "0"}, {"DEL"}, {"UNLINK"}}
)

// Arguments is the command of a call that is one command; key describes its key, and other its second one.
func Arguments(c *history.Call, key, other history.Key) []string {
	switch c.Kind {
	case history.Reset:
		forms := resets
		if isCounting(key) || isScript(key) {
			forms = valueResets
		}
		form := forms[int(c.Other)%len(forms)]
		return append([]string{form[0], key.Name}, form[1:]...)
	case history.Acquire:
		return []string{"RL.ACQUIRE", key.Name, number(c.Limit), millis(key.Period), "ID", number(int32(c.Other))}
	case history.Release:
		return []string{"RL.RELEASE", key.Name, number(int32(c.Other))}
	}
	if c.Kind == history.Check {
		return checkArguments(c, key.Caller)
	}
	if isScript(key) {
		return scriptArguments(c, key, other)
	}
	switch key.Command {
	case "CL.THROTTLE":
		return []string{key.Command, key.Name, number(c.Limit - 1), number(c.Limit), seconds(key.Period), number(c.Cost)}
	case "THROTTLE":
		return []string{key.Command, key.Name, number(c.Limit), number(c.Limit), seconds(key.Period), number(c.Cost)}
	case "GCRA":
		return []string{key.Command, key.Name, number(c.Limit - 1), number(c.Limit), seconds(key.Period), "TOKENS", number(c.Cost)}
	case "INCREX":
		return []string{key.Command, key.Name, "BYINT", number(c.Cost), "UBOUND", number(c.Limit),
			"PX", strconv.FormatInt(key.Period.Milliseconds(), 10), "ENX"}
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
	if key.Algorithm == history.Fixed || key.Algorithm == history.Sliding {
		args = append(args, "ALIGN", "first")
	}
	switch key.Option {
	case history.Debt:
		args = append(args, "DEBT", number(key.Extra))
	case history.Wait:
		args = append(args, "WAIT", number(int32((key.Refill() * time.Duration(key.Extra)).Milliseconds())))
	case history.AtMost:
		args = append(args, "ATMOST")
	}
	return args
}

func number(n int32) string { return strconv.Itoa(int(n)) }

func millis(d time.Duration) string { return strconv.FormatInt(d.Milliseconds(), 10) + "ms" }

func seconds(d time.Duration) string { return strconv.FormatInt(int64(d/time.Second), 10) }

// refusals are the codes of errors that say that a command was certainly not executed.
var refusals = map[string]bool{"CLUSTERDOWN": true, "TRYAGAIN": true, "LOADING": true, "MOVED": true, "OOM": true, "BUSY": true}

// classify fills in what a reply says of its call. key need not be described if it is asked for by RL.LIMIT without
// options. It returns the code of an error reply, or "".
func classify(c *history.Call, r *resp.Reply, key history.Key) string {
	command := key.Command
	if text := r.Error(); text != "" {
		code, _, _ := strings.Cut(text, " ")
		c.Outcome = history.Unknown
		if refusals[code] {
			c.Outcome = history.Refused
		}
		return code
	}
	if c.Kind == history.Limit && isCounting(key) {
		return compare(c, r, key)
	}
	allowed, remaining := int64(0), int64(0)
	switch {
	case c.Kind == history.Check:
		var ok bool
		if allowed, remaining, ok = checked(c, r); !ok {
			return malformed
		}
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
	case c.Kind == history.Pair:
		allowed = int64(len(r.Elems)) // nil if the transaction was given up
	case command == "INCREX" && len(r.Elems) == 2:
		allowed, remaining = r.Elems[1].Int, max(0, int64(c.Limit)-r.Elems[0].Int)
	case len(r.Elems) >= 3:
		allowed, remaining = r.Elems[0].Int, r.Elems[2].Int
		if command == "CL.THROTTLE" || command == "GCRA" {
			allowed = 1 - allowed // they answer whether the call is limited
		}
	}
	c.Outcome = history.Denied
	if allowed > 0 {
		c.Outcome = history.Admitted
	}
	if key.Option == history.AtMost && allowed > 0 {
		c.Cost = int32(allowed) // what was granted
	}
	c.Remaining = int32(min(remaining, 1<<31-1))
	return ""
}
