package native

import (
	"strings"
	"time"

	"github.com/headgate-io/headgate/engine/algo"
)

// countingScripts count calls in windows: INCR, and EXPIRE at the first one.
var countingScripts = []Script{
	{Library: "INCR and EXPIRE at the first", Instead: "INCREX key EX seconds ENX", Counts: true, forms: countingForms("expire", time.Second)},
	{Library: "INCR and PEXPIRE at the first", Instead: "INCREX key PX milliseconds ENX", Counts: true, forms: countingForms("pexpire", time.Millisecond)},
}

// counting is what differs between these scripts.
type counting struct {
	window int // index of the argument with the length of a window, -1 for a constant
	length int64
	unit   time.Duration // of the window
	limit  int           // index of the argument with the limit; -1 if there is none
	reply  countReply
}

// countReply is what a counting script replies.
type countReply uint8

const (
	replyNothing   countReply = iota
	replyCount                // the count
	replyBefore               // the count before this call
	replyAllowed              // 1 up to the limit, 0 above
	replyLimited              // 0 up to the limit, 1 above
	replyCountTTL             // the count and the TTL in s
	replyCountPTTL            // the count and the TTL in ms
)

// countReplies are the ways in which scripts write each reply after they have counted.
// Names of locals and the case of commands do not matter.
var countReplies = [...][]string{
	replyNothing: {""},
	replyCount:   {"return c", "return tonumber(c)"},
	replyBefore:  {"return c - 1"},
	replyAllowed: {
		"if c > LIMIT then return 0 end return 1", "if c > LIMIT then return 0 else return 1 end",
		"if c <= LIMIT then return 1 end return 0", "if c <= LIMIT then return 1 else return 0 end",
		"if tonumber(c) > LIMIT then return 0 end return 1", "if tonumber(c) > LIMIT then return 0 else return 1 end",
		"return c <= LIMIT and 1 or 0", "return c > LIMIT and 0 or 1",
	},
	replyLimited: {
		"if c > LIMIT then return 1 end return 0", "if c > LIMIT then return 1 else return 0 end",
		"if c <= LIMIT then return 0 end return 1", "if c <= LIMIT then return 0 else return 1 end",
		"return c > LIMIT and 1 or 0",
	},
	replyCountTTL:  {"return {c, redis.call('ttl', KEYS[1])}", "local t = redis.call('ttl', KEYS[1]) return {c, t}"},
	replyCountPTTL: {"return {c, redis.call('pttl', KEYS[1])}", "local t = redis.call('pttl', KEYS[1]) return {c, t}"},
}

// countingForms returns the texts of a script that sets the time to live with a command.
func countingForms(command string, unit time.Duration) func() []form {
	return func() (list []form) {
		for reply, texts := range countReplies {
			k := counting{unit: unit, reply: countReply(reply)}
			for _, count := range [...]string{"c", "tonumber(c)"} {
				for _, window := range [...]string{"WINDOW", "tonumber(WINDOW)", "LENGTH"} {
					counts := "local c = redis.call('incr', KEYS[1]) if " + count + " == 1 then redis.call('" + command + "', KEYS[1], " + window + ") end "
					for _, text := range texts {
						list = append(list, form{text: spelt(counts + text), bind: k.bind})
					}
				}
			}
		}
		return list
	}
}

// spelt returns a text with the parameters of forms in place of their names.
func spelt(text string) string { return spelling.Replace(text) }

var spelling = strings.NewReplacer(
	"LIMIT", "tonumber(ARGV[9001])", "WINDOW", "ARGV[9002]", "LENGTH", "9008",
)

func (k counting) bind(p *params) func(c *Call) bool {
	k.window, k.limit = p.arg(argWindow), p.arg(argLimit)
	if p.has(argWindow) && k.window < 0 || p.has(argLimit) && k.limit < 0 {
		return nil
	}
	if n, ok := p.number(constTTL); ok {
		if k.length = int64(n); n != float64(k.length) {
			return nil
		}
	} else if p.has(constTTL) {
		return nil
	}
	return k.run
}

func (k counting) run(c *Call) bool {
	n, limit := k.length, int64(0)
	if k.window >= 0 {
		n = c.whole(k.window)
	}
	if k.limit >= 0 {
		limit = c.whole(k.limit)
	}
	at := c.after(n, k.unit)
	if k.reply == replyCountTTL || k.reply == replyCountPTTL {
		return k.countAndTTL(c, at)
	}
	count, ok := c.count(1, at)
	switch {
	case !ok:
	case k.reply == replyNothing:
		c.W.Null()
	case k.reply == replyCount:
		c.W.Int(count)
	case k.reply == replyBefore:
		c.W.Int(count - 1)
	default:
		c.W.Int(truth((count <= limit) == (k.reply == replyAllowed)))
	}
	return ok
}

// countAndTTL counts in a window that ends at a time, and also replies the TTL.
func (k counting) countAndTTL(c *Call, at int64) bool {
	v := c.open(0, algo.Counter)
	if v == nil {
		return false
	}
	defer v.Close()
	count, ok := c.add(v, 1)
	if !ok {
		return false
	}
	if count == 1 {
		v.SetDeadline(at)
	}
	left := c.pttl(v)
	if k.reply == replyCountTTL {
		left = c.ttl(v)
	}
	c.pair(count, left)
	return true
}

// truth returns 1 for true, otherwise 0.
func truth(is bool) int64 {
	if is {
		return 1
	}
	return 0
}
